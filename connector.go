package justonce

import (
	"context"
	"encoding/json"
	"time"
)

// An Attempt is one try at an operation, as a [Connector] sees it.
type Attempt struct {
	Ref
	Tool      string
	Scope     string
	RunID     string
	Arguments json.RawMessage // the caller's bytes, the same for every attempt
	WireKey   string          // the provider's idempotency key, the same for every attempt
	Number    int             // from 1
	ID        string          // changes with each attempt; never an idempotency key

	// FirstSent is when the first send that may have had its effect began;
	// UnknownAt when the last one was given up. FirstSent is set before the
	// first Send.
	FirstSent time.Time
	UnknownAt time.Time
	// Reference is the provider's name for an accepted job, or "".
	Reference   string
	TraceParent string
}

// A Connector performs a tool's effect at its provider.
//
// Send is called for one attempt, with a context that ends when the attempt's
// time is up. It must not retry, and must see to it that nothing beneath it
// does. It says what it can prove; the zero Outcome means that nobody knows.
// Send may be called from many goroutines, never from two for the same
// attempt.
type Connector interface {
	Send(ctx context.Context, a *Attempt) Outcome
}

// A Finder is a [Connector] that can tell afterwards what became of an
// operation. Lookup must have no effect of its own. It says what the provider
// showed; the zero Finding means that the question got no answer. It need not
// think of settle times.
type Finder interface {
	Lookup(ctx context.Context, a *Attempt) Finding
}

// An Outcome is what a send proved. The zero value is unknown.
type Outcome struct {
	Kind OutcomeKind
	// Result is the provider's answer as JSON (Succeeded, Rejected), or the
	// progress (Accepted). Anything that is not JSON is recorded as a JSON
	// string; nil says that there was none.
	Result    json.RawMessage
	Reference string // the provider's name for the effect or the job
	// Note becomes the operation's Note when it succeeds: what a reader should
	// know of the result. It is kept in the history of others.
	Note string

	// Failure is told to the caller of a rejected operation and kept as
	// evidence of others.
	Failure *Failure
	// RetryAfter is the provider's wish, for not executed and unknown.
	RetryAfter time.Duration
	// Conclusive: this rejection is the provider's answer for the wire key,
	// so that it also speaks for earlier sends.
	Conclusive bool
	Evidence   map[string]string // what was seen; never secrets
}

// An OutcomeKind says what a send proved.
type OutcomeKind int

const (
	OutcomeUnknown     OutcomeKind = iota // no proof either way
	OutcomeSucceeded                      // the effect happened
	OutcomeRejected                       // the provider did not and will not
	OutcomeNotExecuted                    // this send had no effect; another may
	OutcomeAccepted                       // a long-running job was started
	// OutcomeWithdrawn: this send certainly had no effect, and nobody shall
	// repeat it unasked: the caller took it back before it was dispatched, or
	// must come again with other credentials. The operation ends and gives way:
	// the next equal call is a new one, also under the same given key.
	OutcomeWithdrawn
)

var outcomeEvents = [...]EventKind{EventUnknown, EventSucceeded, EventRejected, EventNotExecuted, EventAccepted, EventWithdrawn}

// Event returns the event of the outcome; out of range is unknown.
func (k OutcomeKind) Event() EventKind {
	if k < 0 || int(k) >= len(outcomeEvents) {
		return EventUnknown
	}
	return outcomeEvents[k]
}

func (k OutcomeKind) String() string { return string(k.Event()) }

// A Finding is what a lookup showed. The zero value is no answer.
type Finding struct {
	Kind FindingKind
	// Matches are the effects that may be this operation's, for FindingFound.
	// More than one that no other operation holds is ambiguous.
	Matches []Found
	// Result is the progress of a job, for FindingProgress.
	Result     json.RawMessage
	Reference  string // of the job, for FindingProgress
	Failure    *Failure
	RetryAfter time.Duration
	Evidence   map[string]string
}

// A Found is an effect that a lookup showed.
type Found struct {
	Reference string
	Result    json.RawMessage
}

// A FindingKind says what a lookup showed.
type FindingKind int

const (
	FindingNoAnswer FindingKind = iota // the question got no usable answer
	FindingFound                       // the effect is there
	FindingAbsent                      // the provider shows none
	FindingFailed                      // the provider knows it, and that it failed without effect
	FindingProgress                    // the provider still works on it
)
