package postgres_test

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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/postgres"
)

// What one call of the benchmarks carries.
var (
	benchArgs    = json.RawMessage(`{"order_id":"ord-0001234","amount":9900,"currency":"EUR","customer":"c-1001"}`)
	benchResult  = json.RawMessage(`{"id":"ch_3PqLkT2eZvKYlo2C1x","status":"succeeded","amount":9900}`)
	benchOutcome = []byte(`{"outcome":"succeeded","fence":1,"http_status":"200"}`)
)

// benchKey is like a derived key: its order is random.
func benchKey(n int64) string {
	sum := sha256.Sum256([]byte(strconv.FormatInt(n, 10)))
	return hex.EncodeToString(sum[:])[:32]
}

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

// end returns op as it is when it has succeeded, and the entry that says so.
func end(op *justonce.Operation, now time.Time) justonce.Entry {
	started := op.FirstSent
	op.Status = justonce.Status{State: justonce.Succeeded, Fence: 1, Attempts: 1, FirstSent: started, Digest: op.Fingerprint}
	op.UpdatedAt, op.DedupeUntil = now, now.Add(24*time.Hour)
	return justonce.Entry{
		Kind: justonce.EntryAttempt, At: now, Started: started, Fence: 1, State: op.State, Outcome: justonce.EventSucceeded,
		Evidence: map[string]string{"http_status": "200"}, Body: benchResult, IsResult: true,
	}
}

func arrived(op *justonce.Operation) justonce.Entry {
	return justonce.Entry{Kind: justonce.EntryArrived, At: op.CreatedAt, State: op.State, Body: op.Arguments}
}

// firstCall makes one first call: two commits.
func firstCall(ctx context.Context, tb testing.TB, s *postgres.Store, key string) {
	op := benchOp(key, s.Now())
	if a, err := s.Begin(ctx, op, arrived(op)); err != nil || !a.Fresh {
		tb.Errorf("Begin: %+v, %v", a, err)
		return
	}
	e := end(op, s.Now())
	if err := s.Update(ctx, op, e); err != nil {
		tb.Errorf("Update: %v", err)
	}
}

// benchServer is durable, as PostgreSQL is by default.
var benchServer struct {
	sync.Once
	server *pgtest.Server
	err    error
}

func benchDSN(tb testing.TB) string {
	pgtest.Skip(tb)
	benchServer.Do(func() { benchServer.server, benchServer.err = pgtest.Start() })
	if benchServer.err != nil {
		tb.Fatal(benchServer.err)
	}
	return benchServer.server.URL("postgres")
}

