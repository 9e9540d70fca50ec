package justonce

import (
	"fmt"
	"time"
)

// An EventKind is something that happened to an operation.
type EventKind string

const (
	// By the machinery.
	EventClaimed      EventKind = "claimed"       // a worker takes it up
	EventLeaseExpired EventKind = "lease_expired" // the holder was not heard of in time
	EventReleased     EventKind = "released"      // the holder gives it back, certainly unsent
	EventDeferred     EventKind = "deferred"      // the retry budget is spent: later
	EventRenewed      EventKind = "renewed"       // the holder is still at work

	// What an attempt reports, under its fence.
	EventSucceeded   EventKind = "succeeded"
	EventRejected    EventKind = "rejected"     // the provider did not and will not
	EventNotExecuted EventKind = "not_executed" // this send had no effect
	EventAccepted    EventKind = "accepted"     // a long-running job was started
	EventUnknown     EventKind = "unknown"      // no proof either way
	EventWithdrawn   EventKind = "withdrawn"    // this send had no effect, and is not repeated unasked

	// The provider named an effect that another operation holds.
	EventContested EventKind = "contested"

	// What a lookup reports, under its fence.
	EventFound        EventKind = "found"
	EventFoundFailed  EventKind = "found_failed" // the provider knows it, and that it failed
	EventProgress     EventKind = "progress"     // the provider knows it and still works on it
	EventAbsent       EventKind = "absent"
	EventAmbiguous    EventKind = "ambiguous"
	EventLookupFailed EventKind = "lookup_failed" // the question got no answer

	// What a person or a program decides.
	EventHappened  EventKind = "happened"  // it happened
	EventRetry     EventKind = "retry"     // it did not happen; send
	EventCancelled EventKind = "cancelled" // it did not happen; leave it
	EventRedriven  EventKind = "redriven"  // send what failed once more
)

// An Event is something that happened, with the facts the table needs.
type Event struct {
	Kind  EventKind
	Fence int64 // of the reporting attempt or lookup; 0 for other events

	Reference  string
	Digest     string        // of the result
	RetryAfter time.Duration // the provider's wish; a floor for the wait
	// Conclusive: a rejection speaks for every send under this wire key, not
	// only for the last. A provider's stored answer does; a 401 does not.
	Conclusive bool
	// Asked is when a lookup's question was put. An answer to a question put
	// before the settle time ended proves no absence.
	Asked time.Time
	// Jitter in [0,1) spreads waits. It is part of the event so that the table
	// stays a pure function.
	Jitter float64
}

// A Step is what the holder of the new fence does next.
type Step string

const (
	StepNone   Step = ""
	StepSend   Step = "send"   // send under the same wire key
	StepLookup Step = "lookup" // ask what became of it
)

// A TransitionError reports an event that a state does not allow. Nothing
// changes.
type TransitionError struct {
	State State
	Event EventKind
	Why   string
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("%s is not possible for an operation in state %s: %s", e.Event, e.State, e.Why)
}

// Is makes errors.Is(err, ErrNotAllowed) true.
func (e *TransitionError) Is(target error) bool { return target == ErrNotAllowed }

// Transition is the whole state table: it returns the status after e and the
// step that the claimer takes. It is pure; p must have its defaults filled in.
//
//  1. A claim raises the fence. A pending operation is sent; an unknown one is
//     sent again only at level 1 before safe_until, else looked up, else shown
//     to a person.
//  2. Only the current fence's report moves the state. A late success is still
//     believed: it ends an open operation, and where it contradicts what was
//     recorded it becomes an incident in review. Other late reports change
//     nothing (they are kept as evidence by the caller).
//  3. Without proof an outcome is unknown: lost replies and expired leases.
//  4. Proof about the last send proves nothing about an earlier one in doubt.
//  5. Absence counts only when asked after the settle time, and at level 3
//     once at most and only if the tool says so. There a match also counts
//     only then, and never late: it may be another operation's.
//  6. MaxUnknowns unknown outcomes in a row end in review, never in a send.
//  7. A holder may renew its lease, also one that ran out, as long as nobody
//     replaced it. Nothing else changes, and a lost lease does not come back.
//  8. People decide in review; failed operations can be redriven; what was
//     never sent can be cancelled.
//
// A *TransitionError (ErrNotAllowed) means that the pair has no entry; the
// status is then returned unchanged.
func Transition(s Status, e Event, p Policy, now time.Time) (Status, Step, error) {
	next := s
	step, err := transit(&next, &e, &p, now)
	if err != nil {
		return s, StepNone, err
	}
	return next, step, nil
}

