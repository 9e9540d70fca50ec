package justonce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// What callers branch on, with errors.Is.
var (
	// ErrNotFound: no such operation in the tenant.
	ErrNotFound = errors.New("no such operation")
	// ErrUnknownTool: nothing is registered under that name.
	ErrUnknownTool = errors.New("no such tool")
	// ErrInvalid: the call, key, arguments or filter are malformed. Nothing was
	// recorded or sent.
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the key or identity stands for a call with other arguments.
	// Nothing was sent. See [ConflictError].
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: the ledger could not record. What was not recorded was
	// not sent.
	ErrUnavailable = errors.New("ledger unavailable")
	// ErrLedgerGone: somebody has emptied or replaced the ledger, so that nobody
	// knows what was done. It is ErrUnavailable, too, but calling again does not
	// help and may, once there is an empty ledger, repeat effects: a person has
	// to restore it.
	ErrLedgerGone = fmt.Errorf("%w: its records are gone", ErrUnavailable)
	// ErrNotAllowed: the operation's state does not allow the decision.
	ErrNotAllowed = errors.New("not allowed")
	// ErrStale: somebody else wrote the row first. Of stores.
	ErrStale = errors.New("stale version")
	// ErrReferenceTaken: another operation holds the provider's reference. Of
	// stores.
	ErrReferenceTaken = errors.New("reference is taken")
)

// An InvalidError says what is wrong with a call and what to do. It is
// ErrInvalid.
type InvalidError struct {
	Field  string // "key", "arguments", "scope", … or a JSON Pointer below arguments
	Detail string
	// Schema is set when the arguments are well-formed but break the tool's
	// schema or lack its identity.
	Schema bool
	// TooLarge is set when a size limit was hit.
	TooLarge bool
}

func (e *InvalidError) Error() string        { return e.Field + ": " + e.Detail }
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// A ConflictError tells in what a call differs from the operation that its key
// or identity stands for. It is ErrConflict.
type ConflictError struct {
	Operation *Operation // the one that was there
	MatchedBy Match
	Paths     []string // JSON Pointers into the arguments that differ
	Differs   []string // "tool", "scope": what else differs
}

func (e *ConflictError) Error() string {
	var what []string
	what = append(what, e.Differs...)
	what = append(what, e.Paths...)
	if len(what) == 0 {
		what = []string{"the arguments (the first ones are no longer kept)"}
	}
	return fmt.Sprintf("the %s already stands for another call of %s, which differs in %s; nothing was sent",
		e.MatchedBy, e.Operation.Tool, strings.Join(what, ", "))
}

func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// A StateError is the error of an operation that has not succeeded, for callers
// who want Go's way of saying it. See [Answer.Err].
type StateError struct{ Answer *Answer }

func (e *StateError) Error() string {
	a := e.Answer
	s := fmt.Sprintf("operation %s of %s is %s", a.Operation.Key, a.Operation.Tool, a.Operation.State)
	if f := a.Operation.Failure; f != nil {
		s += fmt.Sprintf(" (%s: %s)", f.Code, f.Message)
	}
	return s + ": " + a.Advice().Text
}

type outcomeError struct {
	kind  OutcomeKind
	after time.Duration
	err   error
}

func (e *outcomeError) Error() string { return e.err.Error() }
func (e *outcomeError) Unwrap() error { return e.err }

// RejectedError marks err as proof that the effect did not happen and will
// not: the operation fails. For [Func] tools.
func RejectedError(err error) error { return &outcomeError{kind: OutcomeRejected, err: err} }

// NotExecutedError marks err as proof that this attempt had no effect: it is
// tried again, not before retryAfter. For [Func] tools.
func NotExecutedError(err error, retryAfter time.Duration) error {
	return &outcomeError{kind: OutcomeNotExecuted, after: retryAfter, err: err}
}

// WithdrawnError marks err as proof that this attempt had no effect and that
// nobody shall repeat it unasked: see [OutcomeWithdrawn]. For [Func] tools.
func WithdrawnError(err error) error { return &outcomeError{kind: OutcomeWithdrawn, err: err} }

func outcomeOf(err error) Outcome {
	o := Outcome{Failure: &Failure{Code: "error", Message: err.Error()}}
	if e := (*outcomeError)(nil); errors.As(err, &e) {
		o.Kind, o.RetryAfter = e.kind, e.after
	}
	if errors.Is(err, context.DeadlineExceeded) {
		o.Failure.Code = "timeout"
	}
	return o
}
