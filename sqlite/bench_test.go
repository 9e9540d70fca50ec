package sqlite_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
)

// What one call of the benchmarks carries.
var (
	benchArgs    = json.RawMessage(`{"order_id":"ord-0001234","amount":9900,"currency":"EUR","customer":"c-1001"}`)
	benchResult  = json.RawMessage(`{"id":"ch_3PqLkT2eZvKYlo2C1x","status":"succeeded","amount":9900}`)
	benchOutcome = []byte(`{"outcome":"succeeded","fence":1,"http_status":"200"}`)
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// benchKey is like a derived key: its order is random.
func benchKey(n int64) string { return hash(strconv.FormatInt(n, 10))[:32] }

// benchOp is an operation as a runner records it, with its lease.
func benchOp(key string, now time.Time) *justonce.Operation {
	return &justonce.Operation{
		Ref:         justonce.Ref{Key: key},
		KeySource:   justonce.KeyContent,
		Scope:       "account-1",
		RunID:       "run-2026-11-30-0001",
		Tool:        "charge",
		IntentSeq:   1,
		Fingerprint: key + key,
		Algorithm:   "v1",
		WireKey:     key,
		Status: justonce.Status{State: justonce.Running, Fence: 1, Attempts: 1,
			LeaseUntil: now.Add(45 * time.Second), Due: now.Add(45 * time.Second), FirstSent: now},
		Arguments: benchArgs,
		CreatedAt: now,
		UpdatedAt: now,
	}
}

// firstCall makes one first call: two commits.
func firstCall(ctx context.Context, tb testing.TB, s *sqlite.Store, key string, edit func(*justonce.Operation)) {
	now := s.Now()
	op := benchOp(key, now)
	a, err := s.Begin(ctx, op, justonce.Entry{Kind: justonce.EntryArrived, At: now, State: op.State, Body: op.Arguments})
	if err != nil || !a.Fresh {
		tb.Errorf("Begin: %+v, %v", a, err)
		return
	}
	done := s.Now()
	op.Status = justonce.Status{State: justonce.Succeeded, Fence: 1, Attempts: 1, FirstSent: now, Digest: op.Fingerprint}
	op.UpdatedAt, op.DedupeUntil = done, now.Add(24*time.Hour)
	if edit != nil {
		edit(op)
	}
	err = s.Update(ctx, op, justonce.Entry{
		Kind: justonce.EntryAttempt, At: done, Started: now, Fence: 1, State: op.State, Outcome: justonce.EventSucceeded,
		Evidence: map[string]string{"http_status": "200"}, Body: benchResult, IsResult: true,
	})
	if err != nil {
		tb.Errorf("Update: %v", err)
	}
}

func openBench(tb testing.TB) *sqlite.Store {
	dir := os.Getenv("JUSTONCE_BENCH_DIR")
	if dir == "" {
		dir = tb.TempDir()
	} else {
		dir, _ = os.MkdirTemp(dir, "bench")
		tb.Cleanup(func() { os.RemoveAll(dir) })
	}
	s, err := sqlite.Open(tb.Context(), filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// closedLoop runs f b.N times from c callers and reports the rate and the
// 99th percentile.
func closedLoop(b *testing.B, c int, f func(caller int, n int64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	times := make([][]time.Duration, c)
	cpu := cpuTime()
	b.ResetTimer()
	for i := range c {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				start := time.Now()
				f(i, n)
				times[i] = append(times[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/call")
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// cpuTime is what this process has used: on a busy machine a steadier measure
// than the rate.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var callers = []int{1, 16, 128, 1024}

// BenchmarkFirstCall compares a first call (intent recorded, result recorded,
// both durable) with the floor. Run both in one go and quote the ratio.
func BenchmarkFirstCall(b *testing.B) {
	for _, c := range callers {
		for _, checkpoint := range []string{"1000", "4096"} {
			b.Run(fmt.Sprintf("floor-%s/c=%d", checkpoint, c), func(b *testing.B) {
				f := openFloor(b, checkpoint, 1)
				calls := make([]floorCall, c)
				for i := range calls {
					calls[i].done = make(chan struct{}, 1)
				}
				closedLoop(b, c, func(i int, n int64) {
					f.call(&calls[i], benchKey(n), benchArgs, benchResult, benchOutcome)
				})
			})
		}
		b.Run(fmt.Sprintf("store/c=%d", c), func(b *testing.B) {
			s := openBench(b)
			ctxs := contexts(b, c)
			closedLoop(b, c, func(i int, n int64) { firstCall(ctxs[i], b, s, benchKey(n), nil) })
			b.ReportMetric(float64(s.Commits()), "commits")
		})
	}
}

// BenchmarkReplay compares a Begin of what has ended with the floor's read of
// row and result, on as many connections.
func BenchmarkReplay(b *testing.B) {
	const ops = 10_000
	for _, c := range callers {
		b.Run(fmt.Sprintf("floor/c=%d", c), func(b *testing.B) {
			f := openFloor(b, "1000", 2)
			fill(ops, func(n int64) {
				call := floorCall{done: make(chan struct{}, 1)}
				f.call(&call, benchKey(n), benchArgs, benchResult, benchOutcome)
			})
			closedLoop(b, c, func(_ int, n int64) { f.get(benchKey(n%ops + 1)) })
		})
		b.Run(fmt.Sprintf("store/c=%d", c), func(b *testing.B) {
			s := openBench(b)
			fill(ops, func(n int64) { firstCall(b.Context(), b, s, benchKey(n), nil) })
			ctxs := contexts(b, c)
			closedLoop(b, c, func(i int, n int64) {
				now := s.Now()
				op := benchOp(benchKey(n%ops+1), now)
				a, err := s.Begin(ctxs[i], op, justonce.Entry{Kind: justonce.EntryArrived, At: now, Body: op.Arguments})
				if err != nil || a.Fresh || a.Operation.Result == nil {
					b.Errorf("Begin: %+v, %v", a, err)
				}
			})
		})
		b.Run(fmt.Sprintf("get/c=%d", c), func(b *testing.B) {
			s := openBench(b)
			fill(ops, func(n int64) { firstCall(b.Context(), b, s, benchKey(n), nil) })
			closedLoop(b, c, func(_ int, n int64) {
				if _, err := s.Get(b.Context(), justonce.Ref{Key: benchKey(n%ops + 1)}); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// contexts returns one for each caller, as a server has one for each request.
func contexts(b *testing.B, n int) []context.Context {
	ctxs := make([]context.Context, n)
	for i := range ctxs {
		ctx, cancel := context.WithCancel(context.Background())
		b.Cleanup(cancel)
		ctxs[i] = ctx
	}
	return ctxs
}

// fill calls f for 1 to n from many goroutines.
func fill(n int64, f func(int64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				f(i)
			}
		})
	}
	wg.Wait()
}