// transit is Transition in place.
func transit(s *Status, e *Event, p *Policy, now time.Time) (Step, error) {
	t := table{s: s, e: e, p: p, at: &now, wish: min(max(e.RetryAfter, 0), maxRetryAfter)}
	step, why := t.apply()
	if why != "" {
		return StepNone, &TransitionError{State: s.State, Event: e.Kind, Why: string(why)}
	}
	return step, nil
}

// maxRetryAfter bounds a provider's wish, so that no sum overflows.
const maxRetryAfter = 365 * 24 * time.Hour

// A refusal says why a state does not allow an event; "" if it does.
type refusal string

func refuse(why refusal) (Step, refusal) { return StepNone, why }

// A table has pointers, so that what they point to can stay on the stack.
type table struct {
	s    *Status
	e    *Event
	p    *Policy
	at   *time.Time
	wish time.Duration // the provider's, bounded
}

func (t *table) now() time.Time { return *t.at }

// apply changes nothing where it refuses.
func (t *table) apply() (Step, refusal) {
	switch t.e.Kind {
	case EventClaimed:
		return t.claimed()
	case EventLeaseExpired:
		return t.leaseExpired()
	case EventReleased:
		return t.released()
	case EventDeferred:
		return t.deferred()
	case EventRenewed:
		return t.renewed()
	case EventContested:
		return t.contested()
	case EventSucceeded, EventRejected, EventNotExecuted, EventAccepted, EventUnknown, EventWithdrawn:
		return t.attempted()
	case EventFound, EventFoundFailed, EventProgress, EventAbsent, EventAmbiguous, EventLookupFailed:
		return t.lookedUp()
	case EventHappened, EventRetry, EventCancelled, EventRedriven:
		return t.decided()
	}
	return refuse("no such event")
}

func (t *table) to(s State) (Step, refusal) {
	t.s.State = s
	return StepNone, ""
}

// claimed implements rule 1.
func (t *table) claimed() (Step, refusal) {
	s := t.s
	if !s.State.Open() {
		return refuse("it is not open")
	}
	if !s.IsDue(t.now()) {
		return refuse("it is leased or not due yet")
	}
	if s.State == Running && !s.Accepted {
		return refuse("its lease must expire first")
	}
	if s.State == Unknown {
		switch c := t.p.means(s, t.now()); {
		case c == ByKey && t.maySend():
		case c == ByKey && t.p.Fallback.Level() < 4 && t.p.CanLookup, c == ByReference, c == ByList:
			return t.lease(StepLookup)
		default:
			return t.review()
		}
	}
	if s.State == Running {
		return t.lease(StepLookup)
	}
	if s.State == Pending && s.Attempts >= t.p.MaxAttempts {
		return t.end(Failed, ReasonExhausted)
	}
	s.State = Running
	return t.lease(StepSend)
}

func (t *table) lease(step Step) (Step, refusal) {
	s := t.s
	s.Fence++
	s.LeaseUntil = t.now().Add(t.p.Lease)
	s.Due = s.LeaseUntil
	if step == StepLookup {
		s.Lookups++
		return step, ""
	}
	s.Attempts++
	s.Lookups = 0
	if s.FirstSent.IsZero() {
		s.FirstSent = t.now()
	}
	return step, ""
}

