package sqlite

import (
	"hash/maphash"
	"sync"

	justonce "github.com/justonce-dev/justonce"
)

// places remembers where operations that this process works on are stored, so
// that an update need not look for its row. A place is only a hint: it is
// used together with the version, which the update compares anyway.
type places struct {
	seed   maphash.Seed
	shards [32]placeShard
}

type placeShard struct {
	mu sync.Mutex
	m  map[justonce.Ref]place
	_  [40]byte // keeps neighbours off one cache line
}

// placesPerShard bounds the memory.
const placesPerShard = 512

func (p *places) init() {
	p.seed = maphash.MakeSeed()
	for i := range p.shards {
		p.shards[i].m = make(map[justonce.Ref]place)
	}
}

func (p *places) shard(ref justonce.Ref) *placeShard {
	return &p.shards[maphash.String(p.seed, ref.Key)%uint64(len(p.shards))]
}

func (p *places) get(ref justonce.Ref) place {
	s := p.shard(ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[ref]
}

// put remembers at; an operation that has ended is forgotten.
func (p *places) put(ref justonce.Ref, at place) {
	s := p.shard(ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.state >= stEnded {
		delete(s.m, ref)
		return
	}
	if len(s.m) >= placesPerShard {
		for victim := range s.m {
			delete(s.m, victim)
			break
		}
	}
	s.m[ref] = at
}
