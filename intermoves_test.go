package justonce_test

import (
	"fmt"
	"time"

	"github.com/justonce-dev/justonce"
)

// A model says by which rules the moves go.
type model struct {
	name        string
	policy      justonce.Policy
	longRunning bool
	transition  transition
	noIdentity  bool // planted: arrival does not look at identities

	faults, decisions int8 // at most

	emit  func(move, mstate)
	from  mstate
	fence int64 // after the last event
}

// A move is one thing that happens. Faults are what the world need not do.
type move struct {
	what   string
	worker int // or none
	fault  bool
}

func (m move) String() string {
	if m.worker == none {
		return m.what
	}
	return fmt.Sprintf("worker %d: %s", m.worker+1, m.what)
}

func newModel(name string, p justonce.Policy) *model {
	p.Timeout, p.Lease, p.Settle = (mLease-1)*time.Second, mLease*time.Second, mSettle*time.Second
	p.Window, p.Margin = mWindow*time.Second, mMargin*time.Second
	p.MaxAttempts, p.MaxUnknowns, p.MaxLookups = 3, 2, 2
	p.Poll, p.CanLookup = time.Second, p.CanLookup || p.Capability == justonce.ByReference || p.Capability == justonce.ByList
	return &model{name: name, policy: p.WithDefaults(), transition: justonce.Transition, faults: 1, decisions: 1}
}

// renewing makes leases shorter than attempts.
func (m *model) renewing() *model {
	m.policy.Lease, m.policy.Timeout = (mLease-1)*time.Second, mLease*time.Second
	return m
}

// lease is how long one is, in seconds.
func (m *model) lease() int8 { return int8(m.policy.Lease / time.Second) }

func (m *model) start() mstate {
	s := mstate{effect: [2]int8{none, none}, stored: [2]int8{none, none}, keyAge: none, faults: m.faults, decisions: m.decisions, joiners: 1}
	for i := range s.workers {
		s.workers[i].free()
	}
	return s
}

func (w *mworker) free() { *w = mworker{ref: none, asked: none} }

func (w *mworker) hold(event uint8, ref int8) {
	w.phase, w.event, w.ref, w.lease = holding, event, ref, 0
}

// apply lets an event happen to a row. fence is the one it is reported under.
func (m *model) apply(s *mstate, op int8, e justonce.Event) justonce.Step {
	r := &s.rows[op]
	before := r.status()
	after, step, err := m.transition(before, e, m.policy, t0)
	if err != nil {
		return justonce.StepNone
	}
	if m.fence = after.Fence; after.Fence != before.Fence {
		for i := range s.workers {
			if s.workers[i].op == op {
				s.workers[i].current = false
			}
		}
	}
	*r = smallRow(after, &m.policy)
	if after.State == justonce.Pending && (e.Kind == justonce.EventNotExecuted || e.Kind == justonce.EventRetry) {
		s.unproven = false
	}
	return step
}

// moves emits every state that s can turn into.
func (m *model) moves(s mstate, emit func(move, mstate)) {
	m.from, m.emit = s, emit
	for i := range s.workers {
		m.work(i)
	}
	for i := range s.requests {
		if s.requests[i].out {
			m.land(i)
		}
	}
	m.world()
}

func (m *model) to(what string, worker int, change func(s *mstate)) {
	s := m.from
	change(&s)
	m.emit(move{what: what, worker: worker}, s)
}

func (m *model) fault(what string, worker int, change func(s *mstate)) {
	s := m.from
	change(&s)
	m.emit(move{what, worker, true}, s)
}

// work is what a worker can do. It may also do nothing for a long time: that
// is the frozen one.
func (m *model) work(i int) {
	w := &m.from.workers[i]
	if w.phase != idle && m.from.faults > 0 {
		m.fault("crashes", i, func(s *mstate) {
			s.faults--
			s.abandon(i, mLease+mSettle)
			s.workers[i].free()
		})
	}
	switch w.phase {
	case idle:
		m.arrive(i)
		for op := range m.from.rows {
			m.claim(i, int8(op))
		}
	case toSend:
		m.send(i)
	case waiting:
		if w.lease > 0 {
			m.renew(i)
		}
		m.to("gives up waiting", i, func(s *mstate) {
			s.abandon(i, mSettle)
			s.workers[i].hold(mUnknown, none)
		})
	case toAsk:
		m.to("asks", i, func(s *mstate) { s.workers[i].phase, s.workers[i].asked = asking, 0 })
	case asking:
		if m.policy.Lease <= m.policy.Timeout && w.asked < mLease {
			m.renew(i)
		}
		m.answer(i)
	case holding:
		m.record(i)
	}
}

