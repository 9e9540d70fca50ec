package sqlite

import (
	"context"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Exec runs statements on the writer's connection, inside a transaction that
// changes nothing. An operation must be due.
func (s *Store) Exec(tb testing.TB, due justonce.Ref, queries ...string) {
	tb.Helper()
	ran := false
	_, err := s.Claim(context.Background(), justonce.Due{Ref: &due, Limit: 1},
		func(*justonce.Operation, time.Time) ([]justonce.Entry, bool) {
			ran = true
			for _, q := range queries {
				if err := sqlitex.ExecuteTransient(s.writer.conn, q, nil); err != nil {
					tb.Errorf("%s: %v", q, err)
				}
			}
			return nil, false
		})
	if err != nil || !ran {
		tb.Fatalf("running %q: %v, ran %v", queries, err, ran)
	}
}

// Block holds the writer inside a transaction until the function returned is
// called.
func (s *Store) Block(tb testing.TB, due justonce.Ref) (release func()) {
	started, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.Claim(context.Background(), justonce.Due{Ref: &due, Limit: 1},
			func(*justonce.Operation, time.Time) ([]justonce.Entry, bool) {
				close(started)
				<-end
				return nil, false
			})
		done <- err
	}()
	<-started
	return func() {
		close(end)
		if err := <-done; err != nil {
			tb.Errorf("Claim: %v", err)
		}
	}
}

// Queued returns how many requests wait for the writer.
func (s *Store) Queued() int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	n := 0
	for _, r := range s.writer.queue {
		if r.stage == stageQueued {
			n++
		}
	}
	return n
}

// Ready waits until what was recorded before Open is known to be seen.
func (s *Store) Ready() { s.filled.Wait() }

// CheckSQLite tells how a version of SQLite is judged.
func CheckSQLite(version string) error { return checkNumber(version) }
