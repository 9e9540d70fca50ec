package postgres

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A piece is a chunk taken apart.
type piece struct {
	version int64
	content []byte
}

// pieces appends the pieces of chunks.
func pieces(all []piece, chunks []byte) ([]piece, error) {
	d := decoder{b: chunks}
	for len(d.b) > 0 && d.err == nil {
		version, content := d.chunk()
		all = append(all, piece{version, content})
	}
	return all, d.err
}

func sortPieces(all []piece) {
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.version, b.version) })
}

// argumentsIn returns the body of the first entry, and nil without one.
func argumentsIn(first []byte) ([]byte, error) {
	if len(first) == 0 {
		return nil, nil
	}
	d := decoder{b: first}
	_, content := d.chunk()
	if d.err != nil {
		return nil, d.err
	}
	in := decoder{b: content}
	x := in.entry()
	return slices.Clone(x.Body), in.err
}

// byteas reads an array of bytea from its binary format.
func byteas(b []byte) (list [][]byte, err error) {
	if len(b) <= arrayHeader {
		return nil, nil
	}
	for b = b[arrayHeader:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, errShort
		}
		n := int(int32(binary.BigEndian.Uint32(b)))
		if b = b[4:]; n < 0 || n > len(b) {
			return nil, errShort
		}
		list = append(list, b[:n:n])
		b = b[n:]
	}
	return list, nil
}
