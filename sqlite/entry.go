package sqlite

import (
	"fmt"
	"slices"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite"
)

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
	e.Byte(entryVersion)
	e.Byte(flags)
	e.Name(string(x.Kind), entries.Kinds)
	e.Name(string(x.State), entries.States)
	e.Name(string(x.Outcome), entries.Outcomes)
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
	if flags&entryEvidence == 0 {
		return
	}
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

func decodeEntry(b []byte, x *justonce.Entry) error {
	d := decoder{packed.Decoder{B: b}}
	if v := d.Byte(); v != entryVersion {
		return fmt.Errorf("encoding %d is not known to this version", v)
	}
	flags := d.Byte()
	x.IsResult = flags&entryIsResult != 0
	x.Kind = justonce.EntryKind(d.Name(entries.Kinds))
	x.State = justonce.State(d.Name(entries.States))
	x.Outcome = justonce.EventKind(d.Name(entries.Outcomes))
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
			return packed.ErrShort
		}
		x.Evidence = make(map[string]string, n)
		for range n {
			name := d.String()
			x.Evidence[name] = d.String()
		}
	}
	return d.Err
}

// scanEntry reads data and body of stmt from column col on.
func scanEntry(stmt *sqlite.Stmt, col int, scratch *[]byte) (x justonce.Entry, err error) {
	if err := decodeEntry(column(stmt, col, scratch), &x); err != nil {
		return x, err
	}
	x.Body = blob(stmt, col+1)
	return x, nil
}
