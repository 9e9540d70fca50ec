package justonce

import "time"

// A Decided says what became of a call on arrival.
type Decided string

const (
	CallExecuted Decided = "executed" // recorded; its effect is this call's
	CallReplayed Decided = "replayed" // the recorded result
	CallJoined   Decided = "joined"   // waited for an earlier call
	CallConflict Decided = "conflict" // refused: other arguments
	CallRefused  Decided = "refused"  // malformed, or the ledger could not record
	CallPassed   Decided = "passed"   // a read or idempotent tool: run, not recorded
)

// An Observer is told what happens; nil funcs are skipped. The funcs are called
// in line, from many goroutines, and must be quick.
type Observer struct {
	// Call is told of every call. took covers waiting for the end.
	Call func(tool string, d Decided, took time.Duration)
	// Attempt is told of every send.
	Attempt func(tool string, outcome OutcomeKind, took time.Duration)
	// Lookup is told of every lookup, by the event it led to.
	Lookup func(tool string, outcome EventKind, took time.Duration)
	// Late is told of every report under an old fence.
	Late func(tool string, outcome EventKind)
	// Observed is told of every call that was observed only, by what would have
	// become of it.
	Observed func(tool string, would Decided)
	// Recorded is told of every change of state after it became durable, except
	// for calls that were observed only.
	Recorded func(op *Operation, from State)
	// Ledger is told of every write that failed and will be tried again.
	Ledger func(err error)
}

// observed returns the time if somebody wants durations.
func (r *Runner) observed() time.Time {
	if r.observer.Attempt == nil {
		return time.Time{}
	}
	return time.Now()
}

func (o *Observer) recorded(op *Operation, from State) {
	if o.Recorded != nil && op.State != from && !op.observed() {
		o.Recorded(op, from)
	}
}
