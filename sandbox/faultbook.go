package sandbox

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// faultBook holds the armed faults. Its mutex is taken under the tally's, never the other way round.
type faultBook struct {
	mu    sync.Mutex
	rng   *rand.Rand
	armed []*Armed
	fired map[Kind]int
	some  atomic.Bool // whether armed is worth a lock
}

// take returns the fault that strikes a request in a phase, if any, and spends it. Faults of the
// request's own header come first, then the armed ones, oldest first.
func (b *faultBook) take(c *call, at phase) *Fault {
	for i := range c.own {
		if f := c.own[i]; phases[f.Kind] == at {
			c.own = slices.Delete(c.own, i, i+1)
			b.mu.Lock()
			b.fired[f.Kind]++
			b.mu.Unlock()
			return &f
		}
	}
	if !b.some.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range b.armed {
		if phases[a.Fault.Kind] != at || !c.matches(&a.Fault) {
			continue
		}
		if a.Fault.Probability < 1 && b.rng.Float64() >= a.Fault.Probability {
			continue
		}
		b.fired[a.Fault.Kind]++
		a.Fired++
		if a.Left > 0 {
			if a.Left--; a.Left == 0 {
				b.armed = slices.Delete(b.armed, i, i+1)
				b.some.Store(len(b.armed) > 0)
			}
		}
		f := a.Fault
		return &f
	}
	return nil
}

func (c *call) matches(f *Fault) bool {
	if f.Service != "" && f.Service != c.service.name {
		return false
	}
	if c.write && f.On == OnRead || !c.write && f.On == OnWrite {
		return false
	}
	for name, want := range f.Match {
		if v, ok := c.fields[name]; !ok || textOf(v) != want {
			return false
		}
	}
	return true
}

// Inject arms a fault. It strikes requests that arrive from now on, and those that have not yet
// come to the moment it is about. The error is an *Error that says what is wrong with the fault.
func (p *Provider) Inject(f Fault) error {
	f, bad := f.normal()
	if bad != nil {
		return bad
	}
	f.Match = maps.Clone(f.Match)
	b := p.faults
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = append(b.armed, &Armed{Fault: f, Left: f.Times})
	b.some.Store(true)
	return nil
}

// Faults returns the faults that are armed, oldest first. Spent ones are gone.
func (p *Provider) Faults() []Armed {
	b := p.faults
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Armed, len(b.armed))
	for i, a := range b.armed {
		all[i] = *a
		all[i].Fault.Match = maps.Clone(a.Fault.Match)
	}
	return all
}

// Fired returns how often each kind of fault has struck since the start or the last Disarm, those of
// the Sandbox-Fault header included: a drill can see that its faults really happened.
func (p *Provider) Fired() map[Kind]int {
	b := p.faults
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.fired)
}

// Disarm removes all faults and their counts.
func (p *Provider) Disarm() {
	b := p.faults
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed, b.fired = nil, map[Kind]int{}
	b.some.Store(false)
}
