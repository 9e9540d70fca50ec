package justonce

import (
	"sync"
	"time"
)

// An awakening notices that the machine was asleep. Its processes wake one after
// the other: one that looks first finds the leases of all others expired, while
// their attempts go on.
type awakening struct {
	mu    sync.Mutex
	begun bool
	wall  time.Time     // when it was asked last
	mono  time.Duration // by the clock that stands still during sleep
	woke  time.Duration
	slept bool
}

// asleep is how far the wall clock must run ahead of the monotonic one.
const asleep = 2 * time.Second

// within reports whether the machine woke up less than d ago. Wall is the time of
// day, mono counts from any fixed moment.
func (a *awakening) within(wall time.Time, mono, d time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	wall = wall.Round(0) // without its monotonic reading
	if a.begun && wall.Sub(a.wall)-(mono-a.mono) > asleep {
		a.slept, a.woke = true, mono
	}
	a.begun, a.wall, a.mono = true, wall, mono
	return a.slept && mono-a.woke < d
}

// justWoke reports whether the machine woke up less than d ago.
func (r *Runner) justWoke(d time.Duration) bool {
	now := time.Now()
	return r.awake.within(now, now.Sub(r.started), d)
}
