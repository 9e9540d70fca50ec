package justonce

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// A cache keeps operations that succeeded, so that replays need no ledger. They
// come in with their first replay: most calls have none, and to keep them all
// would cost each a seventh of what it takes.
//
// A success is what every later duplicate gets (G4), so an entry does not turn
// wrong, only old: it counts no more when its derived key's time is over, and
// one that may end at any time is not kept. An incident that another process
// records later is seen here once news of it comes, see [Notifier], or the entry
// has gone.
//
// A Ref may be in the four slots of its set only, so that neither a reader has
// to wait nor a writer to search.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
	drops  [cacheDrops]atomic.Uint32 // counted, of the keys with one hash
	limit  int                       // bytes per shard
	sets   int                       // per shard
}

const (
	cacheShards = 64
	cacheWays   = 4
	cacheDrops  = 1 << 12
)

// operationSize is what an entry costs beside its result, roughly.
const operationSize = 1024

type cacheShard struct {
	sets atomic.Pointer[[]cacheSet]

	mu   sync.Mutex // held by writers
	size int
	hand int // the set from which the next is taken if size is too large

	_ [32]byte // its neighbour's lock is not on its cache line
}

// A cacheSet is what one place may hold. A slot's hash may be that of another
// moment than its op, which says itself what it is; with the shard locked they
// belong together. What is kept is touched as seldom as can be: it lies anywhere
// in memory.
type cacheSet [cacheWays]struct {
	hash atomic.Uint64
	op   atomic.Pointer[Operation]
	size int // writers'; 0: the slot is empty
}

func newCache(bytes int) *cache {
	c := &cache{seed: maphash.MakeSeed(), limit: max(bytes, 0) / cacheShards}
	c.sets = max(1, c.limit/operationSize*2/cacheWays) // half of the slots full: few are pushed out early
	return c
}

func (c *cache) find(ref Ref) (hash uint64, s *cacheShard, set int) {
	hash = maphash.Comparable(c.seed, ref)
	return hash, &c.shards[hash%cacheShards], int(hash / cacheShards % uint64(c.sets))
}

// A moment is when it was asked what became of an operation: what was dropped
// later may be newer than the answer.
type moment uint32

func (c *cache) moment(hash uint64) moment { return moment(c.drops[hash%cacheDrops].Load()) }

// get returns what is kept of ref, else nil and the moment.
func (c *cache) get(ref Ref, now func() time.Time) (*Operation, moment) {
	hash, s, i := c.find(ref)
	asked := c.moment(hash)
	sets := s.sets.Load()
	if sets == nil {
		return nil, asked
	}
	set := &(*sets)[i]
	for j := range set {
		if set[j].hash.Load() != hash {
			continue
		}
		if op := set[j].op.Load(); op != nil && op.Ref == ref {
			if !op.DedupeUntil.IsZero() && op.outlived(now()) {
				break
			}
			return op, asked
		}
	}
	return nil, asked
}

// put keeps op, as it was read since asked.
func (c *cache) put(op *Operation, asked moment) {
	size := operationSize + len(op.Result)
	if op.State != Succeeded || size > c.limit/4 {
		return
	}
	hash, s, i := c.find(op.Ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	sets := s.sets.Load()
	if sets == nil {
		made := make([]cacheSet, c.sets)
		sets = &made
		s.sets.Store(sets)
	}
	if c.moment(hash) != asked { // looked at once a drop would see what is put in
		return
	}
	set := &(*sets)[i]
	way := int(hash>>32) % cacheWays // whoever is there goes, if all are taken
	for j := range set {
		if set[j].size == 0 {
			way = j
			continue
		}
		if set[j].hash.Load() != hash {
			continue
		}
		if old := set[j].op.Load(); old == op {
			return
		} else if old.Ref == op.Ref {
			if old.Version > op.Version && old.CreatedAt.Equal(op.CreatedAt) {
				return // whoever read op was slow
			}
			way = j
			break
		}
	}
	s.take(set, way)
	for s.size+size > c.limit {
		s.hand = (s.hand + 1) % c.sets
		for j := range cacheWays {
			s.take(&(*sets)[s.hand], j)
		}
	}
	set[way].hash.Store(hash)
	set[way].op.Store(op)
	set[way].size = size
	s.size += size
}

// drop forgets ref, also what is on its way.
func (c *cache) drop(ref Ref) {
	hash, s, i := c.find(ref)
	c.drops[hash%cacheDrops].Add(1)
	sets := s.sets.Load()
	if sets == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	set := &(*sets)[i]
	for j := range set {
		if set[j].size > 0 && set[j].hash.Load() == hash && set[j].op.Load().Ref == ref {
			s.take(set, j)
		}
	}
}

// take empties a slot.
func (s *cacheShard) take(set *cacheSet, way int) {
	set[way].op.Store(nil)
	s.size -= set[way].size
	set[way].size = 0
}
