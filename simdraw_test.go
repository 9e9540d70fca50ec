package justonce_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// A draw derives every random decision of a history from its seed and from
// what it is about, so that goroutines which run at one instant cannot take
// each other's.
type draw struct {
	seed uint64
	mu   sync.Mutex
	n    map[string]uint64
}

func newDraw(seed uint64) *draw { return &draw{seed: seed, n: make(map[string]uint64)} }

// about returns the random source for the next decision about a thing.
func (d *draw) about(what ...string) *rand.Rand {
	h := fnv.New64a()
	for _, s := range what {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	about := h.Sum64()
	key := fmt.Sprint(about)
	d.mu.Lock()
	n := d.n[key]
	d.n[key]++
	d.mu.Unlock()
	return rand.New(rand.NewPCG(d.seed, about+n*0x9e3779b97f4a7c15))
}

func between(rng *rand.Rand, min, max time.Duration) time.Duration {
	return min + time.Duration(rng.Int64N(int64(max-min)))
}

// in reports true so many times in a hundred.
func in(rng *rand.Rand, percent int) bool { return rng.IntN(100) < percent }
