package justonce_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
)

// believesEarlyMatches takes any match in a list for the operation's own.
func believesEarlyMatches(s justonce.Status, e justonce.Event, p justonce.Policy, now time.Time) (justonce.Status, justonce.Step, error) {
	if e.Kind == justonce.EventFound {
		e.Asked = now.Add(24 * time.Hour)
	}
	return justonce.Transition(s, e, p, now)
}

func TestSimulation_FindsPlantedBugs(t *testing.T) {
	for _, b := range []bug{
		{name: "sent again after the lease expired at level 4", level: "none", transition: resendsExpired},
		{name: "reports of old fences believed", level: "reference", transition: believesOldFences, bias: lateRefusals},
		{name: "unknown turned failed", level: "reference", transition: failsUnknowns},
		{name: "absence believed before the settle time", level: "reference", transition: believesEarlyAbsence},
		{name: "identity not checked on arrival", level: "key", noIdentity: true},
		{name: "matches believed before the settle time", level: "list retried", transition: believesEarlyMatches, bias: slowEffects},
		{name: "renewal revives a lease that was taken over", level: "key", transition: revivesLeases, renewed: true},
		{name: "absence believed while a lost process may be at it", level: "reference", transition: forgetsSends, renewed: true},
		{name: "withdrawn in doubt", level: "key", transition: withdrawsDoubtful, bias: slowEffects},
		{name: "never due again", level: "none", transition: neverDue},
	} {
		t.Run(b.name, func(t *testing.T) {
			const limit = 3000
			seed := firstBad(t, limit, b)
			if seed == limit {
				t.Fatalf("not found in %d histories", limit)
			}
			_, problems := history(t, uint64(seed), b, true)
			t.Logf("found by seed %d: %q", seed, problems)
		})
	}
}

// A seed is one history, or a failure could not be looked at.
func TestSimulation_Replays(t *testing.T) {
	for seed := range uint64(100) {
		one, _ := history(t, seed, bug{}, true)
		two, _ := history(t, seed, bug{}, true)
		slices.Sort(one.trace) // lines of one instant
		slices.Sort(two.trace)
		if d := cmp.Diff(one.trace, two.trace); d != "" {
			t.Fatalf("seed %d went two ways:\n%s", seed, d)
		}
	}
}
