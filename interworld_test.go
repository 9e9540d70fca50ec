package justonce_test

import "github.com/justonce-dev/justonce"

// land is what the provider can do with a request.
func (m *model) land(j int) {
	r := m.from.requests[j]
	op := r.op
	m.fault("a request is lost without effect", none, func(s *mstate) { s.requests[j] = mrequest{} })
	if m.policy.Capability == justonce.ByKey && m.from.stored[op] != none {
		if ref := m.from.stored[op]; ref == mRefusal {
			m.reply(j, "the provider repeats its refusal", mRejected, none, func(*mstate) {})
		} else {
			m.reply(j, "the provider repeats its stored answer", mSucceeded, ref, func(*mstate) {})
		}
		return
	}
	event := uint8(mSucceeded)
	if m.longRunning {
		event = mAccepted
	}
	ref := min(m.from.effects+1, int8(len(mRefs)-1))
	m.reply(j, "a request has its effect", event, ref, func(s *mstate) {
		s.effects++
		if s.effect[op] == none {
			s.effect[op] = ref
		}
		m.remember(s, op, ref)
	})
	m.reply(j, "the provider rejects a request", mRejected, none, func(s *mstate) { m.remember(s, op, mRefusal) })
	m.reply(j, "the provider does not execute a request", mNotExecuted, none, func(*mstate) {})
	m.reply(j, "the provider asks for other credentials", mWithdrawn, none, func(*mstate) {})
}

func (m *model) remember(s *mstate, op, what int8) {
	if m.policy.Capability == justonce.ByKey {
		s.stored[op] = what
		if s.keyAge == none {
			s.keyAge = 0
		}
	}
}

// reply lets a request land, its reply reach the worker that waits, or not.
func (m *model) reply(j int, what string, event uint8, ref int8, change func(*mstate)) {
	land := func(s *mstate) {
		change(s)
		s.requests[j] = mrequest{}
	}
	owner := m.from.requests[j].owner
	if owner == none {
		m.to(what+", and nobody waits for the reply", none, land)
		return
	}
	m.fault(what+"; the reply is lost", none, land)
	m.to(what, int(owner), func(s *mstate) {
		land(s)
		s.workers[owner].hold(event, ref)
	})
}

// answer is what a lookup can show.
func (m *model) answer(i int) {
	w := &m.from.workers[i]
	show := func(what string, event uint8, ref int8) {
		m.to("is told: "+what, i, func(s *mstate) { s.workers[i].hold(event, ref) })
	}
	m.fault("gets no answer", i, func(s *mstate) { s.workers[i].hold(mLookupFailed, none) })
	switch ref := m.from.effect[w.op]; {
	case ref == none:
		show("absent", mAbsent, none)
	case !m.longRunning || m.from.job == 1:
		show("found", mFound, ref)
	case m.from.job == 0:
		show("in progress", mProgress, ref)
	default:
		show("failed", mFoundFailed, ref)
	}
}

// world is what nobody in particular does.
func (m *model) world() {
	next := m.from
	if next.pass(&m.policy) && next != m.from {
		m.emit(move{what: "a second passes", worker: none}, next)
	}
	if m.longRunning && m.from.effects > 0 && m.from.job == 0 {
		m.to("the job ends well", none, func(s *mstate) { s.job = 1 })
		m.to("the job fails", none, func(s *mstate) { s.job = 2 })
	}
	for op := range m.from.rows {
		if m.from.rows[op].is(justonce.Review) {
			m.decide(int8(op))
		}
	}
}

// decide is a person, who looks before deciding.
func (m *model) decide(op int8) {
	for _, r := range m.from.requests {
		if r.out {
			return
		}
	}
	for _, w := range m.from.workers {
		if w.phase == toSend && w.lease > 0 || w.phase == holding && w.event == mAccepted {
			return
		}
	}
	verdict := func(k justonce.EventKind, ref int8) {
		m.fault("a person decides: "+string(k), none, func(s *mstate) {
			e := justonce.Event{Kind: k}
			if ref != none {
				e.Reference, e.Digest = mRefs[ref], mRefs[ref]
			}
			m.apply(s, op, e)
		})
	}
	if ref := m.from.effect[op]; ref != none && m.from.job != 2 {
		if !m.longRunning || m.from.job == 1 {
			verdict(justonce.EventHappened, ref)
		}
		return
	}
	verdict(justonce.EventCancelled, none)
	if m.from.decisions > 0 && m.from.job != 2 {
		m.from.decisions--
		verdict(justonce.EventRetry, none)
		m.from.decisions++
	}
}

// judge returns what must never be, in a state or between two.
func (m *model) judge(before, s *mstate) string {
	succeeded := false
	for op := range s.rows {
		r, was := &s.rows[op], &before.rows[op]
		switch {
		case !r.exists:
			continue
		case r.incident:
			return "an incident, although the provider contradicted nothing"
		case r.is(justonce.Failed) && s.effects > 0 && s.job != 2:
			return "failed, and yet there is an effect"
		case was.is(justonce.Succeeded) && (!r.is(justonce.Succeeded) || r.ref != was.ref):
			return "a recorded success was lost or replaced"
		case r.is(justonce.Succeeded) && (s.effect[op] == none || r.ref != s.effect[op] || m.longRunning && s.job != 1):
			return "succeeded without the effect"
		}
		if st := r.status(); st.State.Open() == st.Due.IsZero() {
			return "open and never due, or ended and due"
		}
		succeeded = succeeded || r.is(justonce.Succeeded)
	}
	switch {
	case s.effects >= 100:
		return "level 4: sent again although nothing proves that the first did nothing"
	case s.effects > 1:
		return "two effects"
	}
	return ""
}
