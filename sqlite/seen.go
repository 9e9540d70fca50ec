package sqlite

import (
	"context"
	"sync/atomic"

	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite"
)

// seen remembers the hashes of keys and identities in a Bloom filter of fixed
// size. A Begin that it has never seen goes straight to the writer; any other
// reads first, so that a replay does not wait for the writer. Either way the
// writer decides: a wrong answer of the filter costs time, nothing else. At 5
// million operations one new key in twenty is taken for a known one; with many
// more the filter fills and every Begin reads first.
type seen struct {
	words  []atomic.Uint64
	ready  atomic.Bool // what was recorded before Open is in it
	others atomic.Bool // another process records operations too
}

const seenBits = 1 << 25 // 4 MiB

func newSeen() *seen { return &seen{words: make([]atomic.Uint64, seenBits/64)} }

func (s *seen) add(hash int64) {
	a, b := spread(hash)
	for range 3 {
		i := a % seenBits
		if w, bit := &s.words[i/64], uint64(1)<<(i%64); w.Load()&bit == 0 {
			w.Or(bit)
		}
		a += b
	}
}

func (s *seen) maybe(hash int64) bool {
	if !s.ready.Load() || s.others.Load() {
		return true
	}
	a, b := spread(hash)
	for range 3 {
		i := a % seenBits
		if s.words[i/64].Load()&(1<<(i%64)) == 0 {
			return false
		}
		a += b
	}
	return true
}

// remember adds what r has begun or met, which may be another process's.
func (s *Store) remember(r *request) {
	s.seen.add(r.keyHash)
	if r.fresh && r.row.identity != "" {
		s.seen.add(r.idHash)
	}
}

// spread makes two independent numbers of a hash.
func spread(hash int64) (a, b uint32) {
	x := uint64(hash) * 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return uint32(x), uint32(x>>32) | 1
}

// fillSeen reads what was recorded before, a little at a time.
func (s *Store) fillSeen() {
	const some = 10_000
	for from, more := int64(packed.NoTime), true; more; {
		select {
		case <-s.stop:
			return
		default:
		}
		err := s.read(context.Background(), func(conn *sqlite.Conn) error {
			stmt, err := conn.Prepare("SELECT hash FROM slot WHERE hash >= ?1 ORDER BY hash LIMIT ?2")
			if err != nil {
				return err
			}
			stmt.BindInt64(1, from)
			stmt.BindInt64(2, some)
			n := 0
			for ; ; n++ {
				found, err := stmt.Step()
				if err != nil {
					return err
				}
				if !found {
					break
				}
				from = stmt.ColumnInt64(0)
				s.seen.add(from)
			}
			more = n == some
			return stmt.Reset()
		})
		if err != nil {
			s.log.Warn("ledger: every call reads first", "error", err)
			return
		}
	}
	s.seen.ready.Store(true)
}
