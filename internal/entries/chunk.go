package entries

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

// A chunk is the entries of one write: its version, the length of the rest in
// four bytes, and the entries. Chunks can be put one behind the other.

// AppendChunk encodes the entries of the write that makes version. It reports
// whether one of them holds a result. If their bodies have more than maxBody
// bytes together the error is an [justonce.InvalidError]; a time that cannot be
// stored is the encoder's.
func AppendChunk(e *packed.Encoder, version int64, entries []justonce.Entry, maxBody int) (hasResult bool, err error) {
	e.Int(version)
	e.B = append(e.B, 0, 0, 0, 0)
	start := len(e.B)
	size := 0
	for i := range entries {
		x := &entries[i]
		if size += len(x.Body); size > maxBody {
			return false, &justonce.InvalidError{Field: "body", Detail: "is too large to store", TooLarge: true}
		}
		hasResult = hasResult || x.IsResult && len(x.Body) > 0
		appendEntry(e, x)
	}
	binary.BigEndian.PutUint32(e.B[start-4:], uint32(len(e.B)-start))
	return hasResult, nil
}

// chunk returns the version and the content of the next chunk.
func chunk(d *packed.Decoder) (version int64, content []byte) {
	version = d.Int()
	size := d.Take(4)
	if size == nil {
		return version, nil
	}
	return version, d.Take(uint64(binary.BigEndian.Uint32(size)))
}

// A History collects chunks in any order. The zero value is empty. It keeps
// what it is given until [History.Entries].
type History struct{ pieces []piece }

// A piece is a chunk taken apart.
type piece struct {
	version int64
	content []byte
}

// Add takes chunks that are one behind the other.
func (h *History) Add(chunks []byte) error {
	d := packed.Decoder{B: chunks}
	for len(d.B) > 0 && d.Err == nil {
		version, content := chunk(&d)
		h.pieces = append(h.pieces, piece{version, content})
	}
	return d.Err
}

// Entries returns the entries in the order of the writes that made them. They
// share nothing with what was added.
func (h *History) Entries() (all []justonce.Entry, err error) {
	slices.SortFunc(h.pieces, func(a, b piece) int { return cmp.Compare(a.version, b.version) })
	for _, p := range h.pieces {
		d := packed.Decoder{B: p.content}
		for len(d.B) > 0 && d.Err == nil {
			x := next(&d)
			x.Body = bytes.Clone(x.Body)
			all = append(all, x)
		}
		if d.Err != nil {
			return nil, d.Err
		}
	}
	return all, nil
}

// Arguments returns a copy of the body of the first entry, and nil without one.
func Arguments(first []byte) ([]byte, error) {
	if len(first) == 0 {
		return nil, nil
	}
	d := packed.Decoder{B: first}
	_, content := chunk(&d)
	if d.Err != nil {
		return nil, d.Err
	}
	in := packed.Decoder{B: content}
	x := next(&in)
	return slices.Clone(x.Body), in.Err
}

// Result returns the result that the write of a version recorded, found among
// chunks and part of them; nil: there is none.
func Result(chunks []byte, version int64) ([]byte, error) {
	d := packed.Decoder{B: chunks}
	for len(d.B) > 0 && d.Err == nil {
		v, content := chunk(&d)
		if v != version {
			continue
		}
		var result []byte
		in := packed.Decoder{B: content}
		for len(in.B) > 0 && in.Err == nil {
			if x := next(&in); x.IsResult && len(x.Body) > 0 {
				result = x.Body
			}
		}
		return result, in.Err
	}
	return nil, d.Err
}