// maySend implements the limit of rule 6, and the attempt limit.
func (t *table) maySend() bool {
	return t.s.Unknowns < t.p.MaxUnknowns && t.s.Attempts < t.p.MaxAttempts
}

func (t *table) free() {
	t.s.LeaseUntil = time.Time{}
	t.s.Due = time.Time{}
}

func (t *table) review() (Step, refusal) {
	t.free()
	t.s.Reason = ""
	return t.to(Review)
}

func (t *table) end(state State, reason Reason) (Step, refusal) {
	t.free()
	t.s.Reason = reason
	t.s.Doubt, t.s.Accepted, t.s.Incident, t.s.Unknowns = false, false, false, 0
	return t.to(state)
}

func (t *table) succeed() (Step, refusal) {
	if t.e.Reference != "" {
		t.s.Reference = t.e.Reference
	}
	if t.e.Digest != "" {
		t.s.Digest = t.e.Digest
	}
	return t.end(Succeeded, "")
}

// waitAgain makes the operation pending: no effect so far, whatever was sent.
func (t *table) waitAgain(wait time.Duration) (Step, refusal) {
	t.free()
	t.s.Due = t.now().Add(wait)
	t.s.Doubt, t.s.Accepted = false, false
	t.restartWindow()
	return t.to(Pending)
}

// restartWindow forgets the first send if it cannot have reached the provider.
// After an unknown outcome the provider may remember the wire key, say with a
// stored failure, and its window goes on whatever was learnt of the effect.
func (t *table) restartWindow() {
	if t.s.UnknownAt.IsZero() {
		t.s.FirstSent = time.Time{}
	}
}

// doubt makes the operation unknown and finds the next means, or a person.
func (t *table) doubt(wait time.Duration) (Step, refusal) {
	t.free()
	s := t.s
	s.Doubt, s.Accepted = true, false
	switch c := t.p.means(s, t.now()); {
	case c == ByKey && t.maySend():
		s.Due = t.now().Add(wait)
	case c == ByKey && t.p.Fallback.Level() < 4 && t.p.CanLookup, c == ByReference, c == ByList:
		s.Due = t.now().Add(t.wish)
	default:
		return t.review()
	}
	return t.to(Unknown)
}

// lost is doubt after an outcome that nobody knows (rule 3), of a send that
// was given up at a time.
func (t *table) lost(at time.Time) (Step, refusal) {
	t.s.Unknowns++
	t.s.UnknownAt = later(at, t.s.UnknownAt) // an earlier send may be under way for longer
	return t.doubt(t.backoff())
}

// givenUp is when a holder that was not heard of gives its send up at the
// latest. Where leases are renewed the timeout may lie well after the lease.
func (t *table) givenUp() time.Time {
	if !t.p.renews() {
		return t.now()
	}
	if t.s.UnknownAt.IsZero() { // FirstSent is that send's, see restartWindow
		return later(t.s.FirstSent.Add(t.p.Timeout), t.now())
	}
	return t.now().Add(t.p.Timeout - t.p.Lease) // it was claimed a lease ago, or before
}

func (t *table) backoff() time.Duration {
	return t.p.Backoff(t.s.Attempts, t.e.Jitter, t.wish)
}

func (t *table) leaseExpired() (Step, refusal) {
	s := t.s
	if s.State != Running || s.Accepted {
		return refuse("it is not running under a lease")
	}
	if s.Leased(t.now()) {
		return refuse("the lease has not expired")
	}
	return t.lost(t.givenUp())
}

func (t *table) released() (Step, refusal) {
	s := t.s
	if t.s.late(t.e.Fence) {
		return StepNone, ""
	}
	s.LeaseUntil, s.Due = time.Time{}, t.now()
	if s.State == Running && !s.Accepted {
		s.Attempts--
		if s.Doubt {
			return t.to(Unknown)
		}
		t.restartWindow()
		return t.to(Pending)
	}
	return StepNone, ""
}