func stopBenchServer() {
	if benchServer.server != nil {
		if err := benchServer.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

func openBench(tb testing.TB) *postgres.Store {
	return open(tb, benchDSN(tb), &postgres.Options{Schema: newSchema()})
}

// closedLoop runs f b.N times from c callers and reports the rate and the
// 99th percentile.
func closedLoop(b *testing.B, c int, f func(caller int, n int64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	times := make([][]time.Duration, c)
	cpu, server := cpuTime(), serverTime()
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
	b.ReportMetric(float64((serverTime()-server).Microseconds())/float64(b.N), "server-cpu-µs/call")
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
// both durable) with the floor; impatient is a runner whose callers may give up
// before it has the result. Run all in one go and quote the ratio.
func BenchmarkFirstCall(b *testing.B) {
	for _, c := range callers {
		b.Run(fmt.Sprintf("floor/c=%d", c), func(b *testing.B) {
			f := openFloor(b)
			closedLoop(b, c, func(_ int, n int64) { f.call(benchKey(n)) })
		})
		b.Run(fmt.Sprintf("store/c=%d", c), func(b *testing.B) {
			s := openBench(b)
			closedLoop(b, c, func(_ int, n int64) { firstCall(context.Background(), b, s, benchKey(n)) })
			b.ReportMetric(float64(2*b.N)/float64(s.Commits()), "writes/commit")
		})
		b.Run(fmt.Sprintf("runner/c=%d", c), func(b *testing.B) {
			s := openBench(b)
			r := benchRunnerOn(b, s, 0)
			closedLoop(b, c, func(_ int, n int64) { runnerCall(context.Background(), b, r, n, false) })
			b.ReportMetric(float64(2*b.N)/float64(s.Commits()), "writes/commit")
		})
		b.Run(fmt.Sprintf("impatient/c=%d", c), func(b *testing.B) {
			r := benchRunner(b, 0)
			closedLoop(b, c, func(_ int, n int64) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				runnerCall(ctx, b, r, n, false)
			})
		})
	}
}

// BenchmarkReplay compares a Begin of what has ended with the floor's coalesced
// read of row and result, and replays through a Runner without its cache.
func BenchmarkReplay(b *testing.B) {
	const ops = 10_000
	for _, c := range callers {
		b.Run(fmt.Sprintf("floor/c=%d", c), func(b *testing.B) {
			f := openFloor(b)
			fill(ops, func(n int64) { f.call(benchKey(n)) })
			closedLoop(b, c, func(_ int, n int64) { f.get(benchKey(n%ops + 1)) })
		})
		b.Run(fmt.Sprintf("store/c=%d", c), func(b *testing.B) {
			s := openBench(b)
			fill(ops, func(n int64) { firstCall(b.Context(), b, s, benchKey(n)) })
			closedLoop(b, c, func(_ int, n int64) {
				op := benchOp(benchKey(n%ops+1), s.Now())
				a, err := s.Begin(context.Background(), op, arrived(op))
				if err != nil || a.Fresh || a.Operation.Result == nil {
					b.Errorf("Begin: %+v, %v", a, err)
				}
			})
		})
		b.Run(fmt.Sprintf("runner/c=%d", c), func(b *testing.B) {
			r := benchRunner(b, -1)
			fill(ops, func(n int64) { runnerCall(context.Background(), b, r, n, false) })
			keys := make([]string, ops)
			for i := range keys {
				keys[i] = benchKey(int64(i) + 1)
			}
			closedLoop(b, c, func(_ int, n int64) {
				a, err := r.Do(context.Background(), benchCall(keys[n%ops]))
				if err != nil || !a.Replayed {
					b.Errorf("Do: %+v, %v", a, err)
				}
			})
		})
	}
}

// fill calls f with 1 to n, from several callers.
func fill(n int64, f func(n int64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				f(i)
			}
		})
	}
	wg.Wait()
}

// benchRunner is a Runner with a tool whose effect is empty.
func benchRunner(b *testing.B, cache int) *justonce.Runner {
	return benchRunnerOn(b, openBench(b), cache)
}

func benchRunnerOn(b *testing.B, s *postgres.Store, cache int) *justonce.Runner {
	r, err := justonce.New(s, &justonce.RunnerOptions{CacheBytes: cache, Tools: []*justonce.Tool{{Name: "charge",
		Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) { return benchResult, nil })}}})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func benchCall(key string) justonce.Call {
	return justonce.Call{Tool: "charge", Key: key, Scope: "account-1", RunID: "run-2026-11-30-0001", Arguments: benchArgs}
}

func runnerCall(ctx context.Context, b *testing.B, r *justonce.Runner, n int64, replayed bool) {
	a, err := r.Do(ctx, benchCall(benchKey(n)))
	if err != nil || a.Operation.State != justonce.Succeeded || a.Replayed != replayed {
		b.Errorf("Do: %+v, %v", a, err)
	}
}

// serverTime is what the server's processes have used, those that ended
// included.
func serverTime() time.Duration {
	if benchServer.server == nil {
		return 0
	}
	pid, err := os.ReadFile(filepath.Join(benchServer.server.Dir, "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	master, _, _ := strings.Cut(string(pid), "\n")
	ticks := 0
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 15 {
			continue
		}
		if own := filepath.Base(filepath.Dir(path)) == master; own || fields[1] == master {
			n := 2
			if own {
				n = 4 // and of its children that ended
			}
			for _, f := range fields[11 : 11+n] {
				t, _ := strconv.Atoi(f)
				ticks += t
			}
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
