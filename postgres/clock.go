package postgres

import (
	"context"
	"sync/atomic"
	"time"
)

// clockEvery is how often the database's clock is measured.
const clockEvery = 5 * time.Second

// A clock carries the database's time on by this process's monotonic clock.
type clock struct{ at atomic.Pointer[reading] }

// A reading says that the database's clock showed server when this process's
// showed local.
type reading struct{ local, server time.Time }

func (r *reading) now(local time.Time) time.Time { return r.server.Add(local.Sub(r.local)) }

func (c *clock) now() time.Time { return c.at.Load().now(time.Now()) }

// set takes what the database said to a question asked at sent and answered at
// received. It showed said at some time between: at received it shows said or
// up to a round trip more. An estimate within that stays, so that the clock
// runs evenly; another is moved to the nearest that is.
func (c *clock) set(sent, received, said time.Time) {
	early, late := said, said.Add(received.Sub(sent))
	next := said.Add(received.Sub(sent) / 2)
	if r := c.at.Load(); r != nil {
		switch is := r.now(received); {
		case is.Before(early):
			next = early
		case is.After(late):
			next = late
		default:
			next = is
		}
	}
	c.at.Store(&reading{received, next.UTC()})
}

// setClock measures.
func (s *Store) setClock(ctx context.Context) error {
	return s.connected(ctx, func(c *conn) error {
		st := s.st.plain("clock", "SELECT "+dbNow)
		if c.session {
			if _, err := c.prepared(ctx, st); err != nil {
				return err
			}
		}
		sent := time.Now()
		return c.exchange(ctx, query{statement: st, row: func(v [][]byte) error {
			s.clock.set(sent, time.Now(), timeOf(int64At(v, 0), noTime))
			return nil
		}})
	})
}

// keepClock measures until ctx ends.
func (s *Store) keepClock(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(ctx, clockEvery)
			if err := s.setClock(ctx); err != nil && ctx.Err() == nil {
				s.o.Logger.Warn("ledger: reading the server's clock", "error", err)
			}
			cancel()
		}
	}
}

// at returns the time to decide by, as a parameter: NULL lets the server take
// its own.
func (s *Store) at() ([]byte, error) {
	if s.o.Now == nil {
		return nil, nil
	}
	n, err := nanos(s.o.Now(), noTime)
	if err != nil {
		return nil, invalid("now", err.Error())
	}
	return int64Param(n), nil
}
