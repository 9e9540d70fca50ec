package justonce_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/bubble"
)

var (
	simHistories = flag.Int("sim.histories", 0, "simulate so many histories; 0: 1000, or 150 under -race and -short")
	simSeed      = flag.Int64("sim.seed", -1, "simulate the history of this seed alone, and show it")
)

// decide is a person, who looks at the provider. Where equal intents are told
// apart by lists alone the person leaves them in review.
func (s *sim) decide() {
	rng := s.draw.about("person")
	for _, op := range s.find(justonce.Review) {
		d := justonce.Decision{Actor: "ann", Reason: "looked at the provider", Verdict: justonce.Retry}
		switch e := s.provider.effectOf(op.WireKey); {
		case s.byList && in(rng, 30):
			continue
		case e != nil:
			d.Verdict, d.Reference, d.Result = justonce.Happened, e.reference, e.result
		case in(rng, 50):
			d.Verdict = justonce.Cancel
		default:
			s.provider.forget(op.WireKey)
		}
		s.note("ann decides about %s: %s", op.Key, d.Verdict)
		if _, err := s.nodes[0].runner.Decide(context.Background(), op.Ref, d); err != nil && !op.Incident && !s.byList {
			s.problem("the decision %s about %s: %v", d.Verdict, op.Key, err)
		}
	}
}

func (p *simProvider) effectOf(wireKey string) *simEffect {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.effects {
		if e.wireKey == wireKey {
			return e
		}
	}
	return nil
}

// forget: a person saw that what was sent did nothing.
func (p *simProvider) forget(wireKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sent[wireKey] {
		s.harmless = true
	}
}

// final calls every intent once more.
func (s *sim) final(intents []intent) {
	for _, it := range intents {
		call := justonce.Call{Tool: "charge", IntentSeq: it.seq, Arguments: json.RawMessage(fmt.Sprintf(`{"amount":7.0,"order_id":%q}`, it.order))}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if s.ask(ctx, s.nodes[0], "last caller", call) == nil {
			s.problem("the last call of %v was not answered", it)
		}
		cancel()
	}
}

// check compares the ledger, the provider and what callers were told.
func (s *sim) check(intents []intent) {
	type id struct {
		fingerprint string
		created     int64
	}
	ops := make(map[id]*justonce.Operation) // those that gave way have another key
	identify := func(op *justonce.Operation) id { return id{op.Fingerprint, op.CreatedAt.UnixNano()} }
	held := make(map[string]string)
	failed := make(map[string]int)
	byOrder := make(map[string]int)
	wanted := make(map[string]int)
	for _, it := range intents {
		wanted[it.order]++
	}
	for _, row := range s.find() {
		op, err := s.ledger.Get(context.Background(), row.Ref)
		if err != nil {
			panic(err)
		}
		ops[identify(op)] = op
		history, err := s.ledger.History(context.Background(), op.Ref)
		if err != nil || len(history) == 0 {
			panic("no history")
		}
		order := orderOf(history[0].Body)
		if op.Note == justonce.NoteWithdrawn {
			if op.State != justonce.Failed || op.Reason != justonce.ReasonCancelled {
				s.problem("%s was withdrawn, and is %s", op.Key, op.State)
			}
			continue // the next call of its intent is another operation
		}
		byOrder[order]++
		effect := s.provider.effectOf(op.WireKey)
		switch op.State {
		case justonce.Succeeded:
			if other := held[op.Reference]; other != "" {
				s.problem("%s and %s both hold %s", op.Key, other, op.Reference)
			}
			held[op.Reference] = op.Key
			if e := s.provider.named(op.Reference); e == nil || e.order != order || !bytes.Equal(op.Result, e.result) {
				s.problem("%s succeeded with %s and %s, but the provider has %+v", op.Key, op.Reference, op.Result, e)
			} else if !s.byList && e != effect {
				s.problem("%s succeeded with %s, but its effect is %+v", op.Key, op.Reference, effect)
			}
		case justonce.Failed:
			failed[order]++
			if effect != nil && !s.byList {
				s.problem("%s failed (%s), but it has the effect %s", op.Key, op.Reason, effect.reference)
			}
		case justonce.Review:
			// Equal intents may have taken each other's effects at level 3, which
			// shows when an answer comes late.
			if op.Incident && !(s.byList && wanted[order] > 1) {
				s.problem("%s became an incident: %+v", op.Key, op.Status)
			}
		default:
			s.problem("%s is %s in the end", op.Key, op.State)
		}
	}
	for order, n := range wanted {
		if byOrder[order] != n {
			s.problem("%d operations for %d intents of order %s", byOrder[order], n, order)
		}
		if e := s.provider.count(order); e > n-failed[order] {
			s.problem("%d effects for order %s with %d intents, of which %d failed", e, order, n, failed[order])
		}
	}
	for _, a := range s.answers {
		op := ops[identify(a.Operation)]
		switch was := a.Operation; {
		case op == nil:
			s.problem("the accepted call %s is not in the ledger", was.Key)
		case was.State == justonce.Succeeded && (op.State != justonce.Succeeded && !op.Incident || op.Reference != was.Reference || !bytes.Equal(op.Result, was.Result)):
			s.problem("%s was told as succeeded with %s %s, and is %s with %s %s", was.Key, was.Reference, was.Result, op.State, op.Reference, op.Result)
		case was.State == justonce.Failed && op.State != justonce.Failed:
			s.problem("%s was told as failed, and is %s", was.Key, op.State)
		}
	}
}

