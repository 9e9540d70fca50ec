package justonce_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

type transition = func(justonce.Status, justonce.Event, justonce.Policy, time.Time) (justonce.Status, justonce.Step, error)

// A walk drives one operation through random events at random times and
// judges every step by rules that hold for all of them.
type walk struct {
	rng        *rand.Rand
	transition transition
	policy     justonce.Policy
	now        time.Time
	s          justonce.Status
	believed   int       // absences, since arrival or the last decision
	sent       time.Time // the last send
	underWay   time.Time // until when a send whose holder was lost may be under way
	log        []string
}

func newWalk(seed uint64, tr transition) *walk {
	w := &walk{rng: rand.New(rand.NewPCG(seed, 1)), transition: tr, now: t0}
	w.s = justonce.Status{State: justonce.Pending, Due: t0}
	levels := []justonce.Capability{justonce.ByKey, justonce.ByReference, justonce.ByList, justonce.ByNothing}
	w.policy = justonce.Policy{
		Capability:  pick(w.rng, levels...),
		Fallback:    pick(w.rng, levels[1:]...),
		CanLookup:   w.rng.IntN(3) > 0,
		RetryAbsent: w.rng.IntN(2) > 0,
		Window:      pick(w.rng, 0, 10*time.Minute, 3*time.Minute),
		Settle:      pick(w.rng, 0, -1, time.Minute),
		Lease:       pick(w.rng, 0, 0, 10*time.Second),
		MaxAttempts: pick(w.rng, 0, 1, 2, 4),
		MaxUnknowns: pick(w.rng, 0, 1, 2),
		MaxLookups:  pick(w.rng, 0, 1, 3),
	}.WithDefaults()
	return w
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (w *walk) event(kinds []justonce.EventKind) justonce.Event {
	e := justonce.Event{
		Kind: pick(w.rng, kinds...), Fence: w.s.Fence, Jitter: w.rng.Float64(),
		Reference: pick(w.rng, "", "r", "q"), Digest: pick(w.rng, "", "d", "e"),
		RetryAfter: pick(w.rng, 0, 0, 5*time.Second), Conclusive: w.rng.IntN(2) > 0,
		Asked: w.now.Add(-time.Duration(w.rng.Int64N(int64(20 * time.Second)))),
	}
	if w.rng.IntN(3) > 0 { // what moves things on
		switch s := &w.s; {
		case s.IsDue(w.now):
			e.Kind = pick(w.rng, justonce.EventClaimed, justonce.EventClaimed, justonce.EventLeaseExpired)
		case s.State == justonce.Running && !s.Accepted:
			e.Kind = pick(w.rng, justonce.EventUnknown, justonce.EventUnknown, justonce.EventNotExecuted, justonce.EventLeaseExpired, justonce.EventRenewed)
		case s.State.Open():
			e.Kind, e.Asked = justonce.EventAbsent, w.now
		case s.State == justonce.Review:
			e.Kind = justonce.EventRetry
		}
	} else if w.rng.IntN(3) == 0 {
		e.Fence -= 1 + w.rng.Int64N(2)
	}
	return e
}

func (w *walk) passTime() {
	ahead := func(t time.Time) time.Time {
		if t.Before(w.now) {
			return w.now
		}
		return t
	}
	w.now = pick(w.rng, w.now, w.now, ahead(w.s.Due), ahead(w.s.LeaseUntil), ahead(w.policy.SafeUntil(&w.s)),
		ahead(w.s.UnknownAt.Add(w.policy.Settle)), w.now.Add(time.Duration(w.rng.Int64N(int64(time.Minute)))))
}

// step lets one random thing happen and returns what was wrong with it.
func (w *walk) step(kinds []justonce.EventKind) error {
	w.passTime()
	e, before := w.event(kinds), w.s
	after, step, err := w.transition(before, e, w.policy, w.now)
	w.log = append(w.log, fmt.Sprintf("%s %+v\n\t-> %+v %q %v", w.now.Sub(t0), e, after, step, err))
	again, stepAgain, errAgain := w.transition(before, e, w.policy, w.now)
	if again != after || stepAgain != step || (err == nil) != (errAgain == nil) {
		return fmt.Errorf("the same input had two results")
	}
	if w.s != before {
		return fmt.Errorf("the input was changed")
	}
	if err != nil {
		if after != before || step != justonce.StepNone {
			return fmt.Errorf("refused, and yet changed")
		}
		return nil
	}
	decision := e.Kind == justonce.EventRetry || e.Kind == justonce.EventRedriven
	if decision {
		w.believed = 0
	}
	if e.Kind == justonce.EventAbsent && before.State == justonce.Unknown && after.State == justonce.Pending {
		w.believed++
	}
	if step == justonce.StepSend {
		w.sent = w.now
	}
	if until := w.sent.Add(w.policy.Timeout); e.Kind == justonce.EventLeaseExpired && until.After(w.underWay) {
		w.underWay = until
	}
	if e.Kind == justonce.EventRedriven { // under a new wire key
		w.underWay = time.Time{}
	}
	w.s = after
	return w.judge(before, after, e, step, decision)
}

func (w *walk) judge(before, after justonce.Status, e justonce.Event, step justonce.Step, decision bool) error {
	p := &w.policy
	source := p.Capability
	if source == justonce.ByKey {
		source = p.Fallback
	}
	claim := e.Kind == justonce.EventClaimed
	renewed := before
	renewed.LeaseUntil, renewed.Due = w.now.Add(p.Lease), w.now.Add(p.Lease)
	unproven := e.Kind == justonce.EventUnknown || e.Kind == justonce.EventLeaseExpired || e.Kind == justonce.EventLookupFailed
	rules := []struct {
		broken bool
		rule   string
	}{
		{after.Fence < before.Fence || after.Fence > before.Fence+1, "the fence grows by one at a time and never falls"},
		{step != justonce.StepNone && (!claim || after.Fence != before.Fence+1 || !after.Leased(w.now)), "a step comes with a new fence and a lease"},
		{after.Attempts > before.Attempts && step != justonce.StepSend, "attempts grow only with a send"},
		{step == justonce.StepSend && after.Attempts != before.Attempts+1, "a send is counted"},
		{after.Attempts > p.MaxAttempts, "no more attempts than allowed"},
		{after.Attempts < before.Attempts && !decision && e.Kind != justonce.EventReleased, "attempts are forgotten only by a decision"},
		{after.State.Open() == after.Due.IsZero(), "open operations are due some time, others never"},
		{!after.State.Open() && !after.LeaseUntil.IsZero(), "only open operations are leased"},
		{(after.State == justonce.Failed) != (after.Reason != ""), "failed operations alone have a reason"},
		{after.Incident && after.State != justonce.Review, "an incident is in review"},
		{after.Accepted && after.State != justonce.Running && after.State != justonce.Review, "accepted jobs run"},

		{step == justonce.StepSend && before.Doubt && p.Capability == justonce.ByNothing, "level 4: no send in doubt"},
		{step == justonce.StepSend && before.Doubt && p.Capability != justonce.ByKey, "levels 2 and 3: no send in doubt, only after absence"},
		{step == justonce.StepSend && p.Capability == justonce.ByKey && before.Doubt && !w.now.Before(p.SafeUntil(&before)), "level 1: no send in doubt at or after safe_until"},
		{step == justonce.StepSend && before.Unknowns >= p.MaxUnknowns, "no send after MaxUnknowns"},
		{step == justonce.StepLookup && !p.CanLookup, "no lookup without the means"},
		{w.believed > 1 && source == justonce.ByList, "level 3: absence is believed once"},
		{e.Kind == justonce.EventAbsent && after.State == justonce.Pending && before.State != justonce.Pending && source == justonce.ByNothing, "level 4: absence is never believed"},
		{e.Kind == justonce.EventAbsent && before.State == justonce.Unknown && e.Asked.Before(before.UnknownAt.Add(p.Settle)) && after.State != before.State, "absence asked before the settle time is not believed"},
		{e.Kind == justonce.EventAbsent && before.State == justonce.Unknown && e.Asked.Before(w.underWay.Add(p.Settle)) && after.State != before.State, "absence is not believed while a lost process may be at it"},
		{e.Kind == justonce.EventRenewed && after != before && after != renewed, "a renewal changes nothing but the lease"},
		{e.Kind == justonce.EventRenewed && after != before && (e.Fence != before.Fence || before.LeaseUntil.IsZero()), "a lost lease does not come back"},
		{e.Kind == justonce.EventWithdrawn && before.Doubt && after.State == justonce.Failed, "what may have been sent is not withdrawn"},

		{e.Kind == justonce.EventFound && source == justonce.ByList && before.State == justonce.Unknown && after.State == justonce.Succeeded &&
			e.Asked.Before(before.UnknownAt.Add(p.Settle)), "level 3: a match seen before the settle time is not believed"},
		{e.Kind == justonce.EventFound && source == justonce.ByList && e.Fence != before.Fence && after != before, "level 3: an old fence's match changes nothing"},

		{e.Kind == justonce.EventSucceeded && before.State.Open() && after.State != justonce.Succeeded &&
			!(before.Accepted && after.Incident), "success ends an open operation, however late"},
		{before.State == justonce.Succeeded && after.State != justonce.Succeeded && !after.Incident, "a success is left only by an incident"},
		{before.State == justonce.Succeeded && (after.Reference != before.Reference || after.Digest != before.Digest), "a recorded result is not replaced"},
		{unproven && after.State == justonce.Failed && before.State != justonce.Failed, "silence is not failure"},
		{unproven && after.State == justonce.Pending && before.State != justonce.Pending, "silence is not absence"},
		{e.Kind == justonce.EventCancelled && before.Doubt && before.State != justonce.Review, "what may have been sent is cancelled by nobody but a person in review"},
		{isReport(e.Kind) && e.Fence != before.Fence && after != before && e.Kind != justonce.EventSucceeded &&
			e.Kind != justonce.EventFound && e.Kind != justonce.EventAccepted, "an old fence's report changes nothing, unless there was an effect"},
	}
	for _, r := range rules {
		if r.broken {
			return fmt.Errorf("broken: %s", r.rule)
		}
	}
	return nil
}

// walks returns the first seed below n at which a rule is broken.
func walks(n uint64, tr transition) (seed uint64, w *walk, err error) {
	kinds := eventKinds()
	for seed = range n {
		w = newWalk(seed, tr)
		for range 40 {
			if err = w.step(kinds); err != nil {
				return seed, w, err
			}
		}
	}
	return n, nil, nil
}

func TestTransition_Rules(t *testing.T) {
	if seed, w, err := walks(10_000, justonce.Transition); err != nil {
		t.Errorf("seed %d, policy %+v: %v", seed, w.policy, err)
		for _, line := range w.log {
			t.Log(line)
		}
	}
}