// abandon: nobody waits any more for what worker i has out, and it lands
// within so many seconds.
func (s *mstate) abandon(i int, within int8) {
	for j := range s.requests {
		if r := &s.requests[j]; r.out && r.owner == int8(i) {
			r.owner, r.ttl = none, min(r.ttl, within)
		}
	}
}

// arrive records the call, for the caller or a joiner with a fresh key.
func (m *model) arrive(i int) {
	op := int8(0)
	if m.from.rows[0].exists {
		if m.from.joiners == 0 || !m.noIdentity {
			return // it meets the first row and waits, or claims what is due
		}
		op = 1
	}
	begin := func(s *mstate) {
		if op == 1 {
			s.joiners--
		}
		s.rows[op] = smallRow(justonce.Status{State: justonce.Pending, Due: t0}, &m.policy)
	}
	who := "a call arrives"
	if op == 1 {
		who = "the call arrives again under a fresh key"
	}
	m.to(who+" and is recorded for later", i, begin)
	leased := func(s *mstate) {
		begin(s)
		m.apply(s, op, justonce.Event{Kind: justonce.EventClaimed})
	}
	m.to(who+" and is recorded with its lease", i, func(s *mstate) {
		leased(s)
		s.workers[i] = mworker{phase: toSend, op: op, current: true, lease: m.lease(), ref: none, asked: none}
	})
	if m.from.faults > 0 {
		m.fault(who+", is recorded, and the worker is told that it failed", i, func(s *mstate) {
			s.faults--
			leased(s)
		})
	}
}

// claim does what Runner.advance does.
func (m *model) claim(i int, op int8) {
	r := &m.from.rows[op]
	if st := r.status(); !r.exists || !st.IsDue(t0) {
		return
	}
	m.to("claims", i, func(s *mstate) {
		w := &s.workers[i]
		if r.is(justonce.Running) && !r.accepted {
			m.apply(s, op, justonce.Event{Kind: justonce.EventLeaseExpired})
			if st := s.rows[op].status(); !st.IsDue(t0) {
				return
			}
		}
		switch m.apply(s, op, justonce.Event{Kind: justonce.EventClaimed}) {
		case justonce.StepSend:
			*w = mworker{phase: toSend, op: op, current: true, lease: m.lease(), ref: none, asked: none}
		case justonce.StepLookup:
			*w = mworker{phase: toAsk, op: op, current: true, ref: none, asked: none}
		}
	})
}

// send does what Runner.performSend does up to the connector.
func (m *model) send(i int) {
	w := &m.from.workers[i]
	if w.lease <= 0 {
		m.to("is too late to send", i, func(s *mstate) { s.workers[i].hold(mReleased, none) })
		return
	}
	m.to("takes it back", i, func(s *mstate) { s.workers[i].hold(mWithdrawn, none) })
	for j := range m.from.requests {
		if m.from.requests[j].out {
			continue
		}
		m.to("sends", i, func(s *mstate) {
			left := w.lease
			s.workers[i].phase, s.workers[i].lease = waiting, 0
			if m.policy.Lease <= m.policy.Timeout { // counted from the claim
				left += int8((m.policy.Timeout - m.policy.Lease) / time.Second)
				s.workers[i].lease = left
			}
			s.requests[j] = mrequest{out: true, ttl: left + mSettle, op: w.op, owner: int8(i)}
			if s.unproven {
				s.effects = 100 // see judge
			}
			s.unproven = m.policy.Capability == justonce.ByNothing
		})
		return
	}
}

// renew does what Runner.renewOnce does.
func (m *model) renew(i int) {
	w := m.from.workers[i]
	e := justonce.Event{Kind: justonce.EventRenewed, Fence: mFence}
	if !w.current {
		e.Fence--
	}
	m.fault("renews its lease", i, func(s *mstate) {
		m.apply(s, w.op, e)
		if m.fence < mFence { // a planted bug gave it back what others hold
			s.workers[i].current = true
		}
	})
}

// record does what Runner.settle does.
func (m *model) record(i int) {
	w := m.from.workers[i]
	e := justonce.Event{Kind: mEvents[w.event], Fence: mFence, Conclusive: w.event == mRejected && m.policy.Capability == justonce.ByKey}
	if !w.current {
		e.Fence--
	}
	if w.ref != none {
		e.Reference, e.Digest = mRefs[w.ref], mRefs[w.ref]
	}
	if w.asked != none {
		e.Asked = ago(w.asked)
	}
	what := "records " + string(e.Kind)
	if !w.current {
		what = "records late " + string(e.Kind)
	}
	m.to(what, i, func(s *mstate) {
		m.apply(s, w.op, e)
		s.workers[i].free()
	})
	if m.from.faults > 0 {
		m.fault(what+" and is told that it failed", i, func(s *mstate) {
			s.faults--
			m.apply(s, w.op, e)
		})
	}
}
