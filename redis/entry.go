package redis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	justonce "github.com/justonce-dev/justonce"
)

// The words of the encoding are numbered by their place: append only.
var (
	entryKinds = words(justonce.EntryArrived, justonce.EntryClaimed, justonce.EntryAttempt, justonce.EntryLookup,
		justonce.EntryExpired, justonce.EntryReleased, justonce.EntryLate, justonce.EntryDecision, justonce.EntryObserved)
	entryStates = append([]string{""}, words(justonce.Pending, justonce.Running, justonce.Unknown,
		justonce.Review, justonce.Succeeded, justonce.Failed)...)
	outcomes = append([]string{""}, words(justonce.EventClaimed, justonce.EventLeaseExpired, justonce.EventReleased,
		justonce.EventDeferred, justonce.EventSucceeded, justonce.EventRejected, justonce.EventNotExecuted,
		justonce.EventAccepted, justonce.EventUnknown, justonce.EventFound, justonce.EventFoundFailed,
		justonce.EventProgress, justonce.EventAbsent, justonce.EventAmbiguous, justonce.EventLookupFailed,
		justonce.EventHappened, justonce.EventRetry, justonce.EventCancelled, justonce.EventRedriven)...)
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

// maxBody bounds the bodies of one write: while the server takes them it serves
// nobody else.
const maxBody = 64 << 20

// appendEntry encodes x with its body.
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
	if flags&entryEvidence != 0 {
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
	e.bytes(x.Body)
}

// entry decodes the next entry. Its Body is part of the input.
func (d *decoder) entry() (x justonce.Entry) {
	if v := d.byte(); v != entryVersion && d.err == nil {
		d.err = fmt.Errorf("encoding %d is not known to this version", v)
		return x
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
			d.fail()
			return x
		}
		x.Evidence = make(map[string]string, n)
		for range n {
			name := d.string()
			x.Evidence[name] = d.string()
		}
	}
	x.Body = d.bytes()
	return x
}

// A chunk is the entries of one write: its version, the length of the rest in
// four bytes, and the entries. Chunks can be put one behind the other.

// appendChunk encodes the entries of the write that makes version. It reports
// whether one of them holds a result.
func appendChunk(b []byte, version int64, entries []justonce.Entry) (_ []byte, hasResult bool, err error) {
	e := encoder{b: b}
	e.int(version)
	e.b = append(e.b, 0, 0, 0, 0)
	start := len(e.b)
	size := 0
	for i := range entries {
		x := &entries[i]
		if size += len(x.Body); size > maxBody {
			return b, false, &justonce.InvalidError{Field: "body", Detail: "is too large to store", TooLarge: true}
		}
		hasResult = hasResult || x.IsResult && len(x.Body) > 0
		appendEntry(&e, x)
	}
	if e.err != nil {
		return b, false, invalid("time", e.err.Error())
	}
	binary.BigEndian.PutUint32(e.b[start-4:], uint32(len(e.b)-start))
	return e.b, hasResult, nil
}

// chunk returns the version and the content of the next chunk.
func (d *decoder) chunk() (version int64, content []byte) {
	version = d.int()
	size := d.take(4)
	if size == nil {
		return version, nil
	}
	return version, d.take(uint64(binary.BigEndian.Uint32(size)))
}

// decodeEntries appends the entries in a chunk's content. Their bodies are
// copies.
func decodeEntries(entries []justonce.Entry, content []byte) ([]justonce.Entry, error) {
	d := decoder{b: content}
	for len(d.b) > 0 && d.err == nil {
		x := d.entry()
		x.Body = bytes.Clone(x.Body)
		entries = append(entries, x)
	}
	return entries, d.err
}

// resultIn returns the result that the write of a version recorded, found among
// chunks and part of them; nil: there is none.
func resultIn(chunks []byte, version int64) ([]byte, error) {
	d := decoder{b: chunks}
	for len(d.b) > 0 && d.err == nil {
		v, content := d.chunk()
		if v != version {
			continue
		}
		var result []byte
		in := decoder{b: content}
		for len(in.b) > 0 && in.err == nil {
			if x := in.entry(); x.IsResult && len(x.Body) > 0 {
				result = x.Body
			}
		}
		return result, in.err
	}
	return nil, d.err
}
