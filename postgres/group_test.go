package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// pendingOp is an operation that is due at once.
func pendingOp(key string, now time.Time) *justonce.Operation {
	op := benchOp(key, now)
	op.State, op.LeaseUntil, op.Due, op.FirstSent = justonce.Pending, time.Time{}, now, time.Time{}
	return op
}

func tryBegin(ctx context.Context, s *postgres.Store, key string) (*justonce.Operation, error) {
	op := pendingOp(key, s.Now())
	a, err := s.Begin(ctx, op, arrived(op))
	if err == nil && !a.Fresh {
		err = errors.New("not fresh")
	}
	return op, err
}

// begin records an operation that is due at once.
func begin(tb testing.TB, s *postgres.Store, key string) *justonce.Operation {
	tb.Helper()
	op, err := tryBegin(context.Background(), s, key)
	if err != nil {
		tb.Fatalf("Begin(%s): %v", key, err)
	}
	return op
}

func openNew(tb testing.TB, o postgres.Options) *postgres.Store {
	tb.Helper()
	o.Schema = newSchema()
	return open(tb, server(tb).URL("postgres"), &o)
}

// until returns when cond is true; the test's own timeout ends it otherwise.
func until(cond func() bool) {
	for !cond() {
		runtime.Gosched()
	}
}

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{Writers: 1, MaxConns: 2})
	release := s.HoldConns(t)
	before := s.Commits()
	const n = 200
	var wg sync.WaitGroup
	wg.Go(func() { begin(t, s, "first") })
	until(func() bool { return s.Taken() == 1 })
	for i := range n {
		wg.Go(func() { begin(t, s, fmt.Sprint("k", i)) })
	}
	until(func() bool { return s.Queued() == n })
	release()
	wg.Wait()
	// The one that was held up, and one for all that waited.
	if got := s.Commits() - before; got != 2 {
		t.Errorf("%d commits for %d calls that waited together, want 2", got, n)
	}
}

// One request's failure is its own.
func TestGroupKeepsFailuresApart(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{Writers: 1, MaxConns: 2})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	one, two := begin(t, s, "one"), begin(t, s, "two")
	begin(t, other, "taken")
	stale := *one
	stale.Version = 7
	release := s.HoldConns(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	wg.Go(func() { begin(t, s, "first") })
	until(func() bool { return s.Taken() == 1 })
	wg.Go(func() { errs[0] = s.Update(context.Background(), &stale) })
	wg.Go(func() { errs[1] = s.Update(context.Background(), two) })
	wg.Go(func() { _, errs[2] = tryBegin(context.Background(), s, "three") })
	wg.Go(func() { _, errs[3] = tryBegin(context.Background(), s, "taken") })
	until(func() bool { return s.Queued() == 4 })
	release()
	wg.Wait()
	if !errors.Is(errs[0], justonce.ErrStale) || errs[1] != nil || errs[2] != nil || errs[3] == nil || errs[3].Error() != "not fresh" {
		t.Errorf("errors %v, want ErrStale, nothing, nothing and not fresh", errs)
	}
}

