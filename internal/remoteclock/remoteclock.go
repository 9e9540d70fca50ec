// Package remoteclock knows the time of another machine without asking it each
// time.
package remoteclock

import (
	"sync/atomic"
	"time"
)

// A Clock carries a server's time on by this process's monotonic clock. It must
// be set before it is read, and is safe for concurrent use; one goroutine at a
// time may set it.
type Clock struct{ at atomic.Pointer[reading] }

// A reading says that the server's clock showed server when this process's
// showed local.
type reading struct{ local, server time.Time }

// Now returns the server's time in UTC, off by at most the round trip of the
// last measurement and what the clocks have drifted apart since.
func (c *Clock) Now() time.Time { return c.At(time.Now()) }

// At returns what the server's clock shows when this process's shows local.
func (c *Clock) At(local time.Time) time.Time {
	r := c.at.Load()
	return r.server.Add(local.Sub(r.local))
}

// Set takes what the server said to a question asked at sent and answered at
// received. It showed said at some time between: at received it shows said or
// up to a round trip more. An estimate within that stays, so that the clock
// runs evenly; another is moved to the nearest that is.
func (c *Clock) Set(sent, received, said time.Time) {
	early, late := said, said.Add(received.Sub(sent))
	next := said.Add(received.Sub(sent) / 2)
	if c.at.Load() != nil {
		switch is := c.At(received); {
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
