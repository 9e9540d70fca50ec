package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TryExec runs statements on the writer's connection, inside a transaction.
// The operation must be due.
func (s *Store) TryExec(due justonce.Ref, queries ...string) error {
	var err2 error
	_, err := s.Claim(context.Background(), justonce.Due{Ref: &due, Limit: 1},
		func(*justonce.Operation, time.Time) ([]justonce.Entry, bool) {
			for _, q := range queries {
				if err2 = sqlitex.ExecuteTransient(s.queue.writer.conn, q, nil); err2 != nil {
					break
				}
			}
			return nil, false
		})
	return errors.Join(err, err2)
}

// Exec is a TryExec that must work.
func (s *Store) Exec(tb testing.TB, due justonce.Ref, queries ...string) {
	tb.Helper()
	if err := s.TryExec(due, queries...); err != nil {
		tb.Fatalf("running %q: %v", queries, err)
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
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	n := 0
	for _, r := range s.queue.waiting {
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

// Collide makes nearly all keys and identities of a new ledger collide.
func (s *Store) Collide() { s.hash.bits = 1 }

// EncodeTime returns t as files have it.
func EncodeTime(t time.Time) ([]byte, error) {
	var e encoder
	e.Time(t)
	return e.B, e.Err
}

// DecodeTime is the reverse of EncodeTime.
func DecodeTime(b []byte) (time.Time, error) {
	d := decoder{packed.Decoder{B: b}}
	t := d.Time()
	return t, d.Err
}

// Closing reports whether Close has come to the writer.
func (s *Store) Closing() bool {
	_, open := s.queue.pending()
	return !open
}

// KnowsOthers reports whether another process was seen to record operations.
func (s *Store) KnowsOthers() bool { return s.seen.others.Load() }

// Yields reports whether another process was seen to write.
func (s *Store) Yields() bool { return s.queue.writer.known.foreign.Load() != nil }

// FillDisk lets the file grow no more in tx.
func (tx *Tx) FillDisk() error {
	g := tx.w.guard
	g.lifted = true
	defer func() { g.lifted = false }()
	return sqlitex.ExecuteTransient(tx.w.conn, "PRAGMA max_page_count = 1", nil)
}
