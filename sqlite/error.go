package sqlite

import (
	"errors"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
)

// An unavailableError is a failure of the ledger: justonce.ErrUnavailable and
// its cause, with a hint for the operator where there is one.
type unavailableError struct {
	step  string
	cause error
}

func (e *unavailableError) Error() string {
	s := fmt.Sprintf("sqlite: %s: %v", e.step, e.cause)
	switch sqlite.ErrCode(e.cause).ToPrimary() {
	case sqlite.ResultFull:
		s += " (the disk or the quota is full: free some space; no restart is needed)"
	case sqlite.ResultReadOnly:
		s += " (the file or its directory cannot be written)"
	case sqlite.ResultBusy:
		s += " (another process holds the write lock)"
	case sqlite.ResultNotADB:
		s += " (it is not an SQLite file, or is encrypted: name another)"
	case sqlite.ResultCorrupt:
		s += " (restore a backup, or salvage with the recover command of the sqlite3 shell)"
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

var errClosed = errors.New("the store is closed")

// damaged is the error of a row that is there and cannot be read.
func damaged(id int64, err error) error {
	return unavailable(fmt.Sprintf("reading operation %d", id), err)
}

func invalid(field, detail string) error {
	return fmt.Errorf("sqlite: %w", &justonce.InvalidError{Field: field, Detail: detail})
}
