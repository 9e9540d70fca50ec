package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/postgres"
)

const (
	// growthRate is how many operations a second arrive while is measured.
	growthRate = 1000
	// growthClaims bounds the median of a claim.
	growthClaims = 5 * time.Millisecond
)

// TestGrowth tells what a ledger costs that has grown: speed beside a
// transaction that somebody keeps open, and beside a purge of a tenth of it. It
// takes minutes and gigabytes: set JUSTONCE_GROWTH to the number of operations
// that have ended; a hundredth of it is open besides. JUSTONCE_GROWTH_IDLE is
// for how long the transaction stays open, 20s by default, and
// JUSTONCE_BENCH_DIR a place for the data.
func TestGrowth(t *testing.T) {
	ended, _ := strconv.ParseInt(os.Getenv("JUSTONCE_GROWTH"), 10, 64)
	if ended == 0 {
		t.Skip("JUSTONCE_GROWTH is not set")
	}
	idle, err := time.ParseDuration(cmp.Or(os.Getenv("JUSTONCE_GROWTH_IDLE"), "20s"))
	if err != nil {
		t.Fatal(err)
	}
	g := newGrowth(t, ended)
	g.fill(t)
	g.checkFill(t)
	g.atRest(t)

	t.Logf("load: %d new operations a second, %d of 20 of them claimed; times are p50 / p99 / greatest", growthRate, growthEnqueued)
	t.Logf("alone: %v", g.loadFor(t, max(idle/10, 5*time.Second)))
	g.tables(t, "before the transaction")
	tx, err := g.connect(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM "+g.table("watch")); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); idle > 0; idle -= time.Minute {
		l := g.loadFor(t, min(idle, time.Minute))
		t.Logf("beside a transaction open for %v: %v", time.Since(begun).Round(time.Second), l)
		if m := l.claims.at(0.5); m > growthClaims {
			t.Errorf("the median of %d claims is %v, want at most %v", len(l.claims.sorted), m, growthClaims)
		}
	}
	g.tables(t, "with the transaction open")
	g.atRest(t)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.checkClaimed(t)

	t.Logf("before the purge: %v", g.loadFor(t, 10*time.Second))
	g.purge(t)
	t.Logf("after the purge: %v", g.loadFor(t, 10*time.Second))
	g.tables(t, "after the purge")
	if _, err := g.conn.Exec(t.Context(), "VACUUM "+g.table("op")+", "+g.table("watch")+", "+g.table("tally")); err != nil {
		t.Fatal(err)
	}
	g.tables(t, "after vacuum")
}

// A growth is a ledger that has grown.
type growth struct {
	*postgres.Store
	server *pgtest.Server
	conn   *pgx.Conn
	schema string
	start  time.Time
	ended  int64 // operations that were there before
	open   int64

	next     atomic.Int64 // numbers the operations that arrive
	enqueued atomic.Int64
	claimed  atomic.Int64
}

