// Package entries encodes the history of an operation for the stores that keep
// it as bytes of one format. It knows the domain, so unlike its neighbours it is
// no leaf: it lies between the root, which must not import it, and the stores.
package entries

import (
	"fmt"
	"slices"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

// Kinds, States and Outcomes are the words of the encoding, numbered by their
// place: append only.
var (
	Kinds = words(justonce.EntryArrived, justonce.EntryClaimed, justonce.EntryAttempt, justonce.EntryLookup,
		justonce.EntryExpired, justonce.EntryReleased, justonce.EntryLate, justonce.EntryDecision, justonce.EntryObserved)
	States = append([]string{""}, words(justonce.Pending, justonce.Running, justonce.Unknown,
		justonce.Review, justonce.Succeeded, justonce.Failed)...)
	Outcomes = append([]string{""}, words(justonce.EventClaimed, justonce.EventLeaseExpired, justonce.EventReleased,
		justonce.EventDeferred, justonce.EventSucceeded, justonce.EventRejected, justonce.EventNotExecuted,
		justonce.EventAccepted, justonce.EventUnknown, justonce.EventFound, justonce.EventFoundFailed,
		justonce.EventProgress, justonce.EventAbsent, justonce.EventAmbiguous, justonce.EventLookupFailed,
		justonce.EventHappened, justonce.EventRetry, justonce.EventCancelled, justonce.EventRedriven,
		justonce.EventWithdrawn, justonce.EventContested, justonce.EventRenewed)...)
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

// appendEntry encodes x with its body.
func appendEntry(e *packed.Encoder, x *justonce.Entry) {
	var flags byte
	for i, on := range [...]bool{!x.Started.IsZero(), x.IsResult, x.Failure != nil, len(x.Evidence) > 0,
		x.Reference != "" || x.Actor != "" || x.Note != ""} {
		if on {
			flags |= 1 << i
		}
	}
	e.Byte(entryVersion)
	e.Byte(flags)
	e.Name(string(x.Kind), Kinds)
	e.Name(string(x.State), States)
	e.Name(string(x.Outcome), Outcomes)
	e.Time(x.At)
	e.Int(x.Fence)
	if flags&entryStarted != 0 {
		e.Time(x.Started)
	}
	if flags&entryText != 0 {
		e.String(x.Reference)
		e.String(x.Actor)
		e.String(x.Note)
	}
	if x.Failure != nil {
		e.String(x.Failure.Code)
		e.String(x.Failure.Message)
	}
	if flags&entryEvidence != 0 {
		names := make([]string, 0, 8)
		for name := range x.Evidence {
			names = append(names, name)
		}
		slices.Sort(names)
		e.Uint(uint64(len(names)))
		for _, name := range names {
			e.String(name)
			e.String(x.Evidence[name])
		}
	}
	e.Bytes(x.Body)
}

// next decodes the next entry. Its Body is part of the input.
func next(d *packed.Decoder) (x justonce.Entry) {
	if v := d.Byte(); v != entryVersion && d.Err == nil {
		d.Err = fmt.Errorf("encoding %d is not known to this version", v)
		return x
	}
	flags := d.Byte()
	x.IsResult = flags&entryIsResult != 0
	x.Kind = justonce.EntryKind(d.Name(Kinds))
	x.State = justonce.State(d.Name(States))
	x.Outcome = justonce.EventKind(d.Name(Outcomes))
	x.At = d.Time()
	x.Fence = d.Int()
	if flags&entryStarted != 0 {
		x.Started = d.Time()
	}
	if flags&entryText != 0 {
		x.Reference, x.Actor, x.Note = d.String(), d.String(), d.String()
	}
	if flags&entryFailure != 0 {
		x.Failure = &justonce.Failure{Code: d.String(), Message: d.String()}
	}
	if flags&entryEvidence != 0 {
		n := d.Uint()
		if n > uint64(len(d.B)) {
			d.Fail()
			return x
		}
		x.Evidence = make(map[string]string, n)
		for range n {
			name := d.String()
			x.Evidence[name] = d.String()
		}
	}
	x.Body = d.Bytes()
	return x
}
