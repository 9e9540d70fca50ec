package redis

import (
	"cmp"
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
