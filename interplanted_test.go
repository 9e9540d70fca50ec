package justonce_test

import (
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// Bugs planted in the table. Explorations, simulations and walks must each
// find them, or they would find nothing.

// resendsExpired takes an expired lease for proof that nothing was sent.
func resendsExpired(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	after, step, err := justonce.Transition(s, e, p, now)
	if err == nil && e.Kind == justonce.EventLeaseExpired && p.Capability == justonce.ByNothing && s.Attempts < p.MaxAttempts {
		after.State, after.Due, after.Doubt = justonce.Pending, now, false
		after.Unknowns--
	}
	return after, step, err
}

// believesOldFences takes every report for the current holder's.
func believesOldFences(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	if isReport(e.Kind) {
		e.Fence = s.Fence
	}
	return justonce.Transition(s, e, p, now)
}

// failsUnknowns takes silence for failure.
func failsUnknowns(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	if e.Kind == justonce.EventUnknown {
		e.Kind, e.Conclusive = justonce.EventRejected, true
	}
	return justonce.Transition(s, e, p, now)
}

// believesEarlyAbsence does not wait for the settle time.
func believesEarlyAbsence(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	if e.Kind == justonce.EventAbsent {
		e.Asked = now.Add(24 * time.Hour)
	}
	return justonce.Transition(s, e, p, now)
}

// restartsWindow lets a person's retry forget when the wire key was first
// used.
func restartsWindow(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	after, step, err := justonce.Transition(s, e, p, now)
	if err == nil && e.Kind == justonce.EventRetry {
		after.FirstSent = time.Time{}
	}
	return after, step, err
}

// ignoresContradictions lets a second, different success pass.
func ignoresContradictions(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	if s.State == justonce.Succeeded && e.Kind == justonce.EventSucceeded {
		s.Reference, s.Digest = e.Reference, e.Digest
	}
	return justonce.Transition(s, e, p, now)
}

// neverDue forgets when a postponed operation is due.
func neverDue(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	after, step, err := justonce.Transition(s, e, p, now)
	if err == nil && e.Kind == justonce.EventNotExecuted && after.State == justonce.Pending {
		after.Due = time.Time{}
	}
	return after, step, err
}

// revivesLeases lets a holder renew a lease that somebody else has taken over.
func revivesLeases(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	if e.Kind == justonce.EventRenewed && e.Fence < s.Fence && s.State.Open() {
		s.Fence, s.State, s.LeaseUntil = e.Fence, justonce.Running, now
	}
	return justonce.Transition(s, e, p, now)
}

// forgetsSends takes the end of a lease for the end of what was sent under it.
func forgetsSends(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	after, step, err := justonce.Transition(s, e, p, now)
	if err == nil && e.Kind == justonce.EventLeaseExpired {
		after.UnknownAt = now
	}
	return after, step, err
}

// withdrawsDoubtful takes the last send's word for an earlier one's.
func withdrawsDoubtful(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	if e.Kind == justonce.EventWithdrawn {
		s.Doubt = false
	}
	return justonce.Transition(s, e, p, now)
}

func TestInterleavings_FindPlantedBugs(t *testing.T) {
	plant := func(c justonce.Capability, tr transition) *model {
		m := newModel("", justonce.Policy{Capability: c})
		m.transition = tr
		return m
	}
	noIdentity := plant(justonce.ByKey, justonce.Transition)
	noIdentity.noIdentity = true
	short := plant(justonce.ByKey, justonce.Transition)
	short.policy.Margin = time.Second
	for _, bug := range []struct {
		name string
		m    *model
	}{
		{"sent again after the lease expired at level 4", plant(justonce.ByNothing, resendsExpired)},
		{"reports of old fences believed", plant(justonce.ByReference, believesOldFences)},
		{"unknown turned failed", plant(justonce.ByReference, failsUnknowns)},
		{"absence believed before the settle time", plant(justonce.ByReference, believesEarlyAbsence)},
		{"identity not checked on arrival", noIdentity},
		{"window restarted by a person's retry", plant(justonce.ByKey, restartsWindow)},
		{"margin shorter than lease and settle", short},
		{"renewal revives a lease that was taken over", plant(justonce.ByReference, revivesLeases).renewing()},
		{"absence believed while a lost process may be at it", plant(justonce.ByReference, forgetsSends).renewing()},
		{"withdrawn in doubt", plant(justonce.ByKey, withdrawsDoubtful)},
		{"never due again", plant(justonce.ByNothing, neverDue)},
	} {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			x := &exploration{m: bug.m, limit: 3_000_000}
			wrong, schedule, err := x.run()
			if err != nil {
				t.Fatal(err)
			}
			if wrong == "" {
				t.Fatalf("not found in %d states", len(x.states))
			}
			t.Logf("%s, found after %d states:\n%s", wrong, len(x.states), schedule)
		})
	}
}

func TestTransition_RulesFindPlantedBugs(t *testing.T) {
	for name, tr := range map[string]transition{
		"resendsExpired": resendsExpired, "believesOldFences": believesOldFences, "failsUnknowns": failsUnknowns,
		"believesEarlyAbsence": believesEarlyAbsence, "ignoresContradictions": ignoresContradictions, "neverDue": neverDue,
		"revivesLeases": revivesLeases, "forgetsSends": forgetsSends, "withdrawsDoubtful": withdrawsDoubtful,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, _, err := walks(10_000, tr)
			if err == nil {
				t.Fatal("not found")
			}
			t.Logf("seed %d: %v", seed, err)
		})
	}
}
