package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/redis"
)

// A lone is an operation that one goroutine alone works on, and what it was
// told of it.
type lone struct {
	key     string
	acked   *atomic.Int64 // writes of all
	fresh   int
	version int64           // the greatest that was acknowledged
	notes   map[string]bool // of the entries that were acknowledged
	unsure  map[string]bool // of those that failed in an unknown way
}

// work begins the operation and writes to it until stop, going on as a runner
// would: after a failure it looks.
func (l *lone) work(s *redis.Store, stop *atomic.Bool) error {
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
			l.acked.Add(1)
			l.notes[note] = true
		}
		if stop.Load() {
			return nil
		}
	}
}

// The server is killed under load, several times. What was acknowledged is
// there, nothing is there twice, and the store goes on by itself.
func TestServerCrashes(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s := open(t, srv.URL(), nil)
	listening, stopListening := context.WithCancel(t.Context())
	defer stopListening()
	go s.Listen(listening, func(justonce.Ref) {})
	var stop atomic.Bool
	var acked atomic.Int64
	var wg sync.WaitGroup
	var all []*lone
	for i := range 24 {
		l := &lone{key: fmt.Sprint("k", i), acked: &acked, notes: map[string]bool{}, unsure: map[string]bool{}}
		all = append(all, l)
		wg.Go(func() {
			if err := l.work(s, &stop); err != nil {
				t.Error(err)
				stop.Store(true)
			}
		})
	}
	for range 4 {
		awaitWrites(t, &acked, 400, &stop)
		if err := errors.Join(srv.Kill(), srv.Restart()); err != nil {
			t.Fatal(err)
		}
	}
	awaitWrites(t, &acked, 400, &stop)
	stop.Store(true)
	wg.Wait()
	unsure := 0
	for _, l := range all {
		wantLone(t, s, l)
		unsure += len(l.unsure)
	}
	if unsure == 0 {
		t.Error("no write was under way when the server was killed")
	}
	if stats, err := s.Stats(t.Context()); err != nil || stats.Count[justonce.Pending] != int64(len(all)) {
		t.Errorf("Stats: %+v, %v, want %d pending", stats, err, len(all))
	}
	wantIntegrity(t, s)
}

// awaitWrites waits for n more acknowledged writes, or for stop.
func awaitWrites(t *testing.T, acked *atomic.Int64, n int64, stop *atomic.Bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for from := acked.Load(); acked.Load() < from+n && !stop.Load(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Error("the store does not go on")
			stop.Store(true)
		}
	}
}

func wantLone(t *testing.T, s *redis.Store, l *lone) {
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