func (p *simProvider) named(reference string) *simEffect {
	for _, e := range p.effects {
		if e.reference == reference {
			return e
		}
	}
	return nil
}

func (p *simProvider) count(order string) int {
	n := 0
	for _, e := range p.effects {
		if e.order == order {
			n++
		}
	}
	return n
}

// history simulates one seed.
func history(t *testing.T, seed uint64, b bug, tracing bool) (s *sim, problems []string) {
	bubble.Test(t, func(*testing.T) {
		s = newSim(seed, b)
		s.tracing = tracing
		problems = s.run()
	})
	return s, problems
}

// firstBad simulates the seeds below n on all processors and returns one that
// went wrong, or n.
func firstBad(t *testing.T, n int64, b bug) (bad int64) {
	var next, found atomic.Int64
	found.Store(n)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < n && found.Load() == n; seed = next.Add(1) - 1 {
				if _, problems := history(t, uint64(seed), b, false); len(problems) > 0 {
					for old := found.Load(); seed < old && !found.CompareAndSwap(old, seed); old = found.Load() {
					}
				}
			}
		})
	}
	wg.Wait()
	return found.Load()
}

func show(t *testing.T, seed int64, b bug) {
	s, problems := history(t, uint64(seed), b, true)
	t.Logf("seed %d, level %s, replay with -sim.seed=%d:\n%s", seed, s.level, seed, strings.Join(s.trace, "\n"))
	for _, p := range problems {
		t.Error(p)
	}
	if len(problems) == 0 {
		t.Error("it went well this time")
	}
}

func TestSimulation(t *testing.T) {
	if *simSeed >= 0 {
		s, problems := history(t, uint64(*simSeed), bug{}, true)
		t.Logf("level %s:\n%s\n%s", s.level, strings.Join(s.trace, "\n"), strings.Join(problems, "\n"))
		if len(problems) > 0 {
			t.Fail()
		}
		return
	}
	n := int64(*simHistories)
	if n == 0 {
		if n = 1000; underRace || testing.Short() {
			n = 150
		}
	}
	start := time.Now()
	if seed := firstBad(t, n, bug{}); seed < n {
		show(t, seed, bug{})
	}
	took := time.Since(start)
	t.Logf("%d histories in %v, %.0f a second", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
}
