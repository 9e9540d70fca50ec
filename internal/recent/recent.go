// Package recent remembers lately seen hashes in a fixed amount of memory.
package recent

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// Full is how many hashes a [Filter] remembers at least, once it has seen as
// many; it remembers no more than twice that.
const Full = 2_000_000 // one new key in forty is then taken for a known one

const bits = 1 << 24 // 2 MiB

// A Filter remembers hashes in two Bloom filters. When the newer is full,
// another is begun and the older is forgotten. It is safe for concurrent use.
type Filter struct {
	mu     sync.Mutex
	blooms [2]atomic.Pointer[bloom] // newest first
}

type bloom struct {
	words [bits / 64]atomic.Uint64
	n     atomic.Int64
}

// New returns a Filter that has seen nothing.
func New() *Filter {
	f := &Filter{}
	f.Reset()
	return f
}

// Reset forgets everything.
func (f *Filter) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.blooms {
		f.blooms[i].Store(&bloom{})
	}
}

// Add remembers h, whose bits must be as good as random.
func (f *Filter) Add(h [16]byte) {
	b := f.blooms[0].Load()
	if b.n.Load() >= Full {
		f.mu.Lock()
		if f.blooms[0].Load() == b {
			f.blooms[1].Store(b)
			f.blooms[0].Store(&bloom{})
		}
		f.mu.Unlock()
		b = f.blooms[0].Load()
	}
	added := false
	for _, i := range spread(h) {
		if w, bit := &b.words[i/64], uint64(1)<<(i%64); w.Load()&bit == 0 {
			w.Or(bit)
			added = true
		}
	}
	if added {
		b.n.Add(1)
	}
}

// MayHave reports whether h was added. It may be true of a few that were not,
// and false of what has been forgotten.
func (f *Filter) MayHave(h [16]byte) bool {
	at := spread(h)
	return f.blooms[0].Load().has(at) || f.blooms[1].Load().has(at)
}

func (b *bloom) has(at [3]uint32) bool {
	for _, i := range at {
		if b.words[i/64].Load()&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}

func spread(h [16]byte) (at [3]uint32) {
	for i := range at {
		at[i] = binary.BigEndian.Uint32(h[4*i:]) % bits
	}
	return at
}