func newGrowth(t *testing.T, ended int64) *growth {
	pgtest.Skip(t)
	// A small server, but for its checkpoints, which would come every few
	// seconds of the filling.
	server, err := pgtest.Start("shared_buffers=1GB", "max_wal_size=8GB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	g := &growth{server: server, schema: newSchema(), ended: ended, open: ended / 100}
	g.next.Store(ended + g.open)
	g.Store = open(t, server.URL("postgres"), &postgres.Options{Schema: g.schema})
	g.start = g.Now().Truncate(time.Microsecond)
	g.conn = g.connect(t)
	return g
}

func (g *growth) connect(t *testing.T) *pgx.Conn {
	conn, err := pgx.Connect(context.Background(), g.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (g *growth) table(name string) string { return pgx.Identifier{g.schema, name}.Sanitize() }

// atRest tells what calls take one after the other.
func (g *growth) atRest(t *testing.T) {
	start := time.Now()
	s := open(t, g.server.URL("postgres"), &postgres.Options{Schema: g.schema})
	opened := time.Since(start)
	defer s.Close()
	each := func(n int64, f func(i int64) error) time.Duration {
		var l latencies
		for i := range n {
			l.time(t, func() error { return f(i) })
		}
		return l.at(0.5)
	}
	list := func(f justonce.Filter) func(int64) error {
		return func(int64) error { _, err := s.List(t.Context(), f); return err }
	}
	first := each(300, func(int64) error { return g.call(s, g.next.Add(1)) })
	replay := each(1000, func(i int64) error { return g.replay(s, g.recent(i)) })
	get := each(1000, func(i int64) error {
		_, err := s.Get(t.Context(), justonce.Ref{Key: benchKey(i * 7919 % g.ended)})
		return err
	})
	stats := each(5, func(int64) error { _, err := s.Stats(t.Context()); return err })
	claim := each(20, func(int64) error {
		_, err := s.Claim(t.Context(), growthDue, func(*justonce.Operation, time.Time) ([]justonce.Entry, bool) { return nil, false })
		return err
	})
	t.Logf("one after the other, medians: open %v, first call %v, replay %v, get %v, claim %v, statistics %v, list %v, of what waits for a person %v, of what failed %v",
		opened, first, replay, get, claim, stats, each(20, list(justonce.Filter{})),
		each(5, list(justonce.Filter{States: []justonce.State{justonce.Review}})), each(20, list(justonce.Filter{States: []justonce.State{justonce.Failed}})))
}

// growthEnqueued of 20 operations that arrive are left to a claim.
const growthEnqueued = 1

var growthDue = justonce.Due{Tools: []string{"charge"}, Limit: 10}

// call makes the first call n.
func (g *growth) call(s *postgres.Store, n int64) error {
	op := benchOp(benchKey(n), s.Now())
	if a, err := s.Begin(context.Background(), op, arrived(op)); err != nil || !a.Fresh {
		return fmt.Errorf("Begin: %+v, %w", a, err)
	}
	e := end(op, s.Now())
	return s.Update(context.Background(), op, e)
}

func (g *growth) replay(s *postgres.Store, n int64) error {
	op := benchOp(benchKey(n), s.Now())
	a, err := s.Begin(context.Background(), op, arrived(op))
	if err != nil || a.Fresh || a.Operation.Result == nil {
		return fmt.Errorf("Begin of %d: %+v, %w", n, a, err)
	}
	return nil
}

// enqueue records n for a claim, due within a second.
func (g *growth) enqueue(n int64) error {
	now := g.Now()
	op := pendingOp(benchKey(n), now)
	op.Due = now.Add(time.Duration(n%1000) * time.Millisecond)
	if a, err := g.Begin(context.Background(), op, arrived(op)); err != nil || !a.Fresh {
		return fmt.Errorf("Begin: %+v, %w", a, err)
	}
	g.enqueued.Add(1)
	return nil
}

// claimSome claims once and carries out what it gets.
func (g *growth) claimSome(t *testing.T, l *load) {
	var ops []*justonce.Operation
	took := l.claims.time(t, func() (err error) {
		ops, err = g.Claim(context.Background(), growthDue, take)
		return err
	})
	if len(ops) > 0 {
		l.found.add(took)
	}
	for _, op := range ops {
		g.claimed.Add(1)
		e := end(op, g.Now())
		if err := g.Update(context.Background(), op, e); err != nil {
			t.Errorf("Update of what was claimed: %v", err)
		}
	}
}

// A load is what operations that arrive, replays and claims took while they
// ran beside each other.
type load struct {
	calls, replays, claims latencies
	found                  latencies // of the claims that found something
}

func (l *load) String() string {
	return fmt.Sprintf("first call %v; replay %v; claim %v, those that found something %v", &l.calls, &l.replays, &l.claims, &l.found)
}

func (g *growth) loadFor(t *testing.T, d time.Duration) *load {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return g.load(ctx, t)
}

// load runs until ctx is done.
func (g *growth) load(ctx context.Context, t *testing.T) *load {
	l := &load{}
	var wg sync.WaitGroup
	every := func(d time.Duration, f func()) {
		wg.Go(func() {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					f()
				}
			}
		})
	}
	const callers = 20
	for range callers {
		every(callers*time.Second/growthRate, func() {
			if n := g.next.Add(1); n%20 < growthEnqueued {
				if err := g.enqueue(n); err != nil {
					t.Error(err)
				}
			} else {
				l.calls.time(t, func() error { return g.call(g.Store, n) })
			}
		})
	}
	n := int64(0)
	every(10*time.Millisecond, func() {
		n++
		l.replays.time(t, func() error { return g.replay(g.Store, g.recent(n)) })
	})
	every(20*time.Millisecond, func() { g.claimSome(t, l) })
	wg.Wait()
	return l
}

// checkClaimed carries out what is still due, and tells whether claims have got
// all that was due and nothing else.
func (g *growth) checkClaimed(t *testing.T) {
	want := g.dueAtStart() + g.enqueued.Load()
	for deadline := time.Now().Add(time.Minute); g.claimed.Load() < want && time.Now().Before(deadline); {
		g.claimSome(t, &load{})
	}
	if n := g.claimed.Load(); n != want {
		t.Errorf("%d operations were claimed, want the %d that were due", n, want)
	}
	stats, err := g.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, state := range justonce.States() {
		if state.Open() || state == justonce.Review {
			n += stats.Count[state]
		}
	}
	if want := g.open - g.dueAtStart(); n != want {
		t.Errorf("%d operations are open, want the %d that are not due: %v", n, want, stats.Count)
	}
}

// purge makes tombstones of the older tenth of what has ended, beside a load.
func (g *growth) purge(t *testing.T) {
	const some = 10_000
	want := g.ended / 10
	before := g.at(want) // when the first of the others arrived
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan *load)
	go func() { done <- g.load(ctx, t) }()
	start, purged := time.Now(), int64(0)
	for {
		n, err := g.Purge(t.Context(), before, some)
		if err != nil {
			t.Errorf("Purge: %v", err)
		}
		if purged += int64(n); n < some {
			break
		}
	}
	took := time.Since(start)
	stop()
	t.Logf("purge of %d in %v, beside it: %v", purged, took.Round(time.Millisecond), <-done)
	var tombstones, oldest int64
	err := g.conn.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE state >= 6 AND updated < $1) FROM "+g.table("op")+" WHERE purged", before.UnixNano()).
		Scan(&tombstones, &oldest)
	if err != nil {
		t.Fatal(err)
	}
	if purged != want || tombstones != want || oldest != want {
		t.Errorf("Purge returned %d in all and left %d tombstones, %d of them due for it, want %d", purged, tombstones, oldest, want)
	}
	for n, note := range map[int64]string{0: justonce.NotePurged, want - 1: justonce.NotePurged, want: ""} {
		if op, err := g.Get(t.Context(), justonce.Ref{Key: benchKey(n)}); err != nil || op.Note != note || (op.Result == nil) != (note != "") && op.State == justonce.Succeeded {
			t.Errorf("Get of %d: %+v, %v, want the note %q", n, op, err, note)
		}
	}
}

// latencies gathers what calls took.
type latencies struct {
	mu     sync.Mutex
	times  []time.Duration
	sorted []time.Duration
}

// time calls f and notes how long it took.
func (l *latencies) time(t *testing.T, f func() error) time.Duration {
	start := time.Now()
	if err := f(); err != nil {
		t.Error(err)
	}
	took := time.Since(start)
	l.add(took)
	return took
}

func (l *latencies) add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times = append(l.times, took)
}

// at returns a quantile.
func (l *latencies) at(q float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sorted) != len(l.times) {
		l.sorted = slices.Sorted(slices.Values(l.times))
	}
	if len(l.sorted) == 0 {
		return 0
	}
	return l.sorted[int(q*float64(len(l.sorted)-1))].Round(10 * time.Microsecond)
}

func (l *latencies) String() string {
	return fmt.Sprintf("%v / %v / %v (%d)", l.at(0.5), l.at(0.99), l.at(1), len(l.times))
}
