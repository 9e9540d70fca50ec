package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// growthSpan is the time in which what has ended arrived.
const growthSpan = 100 * 24 * time.Hour

// at returns when the ended operation n arrived.
func (g *growth) at(n int64) time.Time {
	return g.start.Add(-growthSpan + time.Duration(n)*(growthSpan/time.Duration(g.ended)))
}

// recent returns an operation that has succeeded and still answers for its key.
func (g *growth) recent(i int64) int64 { return g.ended - 1 - i%max(g.ended/20_000, 1)*100 }

// dueAtStart is how many of the open operations are due at once: one in 100.
func (g *growth) dueAtStart() int64 { return (g.open + 99) / 100 }

// writes returns how operation n came to be: first those that have ended, then
// those that are open.
func (g *growth) writes(n int64) []postgres.Write {
	if n < g.ended {
		return endedWrites(n, g.at(n))
	}
	return openWrites(n-g.ended, benchKey(n), g.start)
}

// endedWrites: one in a hundred was rejected, the others have succeeded.
func endedWrites(n int64, at time.Time) []postgres.Write {
	op := benchOp(benchKey(n), at)
	first := postgres.Write{Op: *op, Entry: arrived(op)}
	e := end(op, at.Add(300*time.Microsecond))
	if n%100 == 1 {
		op.State, op.Reason, op.Digest = justonce.Failed, justonce.ReasonRejected, ""
		op.Failure = &justonce.Failure{Code: "card_declined", Message: "the provider says that it did not"}
		e.State, e.Outcome, e.Body, e.IsResult, e.Failure = op.State, justonce.EventRejected, nil, false, op.Failure
	}
	return []postgres.Write{first, {Op: *op, Entry: e}}
}

// openWrites: one in a hundred is due, nine are long-running jobs, thirty wait
// for a lookup, ten for a person, the others for their time.
func openWrites(n int64, key string, now time.Time) []postgres.Write {
	created, later := now.Add(-time.Minute-time.Duration(n)*time.Millisecond), now.Add(time.Hour+time.Duration(n)*time.Millisecond)
	op := pendingOp(key, created)
	if kind := n % 100; kind == 0 || kind >= 50 {
		if kind != 0 {
			op.Due = later
		}
		return []postgres.Write{{Op: *op, Entry: arrived(op)}}
	} else if kind < 10 {
		op = benchOp(key, created)
		op.Accepted, op.LeaseUntil, op.Due = true, later.Add(time.Minute), later
		return []postgres.Write{{Op: *op, Entry: arrived(op)}}
	}
	op = benchOp(key, created)
	first := postgres.Write{Op: *op, Entry: arrived(op)}
	op.State, op.LeaseUntil, op.Due, op.UnknownAt, op.Unknowns, op.UpdatedAt = justonce.Unknown, time.Time{}, later, now, 1, now
	if n%100 < 20 {
		op.State, op.Due = justonce.Review, time.Time{}
	}
	op.Failure = &justonce.Failure{Code: "timeout", Message: "no answer within 30 s"}
	return []postgres.Write{first, {Op: *op, Entry: justonce.Entry{Kind: justonce.EntryAttempt, At: now, Fence: 1,
		State: op.State, Outcome: justonce.EventUnknown, Failure: op.Failure}}}
}

// fill records all, past the calls.
func (g *growth) fill(t *testing.T) {
	const some = 100_000
	start, total := time.Now(), g.ended+g.open
	parts := make(chan int64)
	var wg sync.WaitGroup
	for range 2 {
		conn := g.connect(t)
		wg.Go(func() {
			for from := range parts {
				err := g.Copy(context.Background(), conn, min(some, total-from), func(i int64) []postgres.Write { return g.writes(from + i) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for from := int64(0); from < total && !t.Failed(); from += some {
		parts <- from
	}
	close(parts)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if err := g.Watch(t.Context(), g.conn, total); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := g.conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d ended and %d open operations were there after %v", g.ended, g.open, time.Since(start).Round(time.Second))
}

// checkFill compares some of what was filled with what calls write, column by
// column, and reads it. op.was is left out: it matters within a write only.
func (g *growth) checkFill(t *testing.T) {
	other := open(t, g.server.URL("postgres"), &postgres.Options{Schema: g.schema + "-calls"})
	defer other.Close()
	raw := func(s *postgres.Store, table string, n int64) (row string) {
		sql := fmt.Sprintf(`SELECT coalesce(string_agg((to_jsonb(x) - 'id' - 'was')::text, ''), '') FROM %[1]q.%[2]s AS x
			JOIN %[1]q.op ON op.hash = x.hash WHERE op.key = $1 AND op.tenant = '' AND op.created = $2`, s.Schema(), table)
		if err := g.conn.QueryRow(t.Context(), sql, benchKey(n), g.writes(n)[0].Op.CreatedAt.UnixNano()).Scan(&row); err != nil {
			t.Fatal(err)
		}
		return row
	}
	for _, n := range []int64{0, 1, g.ended - 1, g.ended, g.ended + 1, g.ended + 10, g.ended + 20, g.ended + 50} {
		key := benchKey(n)
		for i, w := range g.writes(n) {
			var err error
			if i == 0 {
				_, err = other.Begin(t.Context(), &w.Op, w.Entry)
			} else {
				w.Op.Version = int64(i)
				err = other.Update(t.Context(), &w.Op, w.Entry)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range []string{"op", "watch"} {
			if diff := cmp.Diff(raw(other, table, n), raw(g.Store, table, n)); diff != "" {
				t.Errorf("%s of %d (-as calls write it +filled):\n%s", table, n, diff)
			}
		}
		ref := justonce.Ref{Key: key}
		want, err := other.Get(t.Context(), ref)
		got, err2 := g.Get(t.Context(), ref)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || err2 != nil {
			t.Errorf("Get of %d (-want +got): %v, %v\n%s", n, err, err2, diff)
		}
	}
}

// tables tells how big they are, and what of them is dead.
func (g *growth) tables(t *testing.T, when string) {
	rows, err := g.conn.Query(t.Context(), `SELECT relname, pg_relation_size(relid), pg_indexes_size(relid), n_live_tup, n_dead_tup, n_tup_upd, n_tup_hot_upd, autovacuum_count,
		(SELECT coalesce(string_agg(indexrelname || ' ' || pg_size_pretty(pg_relation_size(indexrelid)), ', ' ORDER BY indexrelname), '')
			FROM pg_stat_user_indexes AS i WHERE i.relid = t.relid)
		FROM pg_stat_user_tables AS t WHERE schemaname = $1 AND relname IN ('op', 'watch', 'tally') ORDER BY relname`, g.schema)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, indexes string
		var size, indexSize, live, dead, updated, hot, vacuums int64
		if err := rows.Scan(&name, &size, &indexSize, &live, &dead, &updated, &hot, &vacuums, &indexes); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %s: %d MB and %d MB of indexes (%s), %d rows, %d dead, %d updates of which %.1f %% HOT, vacuumed %d times",
			when, name, size>>20, indexSize>>20, indexes, live, dead, updated, 100*float64(hot)/float64(max(updated, 1)), vacuums)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
