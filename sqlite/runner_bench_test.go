package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	justonce "github.com/justonce-dev/justonce"
)

// benchRunner is a Runner on a SQLite ledger with a tool whose effect is empty.
func benchRunner(b *testing.B, cache int) *justonce.Runner {
	s := openBench(b)
	r, err := justonce.New(s, &justonce.RunnerOptions{CacheBytes: cache, Tools: []*justonce.Tool{{Name: "charge",
		Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) { return benchResult, nil })}}})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func runnerCall(b *testing.B, r *justonce.Runner, n int64, replayed bool) {
	a, err := r.Do(context.Background(), justonce.Call{Tool: "charge", Key: benchKey(n), Scope: "account-1", RunID: "run-2026-11-30-0001", Arguments: benchArgs})
	if err != nil || a.Operation.State != justonce.Succeeded || a.Replayed != replayed {
		b.Errorf("Do: %+v, %v", a, err)
	}
}

// BenchmarkRunnerFirstCall compares Runner.Do with the bare floor in one run.
func BenchmarkRunnerFirstCall(b *testing.B) {
	for _, c := range callers {
		for _, checkpoint := range []string{"1000", "4096"} { // pages; which is better depends on c
			b.Run(fmt.Sprintf("floor-%s/c=%d", checkpoint, c), func(b *testing.B) {
				f := openFloor(b, checkpoint, 1)
				calls := make([]floorCall, c)
				for i := range calls {
					calls[i].done = make(chan struct{}, 1)
				}
				closedLoop(b, c, func(i int, n int64) { f.call(&calls[i], benchKey(n), benchArgs, benchResult, benchOutcome) })
			})
		}
		b.Run(fmt.Sprintf("runner/c=%d", c), func(b *testing.B) {
			r := benchRunner(b, 0)
			closedLoop(b, c, func(_ int, n int64) { runnerCall(b, r, n, false) })
		})
	}
}

// BenchmarkRunnerReplay compares replays with the bare prepared read of row and
// result, and without the ledger from the cache.
func BenchmarkRunnerReplay(b *testing.B) {
	const ops = 10_000
	for _, c := range []int{16, 128} {
		b.Run(fmt.Sprintf("floor/c=%d", c), func(b *testing.B) {
			f := openFloor(b, "1000", 2)
			fill(ops, func(n int64) {
				call := floorCall{done: make(chan struct{}, 1)}
				f.call(&call, benchKey(n), benchArgs, benchResult, benchOutcome)
			})
			closedLoop(b, c, func(_ int, n int64) { f.get(benchKey(n%ops + 1)) })
		})
		for name, cache := range map[string]int{"ledger": -1, "cache": 256 << 20} {
			b.Run(fmt.Sprintf("%s/c=%d", name, c), func(b *testing.B) {
				r := benchRunner(b, cache)
				fill(ops, func(n int64) { runnerCall(b, r, n, false) })
				keys := make([]string, ops)
				for i := range keys {
					keys[i] = benchKey(int64(i) + 1)
				}
				closedLoop(b, c, func(_ int, n int64) {
					a, err := r.Do(context.Background(), justonce.Call{Tool: "charge", Key: keys[n%ops], Scope: "account-1", RunID: "run-2026-11-30-0001", Arguments: benchArgs})
					if err != nil || !a.Replayed {
						b.Errorf("Do: %+v, %v", a, err)
					}
				})
			})
		}
	}
}
