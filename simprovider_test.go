package justonce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/justonce-dev/justonce"
)

const (
	simTimeout = 5 * time.Second
	simLease   = 8 * time.Second
	simSettle  = 10 * time.Second
	simWindow  = 3 * time.Minute

	simLong  = 25 * time.Second // timeout and lease where leases are renewed
	simShort = 3 * time.Second
)

// A simProvider is the world: what it did is what counts.
type simProvider struct {
	sim *sim

	mu      sync.Mutex
	effects []*simEffect
	stored  map[string]*simStored // by wire key, for level 1
	sent    map[string][]*simSend // by wire key
	wrong   []string              // what must never be asked of it
}

type simEffect struct {
	order, wireKey, reference string
	result                    json.RawMessage
	at, visible               time.Time
}

type simStored struct {
	at  time.Time
	out justonce.Outcome
}

// A simSend is one request. Harmless: its sender was told that it did nothing.
type simSend struct {
	id       string
	harmless bool
}

func orderOf(arguments json.RawMessage) string {
	var v struct {
		Order string `json:"order_id"`
	}
	json.Unmarshal(arguments, &v)
	return v.Order
}

// A fate is what becomes of a request. It lands within settle after the
// earliest moment at which its sender may give it up.
type fate struct {
	lands, visible time.Duration // after it was sent
	replies        time.Duration // after it landed
	lost           bool          // before it lands
	cut            time.Duration // the sender is told that the connection broke; 0: never
	deaf           bool          // the sender waits longer than it should
	verdict        string        // "", "rejected", "withdrawn", "not executed", "500", "500 stored", "500 after"
	retryAfter     time.Duration
}

func (p *simProvider) fate(a *justonce.Attempt, left time.Duration) fate {
	rng := p.sim.draw.about("fate", a.ID)
	f := fate{lands: between(rng, time.Millisecond, 300*time.Millisecond), replies: between(rng, time.Millisecond, 300*time.Millisecond)}
	if p.sim.trouble() {
		switch rng.IntN(10) {
		case 0:
			f.lost = true
		case 1:
			f.cut = between(rng, time.Millisecond, 600*time.Millisecond)
		case 2: // slow
			f.lands = between(rng, time.Second, left+simSettle*9/10)
		case 3: // cut, and yet it lands
			f.cut = between(rng, time.Millisecond, 100*time.Millisecond)
			f.lands = f.cut + between(rng, time.Millisecond, simSettle*9/10)
		case 4: // answered late, to a sender who still listens
			f.deaf = true
			f.replies = between(rng, time.Second, time.Minute)
		}
		switch rng.IntN(14) {
		case 0:
			f.verdict = "rejected"
		case 1, 2:
			f.verdict = "not executed"
			f.retryAfter = between(rng, 1, 5*time.Second)
		case 3:
			f.verdict = "500"
		case 4:
			f.verdict = "500 stored"
		case 5:
			f.verdict = "500 after"
		case 6:
			f.verdict = "withdrawn"
		}
	}
	switch bias := p.sim.bias; {
	case bias == lateRefusals && in(rng, 20):
		f = fate{lands: f.lands, replies: between(rng, 10*time.Second, 50*time.Second), deaf: true, verdict: "not executed"}
	case bias == slowEffects && p.sim.trouble() && in(rng, 60):
		f = fate{lands: between(rng, time.Second, left+simSettle*9/10), replies: f.replies}
	}
	if p.sim.renewed && in(rng, 40) { // long, and well
		f = fate{lands: between(rng, time.Second, max(left*9/10, 2*time.Second)), replies: f.replies, verdict: f.verdict}
	}
	f.visible = f.lands
	if in(rng, 30) { // the index lags
		givenUp := min(left, f.lands+f.replies)
		if f.cut > 0 {
			givenUp = min(givenUp, f.cut)
		}
		f.visible = max(f.lands, givenUp+between(rng, 1, simSettle*95/100))
	}
	return f
}

