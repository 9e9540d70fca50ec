package justonce

import (
	"hash/maphash"
	"sync"
	"time"
)

// A cache keeps operations that succeeded, so that replays need no ledger. A
// success is what every later duplicate gets (G4), so an entry does not turn
// wrong, only old: it counts no more when its derived key's time is over, and
// one that may end at any time is not kept. An incident that another process
// records later is seen here once news of it comes, see [Notifier], or the entry
// has gone.
type cache struct {
	seed   maphash.Seed
	shards [64]cacheShard
	limit  int // bytes per shard
}

type cacheShard struct {
	mu   sync.RWMutex
	ops  map[Ref]*Operation
	size int
	_    [24]byte // keep neighbours' locks off one cache line
}

// operationSize is what an entry costs beside its result, roughly.
const operationSize = 1024

func newCache(bytes int) *cache {
	c := &cache{seed: maphash.MakeSeed(), limit: bytes / 64}
	return c
}

func (c *cache) shard(ref Ref) *cacheShard {
	return &c.shards[maphash.String(c.seed, ref.Key)%uint64(len(c.shards))]
}

func (c *cache) get(ref Ref, now func() time.Time) *Operation {
	if c.limit <= 0 {
		return nil
	}
	s := c.shard(ref)
	s.mu.RLock()
	op := s.ops[ref]
	s.mu.RUnlock()
	if op != nil && !op.DedupeUntil.IsZero() && op.outlived(now()) {
		return nil
	}
	return op
}

func (c *cache) put(op *Operation) {
	size := operationSize + len(op.Result)
	if op.State != Succeeded || size > c.limit/4 {
		return
	}
	s := c.shard(op.Ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ops == nil {
		s.ops = make(map[Ref]*Operation)
	}
	if old := s.ops[op.Ref]; old == op {
		return
	} else if old != nil {
		delete(s.ops, op.Ref)
		s.size -= operationSize + len(old.Result)
	}
	// Map order is random enough for eviction.
	for ref, old := range s.ops {
		if s.size+size <= c.limit {
			break
		}
		delete(s.ops, ref)
		s.size -= operationSize + len(old.Result)
	}
	s.ops[op.Ref] = op
	s.size += size
}

func (c *cache) drop(ref Ref) {
	s := c.shard(ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.ops[ref]; old != nil {
		delete(s.ops, ref)
		s.size -= operationSize + len(old.Result)
	}
}
