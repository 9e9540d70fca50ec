package justonce

import "time"

// Slept makes r believe that the machine was asleep for d until now.
func (r *Runner) Slept(d time.Duration) {
	r.awake.mu.Lock()
	defer r.awake.mu.Unlock()
	now := time.Now()
	r.awake.begun, r.awake.wall, r.awake.mono = true, now.Add(-d), now.Sub(r.started)
}
