package redis

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	justonce "github.com/justonce-dev/justonce"
)

// seen remembers the hashes of keys in Bloom filters of fixed size. A Begin of a
// key that it has seen reads first, which costs the server less than a script.
// Either way the server decides: a wrong answer costs a round trip, nothing
// else. When a filter is full, a new one is filled and the one before is
// forgotten.
type seen struct {
	mu      sync.Mutex
	filters [2]atomic.Pointer[bloom] // newest first
}

type bloom struct {
	words [seenBits / 64]atomic.Uint64
	n     atomic.Int64
}

const (
	seenBits = 1 << 24   // 2 MiB
	seenFull = 2_000_000 // one new key in forty is then taken for a known one
)

func newSeen() *seen {
	s := &seen{}
	s.filters[0].Store(&bloom{})
	s.filters[1].Store(&bloom{})
	return s
}

func (s *seen) add(h hash) {
	f := s.filters[0].Load()
	if f.n.Load() >= seenFull {
		s.mu.Lock()
		if s.filters[0].Load() == f {
			s.filters[1].Store(f)
			s.filters[0].Store(&bloom{})
		}
		s.mu.Unlock()
		f = s.filters[0].Load()
	}
	added := false
	for _, i := range spread(h) {
		if w, bit := &f.words[i/64], uint64(1)<<(i%64); w.Load()&bit == 0 {
			w.Or(bit)
			added = true
		}
	}
	if added {
		f.n.Add(1)
	}
}

func (s *seen) maybe(h hash) bool {
	bits := spread(h)
	return s.filters[0].Load().has(bits) || s.filters[1].Load().has(bits)
}

func (f *bloom) has(bits [3]uint32) bool {
	for _, i := range bits {
		if f.words[i/64].Load()&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}

func spread(h hash) (bits [3]uint32) {
	for i := range bits {
		bits[i] = binary.BigEndian.Uint32(h[4*i:]) % seenBits
	}
	return bits
}

// MayHave implements [justonce.Guesser] with what this process has seen. It may
// be false of what another process recorded.
func (s *Store) MayHave(ref justonce.Ref) bool { return s.seen.maybe(keyHash(ref.Tenant, ref.Key)) }