// A key that a transaction of the application holds keeps nobody else waiting
// for long.
func TestHeldKeyIsRefusedAlone(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{Writers: 1, MaxConns: 3})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	tx := beginTx(t, other)
	if _, err := other.EnqueueTx(t.Context(), tx, pendingOp("held", other.Now())); err != nil {
		t.Fatal(err)
	}
	release := s.HoldConns(t)
	var wg sync.WaitGroup
	errs := make([]error, 3)
	wg.Go(func() { begin(t, s, "first") })
	until(func() bool { return s.Taken() == 1 })
	for i, key := range []string{"before", "held", "later"} {
		wg.Go(func() { _, errs[i] = tryBegin(context.Background(), s, key) })
	}
	until(func() bool { return s.Queued() == 3 })
	release()
	wg.Wait()
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("errors of others: %v and %v", errs[0], errs[2])
	}
	if err := errs[1]; !errors.Is(err, justonce.ErrUnavailable) || !strings.Contains(err.Error(), "keep transactions short") {
		t.Errorf("Begin of a key that is held: %v, want ErrUnavailable and a hint", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := tryBegin(t.Context(), s, "held"); err == nil || err.Error() != "not fresh" {
		t.Errorf("Begin after the commit: %v, want not fresh", err)
	}
}

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{Writers: 1, MaxConns: 2})
	release := s.HoldConns(t)
	var wg sync.WaitGroup
	wg.Go(func() { begin(t, s, "first") })
	until(func() bool { return s.Taken() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := tryBegin(ctx, s, "gone")
		done <- err
	}()
	until(func() bool { return s.Queued() == 1 })
	cancel()
	// It returns although the writer is held.
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Begin: %v, want context.Canceled", err)
	}
	// And so do others who give up later, also when nobody was left for a while.
	for _, key := range []string{"gone later", "gone last"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := tryBegin(ctx, s, key)
			done <- err
		}()
		other, cancelOther := context.WithCancel(t.Context())
		go func() {
			_, err := tryBegin(other, s, key+", first")
			done <- err
		}()
		until(func() bool { return s.Queued() == 2 })
		cancelOther()
		if err := <-done; !errors.Is(err, context.Canceled) || s.Queued() != 1 {
			t.Errorf("Begin: %v, want context.Canceled, and %d wait, want 1", err, s.Queued())
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || s.Queued() != 0 {
			t.Errorf("Begin: %v, want context.Canceled, and %d wait, want none", err, s.Queued())
		}
	}
	release()
	wg.Wait()
	for _, key := range []string{"gone", "gone later", "gone last", "gone last, first"} {
		if _, err := s.Get(t.Context(), justonce.Ref{Key: key}); !errors.Is(err, justonce.ErrNotFound) {
			t.Errorf("Get of what was withdrawn: %v, want ErrNotFound", err)
		}
	}
}

func TestAdvancePanics(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{MaxConns: 2})
	op := begin(t, s, "k")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of advance does not reach the caller")
			}
		}()
		s.Claim(t.Context(), justonce.Due{Limit: 1}, func(op *justonce.Operation, _ time.Time) ([]justonce.Entry, bool) {
			op.Note = "half"
			panic("boom")
		})
	}()
	if got, err := s.Get(t.Context(), op.Ref); err != nil || got.Note != "" || got.Version != 1 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
	if err := s.Update(t.Context(), op); err != nil { // nothing holds its row
		t.Errorf("Update: %v", err)
	}
}

func TestCloseWhileBusy(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	const callers = 16
	var mu sync.Mutex
	var recorded []string
	var wg sync.WaitGroup
	started := make(chan struct{}, callers)
	for c := range callers {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprint(c, "-", i)
				if _, err := tryBegin(context.Background(), s, key); err != nil {
					if !errors.Is(err, justonce.ErrUnavailable) {
						t.Errorf("Begin on a closed store: %v, want ErrUnavailable", err)
					}
					return
				}
				mu.Lock()
				recorded = append(recorded, key)
				mu.Unlock()
				if i == 10 {
					started <- struct{}{}
				}
			}
		})
	}
	for range callers {
		<-started
	}
	schema := s.Schema()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
	for name, f := range map[string]func() error{
		"Get":     func() error { _, err := s.Get(context.Background(), justonce.Ref{Key: "k"}); return err },
		"History": func() error { _, err := s.History(context.Background(), justonce.Ref{Key: "k"}); return err },
		"Update":  func() error { return s.Update(context.Background(), benchOp("k", s.Now())) },
		"Stats":   func() error { _, err := s.Stats(context.Background()); return err },
	} {
		if err := f(); !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("%s on a closed store: %v, want ErrUnavailable", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	s = open(t, server(t).URL("postgres"), &postgres.Options{Schema: schema})
	for _, key := range recorded {
		if _, err := s.Get(t.Context(), justonce.Ref{Key: key}); err != nil {
			t.Fatalf("%s was acknowledged: %v", key, err)
		}
	}
}
