package postgres

import (
	"context"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
)

// clockEvery is how often the database's clock is measured.
const clockEvery = 5 * time.Second

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
			s.clock.Set(sent, time.Now(), packed.TimeOf(int64At(v, 0), packed.NoTime))
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
	n, err := packed.Nanos(s.o.Now(), packed.NoTime)
	if err != nil {
		return nil, invalid("now", err.Error())
	}
	return int64Param(n), nil
}