func (p *simProvider) send(ctx context.Context, n *node, a *justonce.Attempt) justonce.Outcome {
	deadline, _ := ctx.Deadline()
	f := p.fate(a, time.Until(deadline))
	s := &simSend{id: a.ID}
	p.mu.Lock()
	if p.sim.tool.Policy.Capability == justonce.ByNothing {
		for _, earlier := range p.sent[a.WireKey] {
			if !earlier.harmless {
				p.wrong = append(p.wrong, fmt.Sprintf("level 4: %s was sent although nothing proves that %s did nothing", a.ID, earlier.id))
			}
		}
	}
	p.sent[a.WireKey] = append(p.sent[a.WireKey], s)
	p.mu.Unlock()
	p.sim.note("%s: %s is sent: %+v", n.name, a.ID, f)

	reply := make(chan justonce.Outcome, 1)
	if !f.lost {
		start := time.Now()
		time.AfterFunc(f.lands, func() {
			out := p.land(a, f, start)
			time.AfterFunc(f.replies, func() { reply <- out })
		})
	}
	done, cut := ctx.Done(), (<-chan time.Time)(nil)
	if f.cut > 0 {
		cut = time.After(f.cut)
	}
	if f.deaf && !f.lost {
		done = nil
	}
	select {
	case out := <-reply:
		switch out.Kind {
		case justonce.OutcomeNotExecuted, justonce.OutcomeRejected, justonce.OutcomeWithdrawn:
			p.mu.Lock()
			s.harmless = true
			p.mu.Unlock()
		}
		return out
	case <-cut:
	case <-done:
	}
	return justonce.Outcome{Failure: &justonce.Failure{Code: "cut"}}
}

// land is the moment at which the provider acts.
func (p *simProvider) land(a *justonce.Attempt, f fate, start time.Time) justonce.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	keyed := p.sim.tool.Policy.Capability == justonce.ByKey
	if s := p.stored[a.WireKey]; keyed && s != nil && now.Sub(s.at) < simWindow {
		return s.out
	}
	out := justonce.Outcome{RetryAfter: f.retryAfter, Failure: &justonce.Failure{Code: "fate", Message: f.verdict}}
	switch f.verdict {
	case "not executed":
		out.Kind = justonce.OutcomeNotExecuted
		return out
	case "withdrawn":
		out.Kind = justonce.OutcomeWithdrawn
		return out
	case "500":
		return out
	case "rejected":
		out.Kind, out.Conclusive = justonce.OutcomeRejected, keyed
	case "500 stored":
	default:
		e := &simEffect{order: orderOf(a.Arguments), wireKey: a.WireKey, reference: fmt.Sprintf("ch_%d", len(p.effects)+1),
			at: now, visible: start.Add(f.visible)}
		e.result = json.RawMessage(fmt.Sprintf(`{"id":%q,  "order":%q}`, e.reference, e.order))
		p.effects = append(p.effects, e)
		p.sim.note("effect %s of %s", e.reference, a.ID)
		out = justonce.Outcome{Kind: justonce.OutcomeSucceeded, Reference: e.reference, Result: e.result}
	}
	p.stored[a.WireKey] = &simStored{now, out}
	if f.verdict == "500 after" {
		return justonce.Outcome{}
	}
	return out
}

func (p *simProvider) lookup(ctx context.Context, n *node, a *justonce.Attempt) justonce.Finding {
	rng := p.sim.draw.about("lookup", a.ID)
	wait := between(rng, time.Millisecond, 300*time.Millisecond)
	if p.sim.trouble() && in(rng, 20) {
		wait = between(rng, time.Second, 8*time.Second)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return justonce.Finding{}
	}
	if p.sim.trouble() && in(rng, 20) {
		return justonce.Finding{RetryAfter: between(rng, 1, 3*time.Second)}
	}
	f := p.show(a)
	p.sim.note("%s: %s is looked up: %d matches", n.name, a.ID, len(f.Matches))
	time.Sleep(between(rng, time.Millisecond, 200*time.Millisecond))
	return f
}

func (p *simProvider) show(a *justonce.Attempt) justonce.Finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := justonce.Finding{Kind: justonce.FindingAbsent}
	for _, e := range p.effects {
		mine := e.wireKey == a.WireKey
		if p.sim.byList {
			mine = e.order == orderOf(a.Arguments) && !e.at.Before(a.FirstSent)
		}
		if mine && !e.visible.After(time.Now()) {
			f.Kind = justonce.FindingFound
			f.Matches = append(f.Matches, justonce.Found{Reference: e.reference, Result: e.result})
		}
	}
	return f
}
