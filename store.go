package justonce

import (
	"context"
	"time"
)

// A Store is the ledger. It persists what [Transition] decided and knows no
// rules of its own. Implementations are safe for concurrent use by many
// goroutines and, unless they say otherwise, by several processes; a call that
// returns nil has reached durable storage. They pass storetest.Run, which is
// this comment in executable form.
//
// A Store neither keeps nor changes the values it is given, slices included, but
// for Version as documented, and what it returns belongs to the caller.
type Store interface {
	// Now returns the ledger's clock. Leases, windows and due times are
	// compared with it alone; where machines share a store it is the store's.
	Now() time.Time

	// Begin records op and its first entry, whose Body is op.Arguments, in one
	// commit (op.Version becomes 1), unless an operation of op.Tenant already has its key, or its non-empty
	// identity; then nothing changes and that one is returned with its Result,
	// Fresh false and MatchedBy told. The key is looked at first.
	//
	// One exception: where the operation met has ended and its non-zero
	// DedupeUntil is not after Now, it is archived in the same commit: its key
	// gets the suffix "~" and its creation time in Unix nanoseconds, its
	// identity is cleared, its Version rises, and op is recorded. If key and
	// identity meet two operations, that holds for each; if either of them still
	// answers, it is returned and nothing changes.
	//
	// Of any number of concurrent calls with one key or identity exactly one
	// is Fresh.
	Begin(ctx context.Context, op *Operation, arrived Entry) (*Arrival, error)

	// Get returns an operation with its Result, or ErrNotFound.
	Get(ctx context.Context, ref Ref) (*Operation, error)

	// Update replaces the row of op and appends entries in one commit if the
	// recorded Version and CreatedAt equal op's, and then raises op.Version by
	// one. Otherwise, and for an operation that is not there, ErrStale, and
	// nothing changes. (CreatedAt tells an operation from an archived one that had
	// its key before. A store may raise the Version of an operation whose lease is over
	// by itself.) The body of an entry with
	// IsResult becomes the operation's Result; without one, or with an empty one,
	// the recorded Result stays, whatever op.Result is. Key, tenant, arguments, fingerprint,
	// identity and creation time never change. Tool, scope and run must be those
	// of Begin: whether another one is recorded is not said.
	//
	// If op.Exclusive and another operation of the tenant and tool already
	// holds op.Reference, ErrReferenceTaken, and nothing changes.
	Update(ctx context.Context, op *Operation, entries ...Entry) error

	// Claim picks up to due.Limit operations for which IsDue(Now), oldest Due
	// first, and for each lets advance change it and return the entries to
	// append; all is one commit. It returns them as changed, with Arguments
	// and Result. An operation is never given to two concurrent claims.
	// advance must be quick and must not call the store. A false ok leaves the
	// operation as it was and out of the answer.
	Claim(ctx context.Context, due Due, advance func(op *Operation, now time.Time) (entries []Entry, ok bool)) ([]*Operation, error)

	// List returns a page of operations, newest first (by creation time, then
	// key, descending). An unknown cursor is ErrInvalid.
	List(ctx context.Context, f Filter) (*Page, error)

	// History returns the entries of an operation in order, or ErrNotFound.
	History(ctx context.Context, ref Ref) ([]Entry, error)

	// Stats summarises the ledger without reading all of it.
	Stats(ctx context.Context) (*Stats, error)

	// Purge removes arguments, results, evidence and histories of at most
	// limit operations that ended before the given time, in any order, and
	// returns how many; less than limit means that none is left.
	// An operation ended when it was last updated. A tombstone stays: the row with key, identity, fingerprint, state,
	// reference and digest, Note telling that the result is no longer kept.
	// Open operations and those in review are never touched.
	Purge(ctx context.Context, endedBefore time.Time, limit int) (int, error)

	// Close releases what Open took. It waits for commits under way.
	Close() error
}

// A Guesser is a [Store] that can tell without reading whether it may have an
// operation. Optional: duplicates are then answered by a Get before anything is
// prepared for a Begin. It is a hint; Begin alone decides what is new.
type Guesser interface {
	// MayHave is quick. False costs a duplicate a little more, true a new call a
	// read.
	MayHave(ref Ref) bool
}

// A Notifier is a [Store] that can tell of what other processes changed.
// Optional: a call that waits for another process then learns of the end at once,
// and what another one made pending is taken up at once. Both are found by
// looking, too, only later.
type Notifier interface {
	// Listen calls changed with operations that other processes have made
	// pending, ended or put into review, soon after that is durable, until ctx
	// ends; then it returns nil, soon. News may come late, twice, for nothing, or
	// not at all. An error says that no more comes; the caller listens again
	// after a while. changed is quick and may be called concurrently.
	Listen(ctx context.Context, changed func(Ref)) error
}

// An Arrival is what [Store.Begin] found.
type Arrival struct {
	Fresh     bool       // recorded by this call
	Operation *Operation // the one that was there; nil if Fresh
	MatchedBy Match      // by what it was met
}

// A Match says by what a call met an operation that was there before.
type Match string

const (
	MatchKey      Match = "key"
	MatchIdentity Match = "identity"
)

// Due selects what [Store.Claim] may pick.
type Due struct {
	Ref   *Ref     // only this operation; nil: any
	Tools []string // only of these tools; empty: any
	Limit int      // at least 1
}

// NotePurged is the Note of a tombstone.
const NotePurged = "the result is no longer kept"

// NoteWithdrawn is the Note of an operation that was withdrawn, see
// [OutcomeWithdrawn].
const NoteWithdrawn = "it was taken back without any effect"
