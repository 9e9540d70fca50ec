package redis

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	justonce "github.com/justonce-dev/justonce"
)

// An unavailableError is a failure of the ledger: justonce.ErrUnavailable and
// its cause, with a hint for the operator where there is one.
type unavailableError struct {
	step  string
	cause error
}

func (e *unavailableError) Error() string {
	s := fmt.Sprintf("redis: %s: %v", e.step, e.cause)
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
	if codeOf(cause) == "LEDGERGONE" {
		cause = errGone
	}
	return &unavailableError{step: step, cause: cause}
}

var hints = map[string]string{
	"NOAUTH":      "give user and password in the URL",
	"WRONGPASS":   "check user and password in the URL",
	"NOPERM":      "allow the user the keys and channels that begin with the ledger's prefix, scripts, and CONFIG GET, INFO and ROLE",
	"READONLY":    "the server is a replica: name the primary, or Sentinels with master_set",
	"MASTERDOWN":  "the server is a replica that has lost its primary: name the primary",
	"MOVED":       "the server belongs to a cluster: name a node that can be reached under the address the cluster announces",
	"CLUSTERDOWN": "the cluster lacks a node that serves the ledger's slot",
	"MISCONF":     "the server cannot write to its disk: free some space or look into its log",
	"OOM":         "the server's memory is used up: raise maxmemory, or purge",
	"NOREPLICAS":  "the server wants more replicas than it has (min-replicas-to-write)",
	"LOADING":     "the server is still reading its file: try again soon",
	"BUSY":        "somebody's script keeps the server busy",
	"WRONGTYPE":   "the prefix seems to belong to another application: name another",
	"UNKILLABLE":  "somebody's script keeps the server busy",
}

// hintFor returns what an operator can do.
func hintFor(err error) string { return hints[codeOf(err)] }

// codeOf returns the first word of the server's error, or "".
func codeOf(err error) string {
	if e := (*rueidis.RedisError)(nil); errors.As(err, &e) {
		code, _, _ := strings.Cut(e.Error(), " ")
		return code
	}
	return ""
}

var errClosed = errors.New("the store is closed")

func invalid(field, detail string) error {
	return fmt.Errorf("redis: %w", &justonce.InvalidError{Field: field, Detail: detail})
}

// callError says which call failed; what is not an answer of the ledger is its
// failure.
func callError(call string, err error) error {
	for _, answer := range []error{justonce.ErrNotFound, justonce.ErrStale, justonce.ErrReferenceTaken, justonce.ErrInvalid} {
		if errors.Is(err, answer) {
			return fmt.Errorf("redis: %s: %w", call, err)
		}
	}
	return unavailable(call, err)
}
