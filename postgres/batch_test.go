package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// beginLeased records an operation that runs until its lease is over, alone or
// with others in one commit.
func beginLeased(tb testing.TB, s *postgres.Store, key string, lease time.Duration) *justonce.Operation {
	tb.Helper()
	op := benchOp(key, s.Now())
	op.LeaseUntil = op.CreatedAt.Add(lease)
	op.Due = op.LeaseUntil
	if a, err := s.Begin(context.Background(), op, arrived(op)); err != nil || !a.Fresh {
		tb.Errorf("Begin(%s): %+v, %v", key, a, err)
	}
	return op
}

// together records keys in one commit.
func together(tb testing.TB, s *postgres.Store, lease time.Duration, keys ...string) []*justonce.Operation {
	tb.Helper()
	release := s.HoldConns(tb)
	ops := make([]*justonce.Operation, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		wg.Go(func() { ops[i] = beginLeased(tb, s, key, lease) })
		until(func() bool { return s.Taken() > 0 && s.Taken()+s.Queued() == i+1 })
	}
	release()
	wg.Wait()
	return ops
}

func succeed(tb testing.TB, s *postgres.Store, op *justonce.Operation) {
	tb.Helper()
	e := end(op, s.Now())
	if err := s.Update(context.Background(), op, e); err != nil {
		tb.Errorf("Update(%s): %v", op.Key, err)
	}
}

// claimLeases takes over what is due.
func claimLeases(tb testing.TB, s *postgres.Store, limit int) []*justonce.Operation {
	tb.Helper()
	ops, err := s.Claim(context.Background(), justonce.Due{Limit: limit}, func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		op.Fence++
		op.LeaseUntil = now.Add(time.Hour)
		op.Due = op.LeaseUntil
		return nil, true
	})
	if err != nil {
		tb.Errorf("Claim: %v", err)
	}
	return ops
}

func batchRows(tb testing.TB, s *postgres.Store) (n int) {
	tb.Helper()
	if err := connect(tb).QueryRow(tb.Context(), `SELECT count(*) FROM "`+s.Schema()+`".batch`).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// What is left of a batch when a lease is over is found by another process, and
// nothing else is.
func TestBatchExpires(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()).UTC() }
	s := openNew(t, postgres.Options{Now: clock, Writers: 1, MaxConns: 2})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema(), Now: clock})

	ops := together(t, s, time.Minute, "a", "b", "c", "d")
	ops = append(ops, together(t, s, time.Hour, "later")...)
	succeed(t, s, ops[0])
	wantIntegrity(t, s)
	if n := batchRows(t, s); n < 2 {
		t.Fatalf("%d batches, want those of the open operations", n)
	}
	stats, err := other.Stats(t.Context())
	if err != nil || stats.Count[justonce.Running] != 4 || stats.Count[justonce.Succeeded] != 1 || stats.Lag != 0 || !stats.Oldest[justonce.Running].Equal(clock()) {
		t.Errorf("Stats: %+v, %v", stats, err)
	}
	page, err := other.List(t.Context(), justonce.Filter{States: []justonce.State{justonce.Running}})
	if err != nil || len(page.Operations) != 4 {
		t.Errorf("List: %+v, %v", page, err)
	}
	if got := claimLeases(t, other, 10); len(got) != 0 {
		t.Errorf("%d operations were claimed under their leases", len(got))
	}

	now.Add(int64(time.Minute + time.Second))
	if stats, err := other.Stats(t.Context()); err != nil || stats.Lag != time.Second {
		t.Errorf("Stats: %+v, %v, want what is overdue for a second", stats, err)
	}
	got := claimLeases(t, other, 2)
	got = append(got, claimLeases(t, other, 10)...)
	if len(got) != 3 || got[0].Key == got[1].Key {
		t.Errorf("claimed %+v, want b, c and d", got)
	}
	for _, op := range got {
		if op.Fence != 2 || string(op.Arguments) != string(benchArgs) {
			t.Errorf("claimed %+v", op)
		}
	}
	wantIntegrity(t, s)
	e := end(ops[1], clock())
	if err := s.Update(t.Context(), ops[1], e); !errors.Is(err, justonce.ErrStale) {
		t.Errorf("Update after another's claim: %v, want ErrStale", err)
	}
	succeed(t, other, got[0])
	succeed(t, s, ops[4])
	wantIntegrity(t, s)
}

// One operation of a batch can be claimed by its name as soon as its lease is
// over, though its batch has not been looked at.
func TestBatchMemberClaimed(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()).UTC() }
	s := openNew(t, postgres.Options{Now: clock})
	op := beginLeased(t, s, "a", time.Minute)
	beginLeased(t, s, "b", time.Minute)
	for _, want := range []int{0, 1, 0} {
		ops, err := s.Claim(t.Context(), justonce.Due{Ref: &op.Ref, Limit: 1}, func(op *justonce.Operation, at time.Time) ([]justonce.Entry, bool) {
			op.LeaseUntil = at.Add(time.Hour)
			op.Due = op.LeaseUntil
			return nil, true
		})
		if err != nil || len(ops) != want {
			t.Fatalf("Claim: %d operations, %v, want %d", len(ops), err, want)
		}
		wantIntegrity(t, s)
		now.Add(int64(time.Minute))
	}
}

