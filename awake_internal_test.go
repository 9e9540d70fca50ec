package justonce

import (
	"testing"
	"time"
)

// A machine whose wall clock ran ahead of its monotonic one slept; whoever holds
// a lease may be waking up, too.
func TestAwakening(t *testing.T) {
	day := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	var a awakening
	for _, x := range []struct {
		wall, mono time.Duration
		within     bool
	}{
		{0, 0, false},
		{time.Hour, time.Hour, false}, // nobody looked for an hour
		{time.Hour + time.Second, time.Hour, false},
		{3 * time.Hour, time.Hour + time.Second, true},
		{3*time.Hour + 50*time.Second, time.Hour + 51*time.Second, true},
		{3*time.Hour + 70*time.Second, time.Hour + 71*time.Second, false},
		{2 * time.Hour, time.Hour + 72*time.Second, false}, // set back
	} {
		if got := a.within(day.Add(x.wall), x.mono, time.Minute); got != x.within {
			t.Errorf("at %s, awake for %s: %v", x.wall, x.mono, got)
		}
	}
}
