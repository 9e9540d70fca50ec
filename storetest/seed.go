package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// random runs f with some seeds of its own, or with the one in STORETEST_SEED.
// The seed is told when the test fails.
func (s *suite) random(t *testing.T, name string, n int, f func(l *ledger, rng *rand.Rand)) {
	var seeds []uint64
	if env := os.Getenv("STORETEST_SEED"); env != "" {
		seed, err := strconv.ParseUint(env, 10, 64)
		if err != nil {
			t.Fatalf("STORETEST_SEED: %v", err)
		}
		seeds = []uint64{seed}
	} else {
		rounds := 1
		if env := os.Getenv("STORETEST_ROUNDS"); env != "" {
			var err error
			if rounds, err = strconv.Atoi(env); err != nil {
				t.Fatalf("STORETEST_ROUNDS: %v", err)
			}
		}
		for range n * rounds {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for i, seed := range seeds {
		s.test(t, fmt.Sprint(name, i+1), func(l *ledger) {
			l.t.Logf("run again with STORETEST_SEED=%d", seed)
			f(l, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// oneOf returns one of its arguments.
func oneOf[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }
