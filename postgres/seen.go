package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// seen remembers the hashes of keys and identities in Bloom filters of fixed
// size. A Begin that it has never seen goes straight to the writers; any other
// reads first, so that a replay does not wait for a commit. Either way the
// database decides: a wrong answer costs a round trip, nothing else. When a
// filter is full, a new one is filled and the one before is forgotten.
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

// fillSeen reads what was recorded before, a little at a time, in the order of
// the hashes. Of a ledger with more than a filter holds it reads a part.
func (s *Store) fillSeen(ctx context.Context) {
	const some, atMost = 5000, seenFull / 2
	var from hash
	st := s.st.plain("recorded", `SELECT hash FROM $schema.op WHERE hash > $1 ORDER BY hash LIMIT $2`, oidUUID, oidInt8)
	for n := 0; n < atMost; {
		rows := 0
		ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
		err := s.connected(ctx, func(c *conn) error {
			return c.exchange(ctx, query{st, [][]byte{bytes.Clone(from[:]), int64Param(some)}, func(v [][]byte) error {
				from = hash(v[0])
				s.seen.add(from)
				rows++
				return nil
			}})
		})
		cancel()
		if err != nil || rows < some {
			if err != nil && ctx.Err() == nil {
				s.o.Logger.Warn("ledger: reading what was recorded before", "error", err)
			}
			return
		}
		n += rows
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond): // in nobody's way
		}
	}
}