func (t *table) deferred() (Step, refusal) {
	s := t.s
	if !s.IsDue(t.now()) || s.State == Running {
		return refuse("only waiting work is put off")
	}
	s.Due = t.now().Add(t.p.Backoff(s.Attempts+1, t.e.Jitter, t.wish) + t.p.BackoffBase)
	return StepNone, ""
}

// renewed implements rule 7.
func (t *table) renewed() (Step, refusal) {
	s := t.s
	if !s.late(t.e.Fence) {
		s.LeaseUntil = t.now().Add(t.p.Lease)
		s.Due = s.LeaseUntil
	}
	return StepNone, ""
}

// contested leaves two operations with one effect to a person.
func (t *table) contested() (Step, refusal) {
	if !t.s.State.Open() {
		return refuse("it is not open")
	}
	t.s.Incident = true
	return t.review()
}

// attempted implements rules 2 to 4 for the reports of a send.
func (t *table) attempted() (Step, refusal) {
	s := t.s
	if t.s.late(t.e.Fence) || s.State != Running || s.Accepted {
		return t.lateReport()
	}
	switch t.e.Kind {
	case EventSucceeded:
		return t.succeed()
	case EventRejected:
		if s.Doubt && !t.e.Conclusive {
			return t.doubt(t.backoff())
		}
		s.Digest = t.e.Digest
		return t.end(Failed, ReasonRejected)
	case EventWithdrawn:
		if s.Doubt {
			return t.doubt(t.backoff())
		}
		return t.end(Failed, ReasonCancelled)
	case EventNotExecuted:
		if s.Doubt {
			return t.doubt(t.backoff())
		}
		if t.source() != ByList { // which is believed absent once only
			s.Unknowns = 0
		}
		if s.Attempts >= t.p.MaxAttempts {
			return t.end(Failed, ReasonExhausted)
		}
		return t.waitAgain(t.backoff())
	case EventAccepted:
		return t.accept()
	}
	return t.lost(t.now())
}

func (t *table) accept() (Step, refusal) {
	s := t.s
	if t.e.Reference != "" {
		s.Reference = t.e.Reference
	}
	t.free()
	if !t.p.CanLookup {
		return t.review() // nobody can ever tell how it ended
	}
	s.Accepted, s.Doubt, s.Unknowns, s.Lookups = true, false, 0, 0
	s.Due = t.now().Add(max(t.p.Poll, t.wish))
	return t.to(Running)
}

// lateReport implements rule 2.
func (t *table) lateReport() (Step, refusal) {
	s, e := t.s, t.e
	switch e.Kind {
	case EventSucceeded, EventFound:
		switch {
		case e.Kind == EventFound && t.source() == ByList:
			return StepNone, "" // a match by fields, not proof; it is asked again
		case s.State == Succeeded || s.Incident:
			if t.contradicts() {
				s.Incident = true
				return t.review()
			}
			return StepNone, ""
		case s.State == Failed:
			t.forgetRefusal()
			s.Incident = true
			return t.review()
		case s.Accepted && e.Kind == EventSucceeded && t.contradicts():
			s.Incident = true
			return t.review()
		}
		return t.succeed()
	case EventAccepted:
		switch {
		case s.State == Pending, s.State == Unknown, s.State == Review && !s.Incident:
			return t.accept()
		case s.Reference != "" && s.Reference == e.Reference:
			// Known already, and how it ended perhaps too.
		case s.State == Failed, s.Reference != "" && e.Reference != "":
			t.forgetRefusal()
			s.Incident = true
			return t.review()
		}
	}
	return StepNone, ""
}

// forgetRefusal: the digest of a refusal is no effect's, and tells no
// contradiction.
func (t *table) forgetRefusal() {
	if t.s.State == Failed && t.s.Reason == ReasonRejected {
		t.s.Digest = ""
	}
}

