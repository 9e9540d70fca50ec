package justonce

import (
	"context"
	"encoding/json"
)

// DefaultTenant is the tenant of calls that name none.
const DefaultTenant = "default"

// A Call asks for a tool to be run, once.
type Call struct {
	Tenant string // defaults to DefaultTenant
	Tool   string
	// Arguments are JSON; nil is the same as {}.
	Arguments json.RawMessage

	// Key names the intent: at most 255 printable ASCII characters. Empty: the
	// key is inherited from the context, else derived from the tool's declared
	// identity, else from scope, run, tool and arguments. Never a tool-call id,
	// an attempt number, a time or a random value.
	Key string
	// Scope is the account, session or user within which derived keys match.
	Scope string
	// RunID is the whole agent task, the same after a resume.
	RunID string
	// IntentSeq tells deliberate equal calls apart; defaults to 1.
	IntentSeq int

	// NoWait records the call and returns at once.
	NoWait      bool
	TraceParent string
}

// A Service runs calls and tells of operations. The embedded [Runner] and the
// gateway's client both are one, so that whatever is built on it works with
// either.
type Service interface {
	// Do sees to it that the call has its one effect, and waits for its end or
	// for ctx, whichever is first; then it returns how things stand. A
	// duplicate gets the recorded result or waits with the first. Cancelling
	// ctx ends the waiting, never an attempt under way.
	//
	// The error is ErrUnknownTool, ErrInvalid, ErrConflict or ErrUnavailable;
	// nothing was sent then. Whatever happened to the effect itself is in the
	// Answer: see [Answer.Err].
	Do(ctx context.Context, c Call) (*Answer, error)

	// Wait returns the operation once it has ended or waits for a person, or as
	// it stands when ctx is done. ErrNotFound.
	Wait(ctx context.Context, ref Ref) (*Answer, error)

	// Get returns the operation as it stands. ErrNotFound.
	Get(ctx context.Context, ref Ref) (*Answer, error)

	// List returns a page of operations, newest first. ErrInvalid.
	List(ctx context.Context, f Filter) (*Page, error)

	// History returns what happened to an operation, oldest first. ErrNotFound.
	History(ctx context.Context, ref Ref) ([]Entry, error)

	// Decide carries out a person's or a program's decision. ErrNotFound,
	// ErrInvalid, or ErrNotAllowed where the state forbids it.
	Decide(ctx context.Context, ref Ref, d Decision) (*Answer, error)

	// Tools returns the tools that can be called, by name.
	Tools(ctx context.Context) ([]ToolInfo, error)
}

// A Verdict is what somebody decides about an operation.
type Verdict string

const (
	Happened Verdict = "happened" // in review: the effect happened
	Retry    Verdict = "retry"    // in review: it did not; send it
	Cancel   Verdict = "cancel"   // in review: it did not; leave it. Pending: do not send
	Redrive  Verdict = "redrive"  // failed: send it once more, under a new wire key
)

var verdictEvents = map[Verdict]EventKind{
	Happened: EventHappened, Retry: EventRetry, Cancel: EventCancelled, Redrive: EventRedriven,
}

// A Decision settles what the machinery may not.
type Decision struct {
	Verdict   Verdict         `json:"verdict"`
	Actor     string          `json:"actor"`  // who decides; required
	Reason    string          `json:"reason"` // why; required
	Reference string          `json:"reference,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"` // for Happened: what duplicates get
}
