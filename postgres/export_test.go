package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
)

// HoldConns takes all connections of s until the function returned is called.
func (s *Store) HoldConns(tb testing.TB) (release func()) {
	tb.Helper()
	var held []*conn
	for range s.pool.Config().MaxConns {
		c, err := s.acquire(context.Background())
		if err != nil {
			tb.Fatal(err)
		}
		held = append(held, c)
	}
	return func() {
		for _, c := range held {
			c.release()
		}
	}
}

// Queued returns how many requests wait for the writers.
func (s *Store) Queued() int {
	s.writers.mu.Lock()
	defer s.writers.mu.Unlock()
	return len(s.writers.list)
}

// Taken returns how many writers are at work.
func (s *Store) Taken() int {
	s.writers.mu.Lock()
	defer s.writers.mu.Unlock()
	return s.writers.busy
}

// Channel returns the name of the channel that s notifies.
func (s *Store) Channel() string { return s.notifier.channel }

// ForgetListeners makes s ask again who listens.
func (s *Store) ForgetListeners() {
	s.notifier.mu.Lock()
	defer s.notifier.mu.Unlock()
	s.notifier.asked = time.Time{}
}

// Horizon looks for the horizon of s now and returns it.
func (s *Store) Horizon(full bool) time.Time {
	s.horizon.mu.Lock()
	s.horizon.moved = time.Time{}
	if full {
		s.horizon.fullLook = time.Time{}
	} else {
		s.horizon.fullLook = time.Now()
	}
	s.horizon.mu.Unlock()
	s.look(context.Background())
	return packed.TimeOf(s.horizon.start(), packed.NoTime)
}

// HorizonSlack is how far behind the time the horizon stays.
const HorizonSlack = horizonSlack

// Forget empties what s remembers to have seen.
func (s *Store) Forget() { s.seen.Reset() }

// Schema returns the schema of s.
func (s *Store) Schema() string { return s.o.Schema }

// ListenLock returns the number of the lock that listeners share.
func (s *Store) ListenLock() int64 { return listenLock(s.o.Schema) }

// Fold replaces the rows of the tally by their sum.
func (s *Store) Fold() { s.fold() }

// Setting returns a setting of the sessions of s.
func (s *Store) Setting(tb testing.TB, name string) (value string) {
	tb.Helper()
	st := s.st.plain("setting", "SELECT current_setting($1)", oidText)
	err := s.read(context.Background(), query{st, [][]byte{[]byte(name)}, func(v [][]byte) error { value = string(v[0]); return nil }})
	if err != nil {
		tb.Fatal(err)
	}
	return value
}
