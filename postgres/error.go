package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	justonce "github.com/justonce-dev/justonce"
)

// An unavailableError is a failure of the ledger: justonce.ErrUnavailable and
// its cause, with a hint for the operator where there is one.
type unavailableError struct {
	step  string
	cause error
}

func (e *unavailableError) Error() string {
	s := fmt.Sprintf("postgres: %s: %v", e.step, e.cause)
	if hint := hintFor(e.cause); hint != "" {
		s += " (" + hint + ")"
	}
	return s
}

func (e *unavailableError) Unwrap() []error { return []error{justonce.ErrUnavailable, e.cause} }

func unavailable(step string, cause error) error {
	if e := (*unavailableError)(nil); cause == nil || errors.As(cause, &e) {
		return cause
	}
	return &unavailableError{step: step, cause: cause}
}

// hintFor returns what an operator can do.
func hintFor(err error) string {
	switch code := codeOf(err); {
	case code == "3D000":
		return "create the database first, such as by: createdb NAME"
	case code == "53300":
		return "the server's connections are used up: lower MaxConns, or use PgBouncer with pgbouncer=true"
	case code == "53100":
		return "the server's disk is full: free some space; no restart is needed"
	case code == "42501":
		return "the role lacks a privilege: run migrate once as the owner of the schema, and grant the role its tables"
	case code == "3F000" || code == "42P01":
		return "the ledger's schema is not there: run migrate"
	case code == "42P07" || code == "42703":
		return "the schema seems to belong to another application: name another"
	case code == "25006":
		return "the server is read-only, perhaps a standby: add target_session_attrs=read-write"
	case code == "26000" || code == "42P05" || code == "08P01":
		return "if that is PgBouncer in transaction mode, add pgbouncer=true"
	case code == "55P03":
		return "another transaction holds the same key or row: keep transactions short"
	case strings.HasPrefix(code, "28"):
		return "check user, password and database"
	}
	return ""
}

var errClosed = errors.New("the store is closed")

var errNoLedger = errors.New("there is no ledger in this database; serve or migrate creates one")

// codeOf returns the SQLSTATE that the server gave, or "".
func codeOf(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// undone reports whether err proves that the transaction had no effect, and
// that the same again may well succeed.
func undone(err error) bool {
	if errors.Is(err, errTaken) {
		return true
	}
	switch codeOf(err) {
	case "40001", "40P01", // serialization failure, deadlock
		"23505",          // two writers of one row: the next look finds it
		"26000", "0A000": // a statement prepared before somebody changed something
		return true
	case "":
		return pgconn.SafeToRetry(err)
	}
	return false
}

// refused reports whether the cause may be one row of a statement, so that each
// must be tried by itself.
func refused(err error) bool {
	code := codeOf(err)
	for _, class := range []string{"22", "23", "54"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return code == "53200" || code == "55P03" // out of memory; a lock that somebody holds
}

// damaged is the error of a row that is there and cannot be read.
func damaged(key string, err error) error {
	return unavailable(fmt.Sprintf("reading operation %q", key), err)
}

func invalid(field, detail string) error {
	return fmt.Errorf("postgres: %w", &justonce.InvalidError{Field: field, Detail: detail})
}

// callError says which call failed; what is not an answer of the ledger is
// its failure.
func callError(ctx context.Context, call string, err error) error {
	for _, answer := range []error{justonce.ErrNotFound, justonce.ErrStale, justonce.ErrReferenceTaken, justonce.ErrConflict, justonce.ErrInvalid} {
		if errors.Is(err, answer) {
			return fmt.Errorf("postgres: %s: %w", call, err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("postgres: %s: %w", call, context.Cause(ctx))
	}
	return unavailable(call, err)
}

// errTaken: somebody else was faster. The same again meets what he recorded.
var errTaken = errors.New("another transaction has recorded the same")

// isUnique reports whether a row with the same key or identity is there.
func isUnique(err error) bool { return codeOf(err) == "23505" }
