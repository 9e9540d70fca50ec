package mcpproxy

import (
	"fmt"
	"time"
)

// A pace spreads the starts of a server that keeps ending: at once for the first
// time, then after 1s to 30s. Its holder's lock guards it.
type pace struct {
	tries int
	next  time.Time // not before
}

// lasted is how long a server must last to count as a good one.
const lasted = 10 * time.Second

// wait returns an error if it is too early to start again; why the server ended.
func (p *pace) wait(why error) error {
	if wait := time.Until(p.next); wait > 0 {
		return fmt.Errorf("the server keeps ending (%w); it is started again in %s", why, wait.Round(time.Second/10))
	}
	return nil
}

// failed notes that the server ended, or did not start, after it had lived.
func (p *pace) failed(lived time.Duration) {
	if lived > lasted {
		p.tries = 0
	}
	if p.tries > 0 {
		p.next = time.Now().Add(min(time.Second<<min(p.tries-1, 5), 30*time.Second))
	}
	p.tries++
}