// What somebody holds is passed over, and found later.
func TestBatchMemberHeld(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{Writers: 1, MaxConns: 2})
	together(t, s, time.Millisecond, "a", "b", "c")
	pending := begin(t, s, "pending")
	holder := beginTx(t, s)
	if _, err := holder.Exec(t.Context(), `SELECT FROM "`+s.Schema()+`".op WHERE key = 'a' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	until(func() bool {
		for _, op := range claimLeases(t, s, 10) {
			got[op.Key] = true
		}
		return len(got) == 3
	})
	if got["a"] || !got[pending.Key] {
		t.Errorf("claimed %v while a is held", got)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantIntegrity(t, s)
	until(func() bool { return len(claimLeases(t, s, 10)) == 1 })
	wantIntegrity(t, s)
}

// A claim leaves alone whose lease is not over.
func TestBatchKeepsLongLeases(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{Writers: 1, MaxConns: 2})
	release := s.HoldConns(t)
	var short, long *justonce.Operation
	var wg sync.WaitGroup
	wg.Go(func() { begin(t, s, "first") })
	until(func() bool { return s.Taken() == 1 })
	wg.Go(func() { short = beginLeased(t, s, "short", time.Millisecond) })
	wg.Go(func() { long = beginLeased(t, s, "long", time.Hour) })
	until(func() bool { return s.Queued() == 2 }) // which are recorded together
	release()
	wg.Wait()
	var got []*justonce.Operation
	until(func() bool { got = append(got, claimLeases(t, s, 10)...); return len(got) > 1 })
	if len(got) != 2 || got[0].Key != short.Key && got[1].Key != short.Key {
		t.Errorf("claimed %+v, want the first and the short one", got)
	}
	wantIntegrity(t, s)
	succeed(t, s, long)
	wantIntegrity(t, s)
}

// Batches go once all of their operations have ended or are in watch.
func TestBatchesGo(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	for i := range 8 { // so many are deleted at once
		succeed(t, s, beginLeased(t, s, fmt.Sprint("early-", i), time.Minute))
	}
	s.Forget()
	again := benchOp("early-0", s.Now()) // fails together with what else there is
	if a, err := s.Begin(t.Context(), again, arrived(again)); err != nil || a.Fresh {
		t.Fatalf("Begin again: %+v, %v", a, err)
	}
	for i := range 40 {
		op := beginLeased(t, s, fmt.Sprint(i), time.Minute)
		switch i % 3 {
		case 0:
			op.LeaseUntil = op.LeaseUntil.Add(time.Minute) // renewed
			op.Due = op.LeaseUntil
			if err := s.Update(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		case 1:
			e := end(op, s.Now())
			op.Reference, op.Exclusive = op.Key, true
			if err := s.Update(t.Context(), op, e); err != nil {
				t.Fatal(err)
			}
		default:
			succeed(t, s, op)
		}
	}
	if n := batchRows(t, s); n > 10 {
		t.Errorf("%d batches are left while the store works, want a few", n)
	}
	wantIntegrity(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := batchRows(t, s); n != 0 {
		t.Errorf("%d batches are left after Close", n)
	}
	wantIntegrity(t, s)
}

// A later operation under a key is not taken for the one that was in a batch.
func TestBatchOfAKeyUsedAgain(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	for i := range 10 {
		key := fmt.Sprint(i)
		var op *justonce.Operation
		if i%3 == 0 {
			op = begin(t, s, key) // never in a batch
		} else {
			op = beginLeased(t, s, key, time.Minute)
		}
		e := end(op, other.Now())
		op.DedupeUntil = other.Now() // it gives way at once
		if err := other.Update(t.Context(), op, e); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			other.Forget() // so that it first tries together with others
		}
		later := beginLeased(t, other, key, time.Minute)
		wantIntegrity(t, s)
		succeed(t, s, later)
		wantIntegrity(t, s)
	}
}

// Ends race with claims that find the leases over: each operation is ended by
// its holder or taken over, never both.
func TestBatchesRace(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	var ended, claimed, stale atomic.Int64
	var working sync.WaitGroup
	const callers, calls = 16, 40
	for c := range callers {
		working.Go(func() {
			for i := range calls {
				op := beginLeased(t, s, fmt.Sprint(c, "-", i), time.Duration(i%5)*time.Millisecond)
				for {
					e := end(op, s.Now())
					err := s.Update(t.Context(), op, e)
					if err == nil {
						ended.Add(1)
						break
					}
					if !errors.Is(err, justonce.ErrStale) {
						t.Errorf("Update: %v", err)
						return
					}
					stale.Add(1)
					if op, err = s.Get(t.Context(), op.Ref); err != nil {
						t.Errorf("Get: %v", err)
						return
					}
					if op.Fence > 1 {
						break // taken over
					}
				}
			}
		})
	}
	done := make(chan struct{})
	var claiming sync.WaitGroup
	for range 2 {
		claiming.Go(func() {
			for {
				claimed.Add(int64(len(claimLeases(t, other, 5))))
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	working.Wait()
	close(done)
	claiming.Wait()
	for n := 1; n > 0; claimed.Add(int64(n)) {
		n = len(claimLeases(t, other, 100))
	}
	t.Logf("%d ended, %d taken over, %d times a new version", ended.Load(), claimed.Load(), stale.Load())
	if ended.Load()+claimed.Load() != callers*calls {
		t.Errorf("%d ended and %d taken over, want %d together", ended.Load(), claimed.Load(), callers*calls)
	}
	if claimed.Load() == 0 || ended.Load() == 0 {
		t.Error("nothing raced")
	}
	wantIntegrity(t, s)
}
