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
	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/postgres"
)

// A lone is an operation that one goroutine alone works on, and what it was
// told of it.
type lone struct {
	key     string
	fresh   int
	version int64           // the greatest that was acknowledged
	notes   map[string]bool // of the entries that were acknowledged
	unsure  map[string]bool // of those that failed in an unknown way
}

// work begins the operation and writes to it until stop, going on as a runner
// would: after a failure it looks.
func (l *lone) work(s *postgres.Store, stop *atomic.Bool) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		op := pendingOp(l.key, s.Now())
		a, err := s.Begin(ctx, op, arrived(op))
		switch {
		case errors.Is(err, justonce.ErrUnavailable):
			if stop.Load() {
				return nil
			}
			continue
		case err != nil:
			return err
		case a.Fresh:
			l.fresh++
		default:
			op = a.Operation
		}
		if op.Version < l.version {
			return fmt.Errorf("version %d of %s is recorded after %d was acknowledged", op.Version, l.key, l.version)
		}
		for !stop.Load() {
			note := fmt.Sprint(i, "-", op.Version)
			err := s.Update(ctx, op, justonce.Entry{Kind: justonce.EntryDecision, Note: note})
			if err != nil {
				if !errors.Is(err, justonce.ErrUnavailable) {
					return err
				}
				l.unsure[note] = true
				break
			}
			l.version = op.Version
			l.notes[note] = true
		}
		if stop.Load() {
			return nil
		}
	}
}

// The server crashes under load, several times. What was acknowledged is there,
// nothing is there twice, and the store goes on by itself.
func TestServerCrashes(t *testing.T) {
	t.Parallel()
	pgtest.Skip(t)
	srv, err := pgtest.Start("shared_buffers=16MB")
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	s := open(t, srv.URL("postgres"), nil)
	listening, stopListening := context.WithCancel(t.Context())
	defer stopListening()
	go s.Listen(listening, func(justonce.Ref) {})
	var stop atomic.Bool
	var wg sync.WaitGroup
	var all []*lone
	for i := range 24 {
		l := &lone{key: fmt.Sprint("k", i), notes: map[string]bool{}, unsure: map[string]bool{}}
		all = append(all, l)
		wg.Go(func() {
			if err := l.work(s, &stop); err != nil {
				t.Error(err)
				stop.Store(true)
			}
		})
	}
	for range 4 {
		awaitCommits(t, s, 200, &stop)
		if err := srv.Crash(); err != nil {
			t.Fatal(err)
		}
	}
	awaitCommits(t, s, 200, &stop)
	stop.Store(true)
	wg.Wait()
	for _, l := range all {
		wantLone(t, s, l)
	}
	if stats, err := s.Stats(t.Context()); err != nil || stats.Count[justonce.Pending] != int64(len(all)) {
		t.Errorf("Stats: %+v, %v, want %d pending", stats, err, len(all))
	}
}

// awaitCommits waits for n more commits, or for stop. It looks now and then: a
// server that restarts needs the processor.
func awaitCommits(t *testing.T, s *postgres.Store, n uint64, stop *atomic.Bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for from := s.Commits(); s.Commits() < from+n && !stop.Load(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Error("the store does not go on")
			stop.Store(true)
		}
	}
}

func wantLone(t *testing.T, s *postgres.Store, l *lone) {
	t.Helper()
	op, err := s.Get(t.Context(), justonce.Ref{Key: l.key})
	if err != nil {
		t.Fatal(err)
	}
	history, err := s.History(t.Context(), op.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if l.fresh > 1 {
		t.Errorf("%s was fresh %d times", l.key, l.fresh)
	}
	if op.Version < l.version || int64(len(history)) != op.Version {
		t.Errorf("%s has version %d and %d entries after version %d was acknowledged", l.key, op.Version, len(history), l.version)
	}
	seen := map[string]bool{}
	for _, e := range history[1:] {
		if seen[e.Note] || !l.notes[e.Note] && !l.unsure[e.Note] {
			t.Errorf("%s has entry %q, twice or never written", l.key, e.Note)
		}
		seen[e.Note] = true
	}
	for note := range l.notes {
		if !seen[note] {
			t.Errorf("entry %q of %s was acknowledged and is not there", note, l.key)
		}
	}
}
