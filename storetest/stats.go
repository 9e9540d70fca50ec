package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

func (s *suite) stats(t *testing.T) {
	s.test(t, "Empty", func(l *ledger) {
		l.wantStats(justonce.Stats{})
	})
	s.test(t, "AllTenants", statsAllTenants)
	s.test(t, "Lag", statsLag)
	s.test(t, "Follows", statsFollows)
}

// wantStats compares what Stats tells of each state; a state without
// operations may be there or not.
func (l *ledger) wantStats(want justonce.Stats) {
	l.t.Helper()
	got := l.mustStats()
	for _, state := range justonce.States() {
		if got.Count[state] != want.Count[state] {
			l.t.Errorf("Stats: %d operations are %s, want %d", got.Count[state], state, want.Count[state])
		}
		if !got.Oldest[state].Equal(want.Oldest[state]) {
			l.t.Errorf("Stats: the oldest that is %s is of %v, want %v", state, got.Oldest[state], want.Oldest[state])
		}
	}
	if got.Lag != want.Lag {
		l.t.Errorf("Stats: Lag = %v, want %v", got.Lag, want.Lag)
	}
}

func statsAllTenants(l *ledger) {
	now := l.clock.now()
	want := justonce.Stats{Count: make(map[justonce.State]int64), Oldest: make(map[justonce.State]time.Time)}
	for i, state := range justonce.States() {
		for j := range i + 1 {
			op := l.newOp(fmt.Sprintf("k%d-%d", i, j), func(op *justonce.Operation) {
				op.Tenant = fmt.Sprint("tenant", j%2)
				op.CreatedAt = now.Add(-time.Duration(10*i + j%3))
				op.Due = time.Time{}
			})
			l.mustBegin(op)
			op.State = state
			l.mustUpdate(op)
		}
		want.Count[state] = int64(i + 1)
		if !state.Ended() {
			want.Oldest[state] = now.Add(-time.Duration(10*i + min(i, 2)))
		}
	}
	l.wantStats(want)
}

func statsLag(l *ledger) {
	now := l.clock.now()
	count := map[justonce.State]int64{justonce.Pending: 2, justonce.Succeeded: 1, justonce.Review: 1}
	oldest := map[justonce.State]time.Time{justonce.Pending: now, justonce.Review: now}
	for _, key := range []string{"a", "b"} {
		l.mustBegin(l.newOp(key, func(op *justonce.Operation) { op.Due = now.Add(time.Minute) }))
	}
	for _, state := range []justonce.State{justonce.Succeeded, justonce.Review} {
		op := l.newOp(string(state))
		l.mustBegin(op)
		op.State, op.Due = state, now.Add(-time.Hour) // due, but not open
		l.mustUpdate(op)
	}
	l.wantStats(justonce.Stats{Count: count, Oldest: oldest})
	l.clock.advance(time.Minute)
	l.wantStats(justonce.Stats{Count: count, Oldest: oldest})
	l.clock.advance(1)
	l.wantStats(justonce.Stats{Count: count, Oldest: oldest, Lag: 1})
	op := l.mustGet(justonce.Ref{Tenant: "acme", Key: "a"})
	op.Due = now
	l.mustUpdate(op)
	l.wantStats(justonce.Stats{Count: count, Oldest: oldest, Lag: time.Minute + 1})
}

func statsFollows(l *ledger) {
	one := func(state justonce.State, at time.Time) justonce.Stats {
		s := justonce.Stats{Count: map[justonce.State]int64{state: 1}}
		if !state.Ended() {
			s.Oldest = map[justonce.State]time.Time{state: at}
		}
		return s
	}
	op := l.newOp("k")
	l.mustBegin(op)
	l.wantStats(one(justonce.Pending, op.CreatedAt))
	op = l.mustClaim(justonce.Due{Limit: 1}, take)[0]
	l.wantStats(one(justonce.Running, op.CreatedAt))
	l.mustEnd(op, func(o *justonce.Operation) { o.DedupeUntil = l.clock.now() })
	l.wantStats(one(justonce.Succeeded, op.CreatedAt))
	l.clock.advance(1)
	l.mustPurge(l.clock.now(), 10)
	l.wantStats(one(justonce.Succeeded, op.CreatedAt)) // a tombstone is one still

	again := l.newOp("k")
	l.mustBegin(again)
	l.wantStats(justonce.Stats{
		Count:  map[justonce.State]int64{justonce.Succeeded: 1, justonce.Pending: 1},
		Oldest: map[justonce.State]time.Time{justonce.Pending: again.CreatedAt},
	})
}
