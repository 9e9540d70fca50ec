package postgres_test

import (
	"testing"
	"time"

	"github.com/justonce-dev/justonce/postgres"
)

// The clock is the database's, whatever this machine's shows, and off by no
// more than the round trip of the last measurement.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{0, time.Hour, -time.Hour} {
		var c postgres.Clock
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

func TestNowIsTheServers(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	var server time.Time
	before := s.Now()
	if err := connect(t).QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&server); err != nil {
		t.Fatal(err)
	}
	after := s.Now()
	const slack = 100 * time.Millisecond // for a busy machine
	if server.Before(before.Add(-slack)) || server.After(after.Add(slack)) {
		t.Errorf("Now is %v to %v, the server's clock %v", before, after, server)
	}
}
