package justonce_test

import (
	"time"

	"github.com/justonce-dev/justonce"
)

// The model: one intent, a ledger with its row, two workers and a provider.
// Its time counts in seconds and only differences are kept, so that a state
// recurs however late it is reached. All fields are small and comparable: a
// state is its own key in the visited set.
//
// What it takes for granted about the world:
//   - A request leaves a worker before its lease ends (the runner looks at its
//     clock) and has landed or died before lease end + settle, or where leases
//     are renewed, before the end of the timeout + settle; one that its worker
//     gave up, before that moment + settle.
//   - A provider that honours keys remembers them for the window, counted from
//     the first request that it saw.
//   - A person decides truthfully, once nothing is under way any more.
//   - The ledger's writes are atomic. A write that meets a newer version reads
//     the row again and asks the table again, as Runner.settle does, so that in
//     effect every write meets the current row.
const (
	mLease  = 3
	mSettle = 2
	mWindow = 9
	mMargin = 5
	mFreeze = 4 // an answer is in hand at most so long, unless it is late
	mOld    = 6 // ages stop here: nothing tells greater ones apart
)

const (
	none     = -1 // of times and references
	mRefusal = 0  // a rejection that the provider stored under the key
)

// A mrow is a Status in small numbers. Leases and dues are what remains of
// them (0: passed), sends and unknowns how long ago they were.
type mrow struct {
	exists                        bool
	state                         uint8
	attempts, lookups, unknowns   int8
	doubt, accepted, incident     bool
	lease, due, first, unknownAge int8
	ref                           int8
}

type phase uint8

const (
	idle    phase = iota
	toSend        // claimed; nothing has left yet
	waiting       // the request is out, or its reply lost
	toAsk         // claimed for a lookup
	asking
	holding // a report, not recorded yet
)

type mworker struct {
	phase   phase
	op      int8
	current bool // nobody claimed after it
	lease   int8 // what its own clock says; once it was sent and where leases are renewed, the attempt's time
	event   uint8
	ref     int8
	asked   int8
}

type mrequest struct {
	out   bool
	ttl   int8
	op    int8
	owner int8 // the worker that waits for the reply, or none
}

type mstate struct {
	rows     [2]mrow // the second exists only if identities are not checked
	workers  [2]mworker
	requests [3]mrequest

	effects  int8
	effect   [2]int8 // first effect under a row's wire key
	stored   [2]int8 // what the provider remembers of the key: an effect, or mRefusal
	keyAge   int8
	job      uint8 // of a long-running tool: 0 working, 1 done, 2 failed
	unproven bool  // something was sent and nothing proves that it did nothing

	faults, decisions, joiners int8 // left
}

var mEvents = []justonce.EventKind{"", justonce.EventReleased, justonce.EventSucceeded, justonce.EventRejected,
	justonce.EventNotExecuted, justonce.EventAccepted, justonce.EventUnknown, justonce.EventFound,
	justonce.EventFoundFailed, justonce.EventProgress, justonce.EventAbsent, justonce.EventLookupFailed, justonce.EventWithdrawn}

const (
	mReleased = iota + 1
	mSucceeded
	mRejected
	mNotExecuted
	mAccepted
	mUnknown
	mFound
	mFoundFailed
	mProgress
	mAbsent
	mLookupFailed
	mWithdrawn
)

// mFence is the fence of every row; older ones are all alike.
const mFence = 10

var mRefs = [...]string{"none", "first", "second", "third", "fourth"}

func (r *mrow) status() justonce.Status {
	s := justonce.Status{
		State: justonce.States()[r.state], Fence: mFence,
		Attempts: int(r.attempts), Lookups: int(r.lookups), Unknowns: int(r.unknowns),
		Doubt: r.doubt, Accepted: r.accepted, Incident: r.incident,
		LeaseUntil: moment(r.lease), Due: moment(r.due),
		FirstSent: ago(r.first), UnknownAt: ago(r.unknownAge),
	}
	if r.ref != none {
		s.Reference, s.Digest = mRefs[r.ref], mRefs[r.ref]
	}
	if s.State == justonce.Failed {
		s.Reason = justonce.ReasonRejected // which one does not matter to the table
	}
	return s
}

func moment(remaining int8) time.Time {
	if remaining == none {
		return time.Time{}
	}
	return t0.Add(time.Duration(remaining) * time.Second)
}

// ago is the moment of an age. Ages below none lie ahead.
func ago(age int8) time.Time {
	if age == none {
		return time.Time{}
	}
	if age < none {
		age++
	}
	return t0.Add(-time.Duration(age) * time.Second)
}

