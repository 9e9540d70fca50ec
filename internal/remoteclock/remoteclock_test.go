package remoteclock_test

import (
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/remoteclock"
)

// The clock is the server's, whatever this machine's shows, and off by no
// more than the round trip of the last measurement.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{0, time.Hour, -time.Hour} {
		var c remoteclock.Clock
		local := time.Now()
		server := func(at time.Time) time.Time { return at.Add(wrong) }
		measure := func(roundTrip, answered time.Duration) {
			sent := local
			local = local.Add(roundTrip)
			c.Set(sent, local, server(sent.Add(answered)))
		}
		const ms = time.Millisecond
		for _, m := range []struct{ roundTrip, answered time.Duration }{
			{20 * ms, 10 * ms}, {100 * ms, 0}, {100 * ms, 100 * ms}, {ms, ms}, {ms, 0}, {500 * ms, 250 * ms}, {2 * ms, ms},
		} {
			measure(m.roundTrip, m.answered)
			for range 3 {
				if off := c.At(local).Sub(server(local)); off.Abs() > m.roundTrip {
					t.Errorf("the clock is off by %v after a round trip of %v", off, m.roundTrip)
				}
				local = local.Add(time.Second)
			}
		}
		// It follows a step.
		wrong += time.Minute
		measure(ms, 0)
		if off := c.At(local).Sub(server(local)); off.Abs() > ms {
			t.Errorf("the clock is off by %v after the server's was set", off)
		}
	}
}

// Two machines whose own clocks are hours apart, and run on differently set,
// agree on the time: what one leases, the other sees expire when it does.
func TestClocksOfTwoMachines(t *testing.T) {
	t.Parallel()
	type machine struct {
		remoteclock.Clock
		wrong time.Duration
	}
	server := time.Unix(1_700_000_000, 0)
	machines := []*machine{{wrong: 2 * time.Hour}, {wrong: -3 * time.Hour}}
	const roundTrip = 10 * time.Millisecond
	for step := range 20 {
		for i, m := range machines {
			local := server.Add(m.wrong)
			m.Set(local.Add(-roundTrip), local, server.Add(-roundTrip/2*time.Duration(1+i)))
		}
		lease := machines[step%2].At(server.Add(machines[step%2].wrong)).Add(45 * time.Second)
		server = server.Add(45*time.Second + 2*roundTrip)
		other := machines[1-step%2]
		if now := other.At(server.Add(other.wrong)); now.Before(lease) || now.Sub(lease) > 4*roundTrip {
			t.Errorf("step %d: the other machine is %v from the end of a lease that ended %v ago", step, now.Sub(lease), 2*roundTrip)
		}
	}
}
