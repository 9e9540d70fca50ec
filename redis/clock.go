package redis

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"
)

// A clock carries the server's time on by this process's monotonic clock.
type clock struct{ at atomic.Pointer[reading] }

// A reading says that the server's clock showed server when this process's
// showed local.
type reading struct{ local, server time.Time }

func (r *reading) now(local time.Time) time.Time { return r.server.Add(local.Sub(r.local)) }

func (c *clock) now() time.Time { return c.at.Load().now(time.Now()) }

// set takes what the server said to a question asked at sent and answered at
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

// setClock measures. It fails too if the ledger is not there any more.
func (s *Store) setClock(ctx context.Context) error {
	sent := time.Now()
	v, err := strs(s.read(ctx, scriptProbe))
	if err != nil {
		return err
	}
	received := time.Now()
	if len(v) != 3 || v[2] != s.mark {
		return errGone
	}
	sec, err1 := strconv.ParseInt(v[0], 10, 64)
	usec, err2 := strconv.ParseInt(v[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s.clock.set(sent, received, time.Unix(sec, usec*1000))
	return nil
}
