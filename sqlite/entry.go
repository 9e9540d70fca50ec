package sqlite

import (
	"fmt"
	"slices"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
)

// The words of the encoding are numbered by their place: append only.
var (
	entryKinds = words(justonce.EntryArrived, justonce.EntryClaimed, justonce.EntryAttempt, justonce.EntryLookup,
		justonce.EntryExpired, justonce.EntryReleased, justonce.EntryLate, justonce.EntryDecision,
		justonce.EntryObserved)
	entryStates = append([]string{""}, words(justonce.Pending, justonce.Running, justonce.Unknown,
		justonce.Review, justonce.Succeeded, justonce.Failed)...)
	outcomes = append([]string{""}, words(justonce.EventClaimed, justonce.EventLeaseExpired, justonce.EventReleased,
		justonce.EventDeferred, justonce.EventSucceeded, justonce.EventRejected, justonce.EventNotExecuted,
		justonce.EventAccepted, justonce.EventUnknown, justonce.EventFound, justonce.EventFoundFailed,
		justonce.EventProgress, justonce.EventAbsent, justonce.EventAmbiguous, justonce.EventLookupFailed,
		justonce.EventHappened, justonce.EventRetry, justonce.EventCancelled, justonce.EventRedriven,
		justonce.EventWithdrawn, justonce.EventContested)...)
)

func words[T ~string](names ...T) []string {
	s := make([]string, len(names))
	for i, n := range names {
		s[i] = string(n)
	}
	return s
}

const (
	entryVersion = 1

	entryStarted  = 1 << 0
	entryIsResult = 1 << 1
	entryFailure  = 1 << 2
	entryEvidence = 1 << 3
	entryText     = 1 << 4 // reference, actor or note
)

// A line is an entry as the writer binds it.
type line struct {
	data     []byte
	body     []byte
	isResult bool
}

// maxBody keeps a row within what SQLite stores, with room for its other
// columns.
const maxBody = 512 << 20

// appendEntry encodes all of x but its body.
func appendEntry(e *encoder, x *justonce.Entry) {
	var flags byte
	for i, on := range [...]bool{!x.Started.IsZero(), x.IsResult, x.Failure != nil, len(x.Evidence) > 0,
		x.Reference != "" || x.Actor != "" || x.Note != ""} {
		if on {
			flags |= 1 << i
		}
	}
	e.byte(entryVersion)
	e.byte(flags)
	e.name(string(x.Kind), entryKinds)
	e.name(string(x.State), entryStates)
	e.name(string(x.Outcome), outcomes)
	e.time(x.At)
	e.int(x.Fence)
	if flags&entryStarted != 0 {
		e.time(x.Started)
	}
	if flags&entryText != 0 {
		e.string(x.Reference)
		e.string(x.Actor)
		e.string(x.Note)
	}
	if x.Failure != nil {
		e.string(x.Failure.Code)
		e.string(x.Failure.Message)
	}
	if flags&entryEvidence == 0 {
		return
	}
	names := make([]string, 0, 8)
	for name := range x.Evidence {
		names = append(names, name)
	}
	slices.Sort(names)
	e.uint(uint64(len(names)))
	for _, name := range names {
		e.string(name)
		e.string(x.Evidence[name])
	}
}

func decodeEntry(b []byte, x *justonce.Entry) error {
	d := decoder{b: b}
	if v := d.byte(); v != entryVersion {
		return fmt.Errorf("encoding %d is not known to this version", v)
	}
	flags := d.byte()
	x.IsResult = flags&entryIsResult != 0
	x.Kind = justonce.EntryKind(d.name(entryKinds))
	x.State = justonce.State(d.name(entryStates))
	x.Outcome = justonce.EventKind(d.name(outcomes))
	x.At = d.time()
	x.Fence = d.int()
	if flags&entryStarted != 0 {
		x.Started = d.time()
	}
	if flags&entryText != 0 {
		x.Reference, x.Actor, x.Note = d.string(), d.string(), d.string()
	}
	if flags&entryFailure != 0 {
		x.Failure = &justonce.Failure{Code: d.string(), Message: d.string()}
	}
	if flags&entryEvidence != 0 {
		n := d.uint()
		if n > uint64(len(d.b)) {
			return errShort
		}
		x.Evidence = make(map[string]string, n)
		for range n {
			name := d.string()
			x.Evidence[name] = d.string()
		}
	}
	return d.err
}

// scanEntry reads data and body of stmt from column col on.
func scanEntry(stmt *sqlite.Stmt, col int, scratch *[]byte) (x justonce.Entry, err error) {
	if err := decodeEntry(column(stmt, col, scratch), &x); err != nil {
		return x, err
	}
	x.Body = blob(stmt, col+1)
	return x, nil
}