// contradicts compares the reported effect with the recorded one: by the
// provider's reference, or where either lacks one, by the result.
func (t *table) contradicts() bool {
	s, e := t.s, t.e
	if s.Reference != "" && e.Reference != "" {
		return s.Reference != e.Reference
	}
	return t.p.Capability != ByKey && s.Digest != "" && e.Digest != "" && s.Digest != e.Digest
}

// lookedUp implements rules 2 and 5 for the reports of a lookup.
func (t *table) lookedUp() (Step, refusal) {
	s, e := t.s, t.e
	polled := s.State == Running && s.Accepted
	if t.s.late(t.e.Fence) || (s.State != Unknown && !polled) {
		return t.lateReport()
	}
	switch e.Kind {
	case EventFound:
		if t.source() == ByList && !polled && t.early() {
			// It may be the effect of an equal operation, while this one's is
			// still to come.
			return t.askAgain()
		}
		return t.succeed()
	case EventFoundFailed:
		if e.Reference != "" {
			s.Reference = e.Reference
		}
		return t.end(Failed, ReasonRejected)
	case EventProgress:
		return t.accept()
	case EventAmbiguous:
		return t.review()
	case EventAbsent:
		if !polled {
			return t.absent()
		}
		// A job that was accepted cannot be absent: the source lags.
	}
	t.free()
	if s.Lookups >= t.p.MaxLookups {
		return t.review()
	}
	s.Due = t.now().Add(t.p.Backoff(s.Lookups, e.Jitter, t.wish))
	return StepNone, ""
}

// settled is when what was sent shows, if it ever does.
func (t *table) settled() time.Time { return t.s.UnknownAt.Add(max(t.p.Settle, 0)) }

// early reports whether a lookup asked too early to see everything.
func (t *table) early() bool { return t.e.Asked.Before(t.settled()) }

func (t *table) askAgain() (Step, refusal) {
	t.free()
	t.s.Due = later(t.settled(), t.now())
	return StepNone, ""
}

func (t *table) absent() (Step, refusal) {
	s, p := t.s, t.p
	if t.early() {
		return t.askAgain()
	}
	source := t.source()
	limit := p.MaxUnknowns
	if source == ByList {
		limit = min(limit, 2) // one more try, not two
	}
	switch {
	case source == ByNothing, source == ByList && !p.RetryAbsent, s.Unknowns >= limit:
		return t.review()
	case s.Attempts >= p.MaxAttempts:
		return t.end(Failed, ReasonExhausted)
	}
	return t.waitAgain(t.backoff())
}

// source is the capability by which a lookup sees absence.
func (t *table) source() Capability {
	if t.p.Capability == ByKey {
		return t.p.Fallback
	}
	return t.p.Capability
}

// decided implements rule 8.
func (t *table) decided() (Step, refusal) {
	s := t.s
	switch {
	case t.e.Kind == EventRedriven:
		if s.State != Failed {
			return refuse("only a failed operation is redriven")
		}
	case t.e.Kind == EventCancelled && s.State == Pending:
	case s.State != Review:
		return refuse("a person decides only in review; what may have been sent cannot be cancelled")
	case s.Incident && t.e.Kind == EventRetry:
		return refuse("an effect is on record; sending again would repeat it")
	}
	s.Fence++ // whoever is still out there reports late from now on
	switch t.e.Kind {
	case EventHappened:
		return t.succeed()
	case EventCancelled:
		return t.end(Failed, ReasonCancelled)
	}
	s.Attempts, s.Lookups, s.Unknowns, s.Reason, s.Reference, s.Digest = 0, 0, 0, "", "", ""
	if t.e.Kind == EventRedriven { // under a new wire key
		s.UnknownAt = time.Time{}
	}
	return t.waitAgain(0)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