func remaining(t time.Time) int8 {
	if t.IsZero() {
		return none
	}
	return int8(max(t.Sub(t0)/time.Second, 0))
}

func age(t time.Time) int8 {
	if t.IsZero() {
		return none
	}
	if t.After(t0) {
		return none - int8(t.Sub(t0)/time.Second)
	}
	return int8(t0.Sub(t) / time.Second)
}

// row returns s in small numbers. Counters stop where the table stops telling
// them apart.
func smallRow(s justonce.Status, p *justonce.Policy) mrow {
	r := mrow{exists: true,
		attempts: int8(min(s.Attempts, p.MaxAttempts)), lookups: int8(min(s.Lookups, p.MaxLookups)), unknowns: int8(s.Unknowns),
		doubt: s.Doubt, accepted: s.Accepted, incident: s.Incident,
		lease: remaining(s.LeaseUntil), due: remaining(s.Due), first: age(s.FirstSent), unknownAge: age(s.UnknownAt),
		ref: none,
	}
	for i, state := range justonce.States() {
		if state == s.State {
			r.state = uint8(i)
		}
	}
	for i, name := range mRefs {
		if s.Reference == name {
			r.ref = int8(i)
		}
	}
	// The first send tells of the only one where leases are renewed.
	if p.Capability != justonce.ByKey && !(p.Lease <= p.Timeout && s.State == justonce.Running && s.UnknownAt.IsZero()) {
		r.first = none
	}
	switch {
	case s.State.Ended():
		r.first, r.unknownAge = none, none
		fallthrough
	case s.State == justonce.Review:
		r.attempts, r.lookups, r.unknowns = 0, 0, 0
		fallthrough
	case s.State == justonce.Pending:
		r.unknownAge = min(r.unknownAge, 0)
	}
	return r
}

func (r *mrow) is(s justonce.State) bool { return r.exists && justonce.States()[r.state] == s }

// pass lets a second go by, or reports that it cannot: a request must land
// first, or somebody must wake up.
func (s *mstate) pass(p *justonce.Policy) bool {
	for _, r := range s.requests {
		if r.out && r.ttl <= 1 {
			return false
		}
	}
	down := func(t *int8) { *t -= b2i(*t > 0) }
	up := func(t *int8) {
		switch {
		case *t >= 0 && *t < mOld, *t < none-1:
			*t++
		case *t == none-1:
			*t = 0
		}
	}
	for i := range s.requests {
		if s.requests[i].out {
			down(&s.requests[i].ttl)
		}
	}
	for i := range s.workers {
		w := &s.workers[i]
		if w.phase == toSend || w.phase == waiting {
			down(&w.lease)
		}
		if w.asked >= mFreeze {
			return false
		}
		if w.current {
			up(&w.asked)
		}
	}
	for i := range s.rows {
		r := &s.rows[i]
		if r.exists {
			down(&r.lease)
			down(&r.due)
			up(&r.first)
			up(&r.unknownAge)
		}
	}
	if s.keyAge >= 0 {
		if s.keyAge++; s.keyAge >= mWindow { // forgotten
			s.keyAge = none
			s.stored = [2]int8{none, none}
		}
	}
	return true
}

func b2i(b bool) int8 {
	if b {
		return 1
	}
	return 0
}

// ordered returns s with interchangeable workers and requests in order, and
// without what can make no difference any more.
func (s mstate) ordered() mstate {
	asked := false
	for i := range s.workers {
		w := &s.workers[i]
		if !w.current { // as believable as possible
			w.asked = min(w.asked, 0)
		}
		asked = asked || w.asked != none
	}
	if !asked { // how long the settle time is over does not matter to the next question
		s.rows[0].unknownAge = min(s.rows[0].unknownAge, mSettle)
	}
	if less(s.workers[1], s.workers[0]) {
		s.workers[0], s.workers[1] = s.workers[1], s.workers[0]
		for i := range s.requests {
			if s.requests[i].owner != none {
				s.requests[i].owner = 1 - s.requests[i].owner
			}
		}
	}
	rank := func(r mrequest) int { return int(b2i(r.out))*1000 + int(r.ttl)*20 + int(r.op)*8 + int(r.owner) + 1 }
	for i := range s.requests {
		for j := range i {
			if rank(s.requests[i]) > rank(s.requests[j]) {
				s.requests[i], s.requests[j] = s.requests[j], s.requests[i]
			}
		}
	}
	return s
}

func less(a, b mworker) bool {
	rank := func(w mworker) int {
		return (((((int(w.phase)*2+int(w.op))*2+int(b2i(w.current)))*8+int(w.lease))*16+int(w.event))*8+int(w.ref)+1)*16 + int(w.asked) + 1
	}
	return rank(a) < rank(b)
}
