package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
)

// begin records an operation that is due at once.
func begin(tb testing.TB, s *sqlite.Store, key string) *justonce.Operation {
	tb.Helper()
	op, err := tryBegin(context.Background(), s, key)
	if err != nil {
		tb.Fatalf("Begin(%s): %v", key, err)
	}
	return op
}

func tryBegin(ctx context.Context, s *sqlite.Store, key string) (*justonce.Operation, error) {
	now := s.Now()
	op := benchOp(key, now)
	op.State, op.LeaseUntil, op.Due = justonce.Pending, time.Time{}, now
	a, err := s.Begin(ctx, op, justonce.Entry{Kind: justonce.EntryArrived, At: now, State: op.State, Body: op.Arguments})
	if err == nil && !a.Fresh {
		err = errors.New("not fresh")
	}
	return op, err
}

func openNew(tb testing.TB) *sqlite.Store {
	return open(tb, filepath.Join(tb.TempDir(), "ledger.db"), nil)
}

// untilQueued returns when n requests wait for the writer.
func untilQueued(s *sqlite.Store, n int) {
	for s.Queued() < n {
		runtime.Gosched()
	}
}

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	s.Ready()
	due := begin(t, s, "due")
	release := s.Block(t, due.Ref)
	before := s.Commits()
	const n = 200
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { begin(t, s, fmt.Sprint("k", i)) })
	}
	untilQueued(s, n)
	release()
	wg.Wait()
	// The one that was blocked, and one for all that waited.
	if got := s.Commits() - before; got != 2 {
		t.Errorf("%d commits for %d calls that waited together, want 2", got, n)
	}
}

// One request's failure is its own.
func TestGroupKeepsFailuresApart(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	due, one, two := begin(t, s, "due"), begin(t, s, "one"), begin(t, s, "two")
	stale := *one
	stale.Version = 7
	release := s.Block(t, due.Ref)
	var wg sync.WaitGroup
	errs := make([]error, 3)
	wg.Go(func() { errs[0] = s.Update(context.Background(), &stale) })
	wg.Go(func() { errs[1] = s.Update(context.Background(), two) })
	wg.Go(func() { _, errs[2] = tryBegin(context.Background(), s, "three") })
	untilQueued(s, 2)
	release()
	wg.Wait()
	if !errors.Is(errs[0], justonce.ErrStale) || errs[1] != nil || errs[2] != nil {
		t.Errorf("errors %v, want ErrStale for the first alone", errs)
	}
}

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	s.Ready()
	due := begin(t, s, "due")
	release := s.Block(t, due.Ref)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := tryBegin(ctx, s, "gone")
		done <- err
	}()
	untilQueued(s, 1)
	cancel()
	// It returns although the writer is held.
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Begin: %v, want context.Canceled", err)
	}
	release()
	if _, err := s.Get(t.Context(), justonce.Ref{Key: "gone"}); !errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("Get of what was withdrawn: %v, want ErrNotFound", err)
	}
}

// A replay does not wait for the writer.
func TestReplayPassesTheWriter(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	due := begin(t, s, "due")
	release := s.Block(t, due.Ref)
	defer release()
	op := benchOp("due", s.Now())
	a, err := s.Begin(t.Context(), op, justonce.Entry{})
	if err != nil || a.Fresh || a.MatchedBy != justonce.MatchKey {
		t.Errorf("Begin: %+v, %v, want a match by key", a, err)
	}
}

func TestAdvancePanics(t *testing.T) {
	t.Parallel()
	s := openNew(t)
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
	begin(t, s, "k2")
}

func TestCloseWhileBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path, nil)
	const callers = 16
	var mu sync.Mutex
	var recorded []string
	var wg sync.WaitGroup
	started := make(chan struct{}, callers)
	for c := range callers {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprint(c, "-", i)
				_, err := tryBegin(context.Background(), s, key)
				if err != nil {
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
	s = open(t, path, nil)
	for _, key := range recorded {
		if _, err := s.Get(t.Context(), justonce.Ref{Key: key}); err != nil {
			t.Fatalf("%s was acknowledged: %v", key, err)
		}
	}
}
