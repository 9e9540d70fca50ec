package justonce

import (
	"encoding/json"
	"time"
)

// A Ref names an operation: its key within its tenant.
type Ref struct {
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
}

// A KeySource says where an operation's key came from, in order of precedence.
type KeySource string

const (
	KeyGiven     KeySource = "given"     // with the call
	KeyInherited KeySource = "inherited" // from the context
	KeyIdentity  KeySource = "identity"  // derived from the declared identity
	KeyContent   KeySource = "content"   // derived from scope, run, tool and arguments
)

// derived reports whether justonce made the key.
func (k KeySource) derived() bool { return k == KeyIdentity || k == KeyContent }

// An Operation is one business intent: one row of the ledger, never re-created
// for a retry. Values that a [Store] returns belong to the caller.
type Operation struct {
	Ref
	KeySource KeySource
	Scope     string
	RunID     string
	Tool      string
	IntentSeq int

	// Identity is the hash of the declared identity, "" where the tool
	// declares none. Unique in the tenant among operations that hold it.
	Identity string
	// Fingerprint is the hash of tool, scope and all canonical arguments but
	// the ignored ones; Algorithm says by which rules, so that old records
	// stay comparable when the rules change.
	Fingerprint string
	Algorithm   string
	// WireKey is what the provider gets as its idempotency key. Series counts
	// redrives: each starts a new wire key, since providers store failures.
	WireKey string
	Series  int

	Status

	// Arguments are the caller's bytes. Stores return them from Claim only;
	// everywhere else they are in entry 0 of the history.
	Arguments json.RawMessage
	// Result is what the provider answered, recorded once. Nil until the
	// operation succeeded, and where only its digest was kept: Note says why.
	// While the provider works on a long-running job it is the progress. Where
	// the provider rejected and its answer was reported, it is that answer and
	// Digest is set.
	Result  json.RawMessage
	Failure *Failure // why it failed, or what is known of an unknown outcome
	Note    string

	TraceParent string // W3C trace context of the first call; correlation only

	CreatedAt time.Time
	UpdatedAt time.Time
	// DedupeUntil is when an ended operation stops answering for its key and
	// identity; zero: never. See [Store.Begin].
	DedupeUntil time.Time
	// Exclusive: no other operation of this tenant and tool may hold the same
	// Reference (level 3, where lists are matched by fields).
	Exclusive bool

	// Version counts the writes to the row, from 1. [Store.Update] compares it.
	Version int64
}

// outlived reports whether op no longer answers for its key and identity.
func (op *Operation) outlived(now time.Time) bool {
	return op.State.Ended() && !op.DedupeUntil.IsZero() && !op.DedupeUntil.After(now)
}

// A Failure tells what went wrong, in words made for the caller.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
}

// String returns the code and the message.
func (f *Failure) String() string {
	if f == nil {
		return ""
	}
	if f.Message == "" {
		return f.Code
	}
	return f.Code + ": " + f.Message
}

// An EntryKind is the kind of a line in an operation's history.
type EntryKind string

const (
	EntryArrived  EntryKind = "arrived"  // first entry; Body holds the arguments
	EntryClaimed  EntryKind = "claimed"  // a worker took it up
	EntryAttempt  EntryKind = "attempt"  // a send ended
	EntryLookup   EntryKind = "lookup"   // a lookup ended
	EntryExpired  EntryKind = "expired"  // a lease ran out
	EntryReleased EntryKind = "released" // given back unsent
	EntryLate     EntryKind = "late"     // reported under an old fence; evidence
	EntryDecision EntryKind = "decision" // a person's or program's
	EntryObserved EntryKind = "observed" // an equal call was observed; Note says what would have become of it
)

// An Entry is one line of an operation's append-only history.
type Entry struct {
	Kind      EntryKind         `json:"kind"`
	At        time.Time         `json:"at"`
	Started   time.Time         `json:"started,omitzero"` // of an attempt or lookup
	Fence     int64             `json:"fence,omitempty"`  // identifies the attempt
	State     State             `json:"state"`            // after it
	Outcome   EventKind         `json:"outcome,omitempty"`
	Reference string            `json:"reference,omitempty"`
	Failure   *Failure          `json:"failure,omitempty"`
	Actor     string            `json:"actor,omitempty"` // who decided, or which worker
	Note      string            `json:"note,omitempty"`
	Evidence  map[string]string `json:"evidence,omitempty"` // what was seen, such as the HTTP status
	// Body is the arguments (arrived) or the result. Where it is set on an
	// entry given to [Store.Update] and IsResult is true it becomes the
	// operation's Result.
	Body     json.RawMessage `json:"body,omitempty"`
	IsResult bool            `json:"is_result,omitempty"`
}

// A Filter selects operations of one tenant. Zero fields select all.
type Filter struct {
	Tenant    string // always one tenant
	States    []State
	Tool      string
	Scope     string
	RunID     string
	Reference string
	Identity  string    // the hash, as in Operation.Identity
	Since     time.Time // created at or after
	Until     time.Time // created before
	Cursor    string    // from Page.Next
	Limit     int       // defaults to 50; at most 1000
}

// A Page is part of a list, newest first. Its operations carry neither
// arguments nor results.
type Page struct {
	Operations []*Operation
	Next       string // cursor of the next page; "" on the last
}

// Stats is a cheap summary of the ledger, all tenants together.
type Stats struct {
	Count  map[State]int64
	Oldest map[State]time.Time // CreatedAt of the oldest, for the states that have not ended
	Lag    time.Duration       // how long the most overdue open operation has been due
}
