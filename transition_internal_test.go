package justonce

import (
	"testing"
	"time"
)

// Whoever moves a status in place finds it as it was after a refusal.
func TestRefusalChangesNothing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	events := []EventKind{"no such event", EventClaimed, EventLeaseExpired, EventReleased, EventDeferred, EventRenewed, EventContested,
		EventSucceeded, EventRejected, EventNotExecuted, EventAccepted, EventUnknown, EventWithdrawn,
		EventFound, EventFoundFailed, EventProgress, EventAbsent, EventAmbiguous, EventLookupFailed,
		EventHappened, EventRetry, EventCancelled, EventRedriven}
	refused := 0
	for _, state := range States() {
		for _, capability := range []Capability{ByKey, ByReference, ByList, ByNothing} {
			p := Policy{Capability: capability, CanLookup: true}.WithDefaults()
			for flags := range 1 << 6 {
				has := func(bit int) bool { return flags&(1<<bit) != 0 }
				s := Status{State: state, Fence: 3, Attempts: 1, FirstSent: now.Add(-time.Hour), Reason: ReasonExhausted,
					Doubt: has(0), Accepted: has(1), Incident: has(2), Reference: "ref", Digest: "digest", Lookups: 2, Unknowns: 1}
				if has(3) {
					s.LeaseUntil = now.Add(time.Minute)
				}
				if has(4) {
					s.Due = now.Add(-time.Second)
				}
				if has(5) {
					s.Attempts = p.MaxAttempts
				}
				for _, kind := range events {
					for _, fence := range []int64{2, 3} {
						got := s
						_, err := transit(&got, &Event{Kind: kind, Fence: fence, Reference: "another", Asked: now}, &p, now)
						if err == nil {
							continue
						}
						if refused++; got != s {
							t.Fatalf("%s is refused in %+v and leaves %+v", kind, s, got)
						}
					}
				}
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
