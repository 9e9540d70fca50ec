package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// The exception of Begin: an ended operation stops answering at DedupeUntil.
func (s *suite) archive(t *testing.T) {
	s.test(t, "Key", archiveKey)
	s.test(t, "Identity", archiveIdentity)
	s.test(t, "KeyAndIdentityOfOne", archiveOneByBoth)
	s.test(t, "KeyAndIdentityOfTwo", archiveTwo)
	s.test(t, "KeyOfOneThatEndedIdentityOfOneThatAnswers", archiveKeyButIdentityAnswers)
	s.test(t, "IdentityOfOneThatEndedKeyOfOneThatAnswers", archiveIdentityButKeyAnswers)
	s.test(t, "NotBeforeDedupeUntil", archiveBoundary)
	s.test(t, "NeverWhileOpen", archiveNeverOpen)
	s.test(t, "NeverWithoutDedupeUntil", archiveNeverZero)
	s.test(t, "Failed", archiveFailed)
	s.test(t, "AgainAndAgain", archiveAgain)
	s.test(t, "LongKey", archiveLongKey)
	s.test(t, "OneFresh", archiveOneFresh)
}

// mustEndUntil records an operation that ended and answers for a minute. It
// moves the clock by a second.
func (l *ledger) mustEndUntil(key, identity string) *justonce.Operation {
	l.t.Helper()
	op := l.newOp(key, withIdentity(identity))
	l.mustBegin(op)
	ended := l.mustEnd(op, func(op *justonce.Operation) { op.DedupeUntil = l.clock.now().Add(time.Minute) })
	l.clock.advance(time.Second)
	return ended
}

func archivedRef(op *justonce.Operation) justonce.Ref {
	return justonce.Ref{Tenant: op.Tenant, Key: fmt.Sprintf("%s~%d", op.Key, op.CreatedAt.UnixNano())}
}

// wantArchived checks that was is found under its new key, as it was.
func (l *ledger) wantArchived(was *justonce.Operation, history []justonce.Entry) {
	l.t.Helper()
	want := *was
	want.Ref = archivedRef(was)
	want.Identity = ""
	want.Version++
	l.want("the archived operation", l.mustGet(want.Ref), &want)
	l.want("its history", l.mustHistory(want.Ref), history)
}

func archiveKey(l *ledger) {
	was := l.mustEndUntil("k", "i")
	history := l.mustHistory(was.Ref)
	l.clock.advance(time.Hour)
	op := l.newOp("k", withIdentity("i2"))
	got := l.mustBegin(op)
	l.want("the fresh operation", got, recorded(op, 1))
	l.want("the fresh operation's history", l.mustHistory(op.Ref), []justonce.Entry{arrived(op)})
	l.wantArchived(was, history)
	l.mustBegin(l.newOp("k2", withIdentity("i"))) // its identity is free
}

func archiveIdentity(l *ledger) {
	was := l.mustEndUntil("k", "i")
	history := l.mustHistory(was.Ref)
	l.clock.advance(time.Hour)
	fresh := l.mustBegin(l.newOp("k2", withIdentity("i")))
	l.wantArchived(was, history)
	l.wantMatch(l.newOp("k3", withIdentity("i")), fresh, justonce.MatchIdentity)
	l.mustBegin(l.newOp("k")) // its key is free
}

func archiveOneByBoth(l *ledger) {
	was := l.mustEndUntil("k", "i")
	history := l.mustHistory(was.Ref)
	l.clock.advance(time.Hour)
	fresh := l.mustBegin(l.newOp("k", withIdentity("i")))
	l.wantArchived(was, history)
	l.wantMatch(l.newOp("k"), fresh, justonce.MatchKey)
	l.wantMatch(l.newOp("k2", withIdentity("i")), fresh, justonce.MatchIdentity)
}

func archiveTwo(l *ledger) {
	one, two := l.mustEndUntil("k1", "i1"), l.mustEndUntil("k2", "i2")
	h1, h2 := l.mustHistory(one.Ref), l.mustHistory(two.Ref)
	l.clock.advance(time.Hour)
	l.mustBegin(l.newOp("k1", withIdentity("i2")))
	l.wantArchived(one, h1)
	l.wantArchived(two, h2)
	l.mustBegin(l.newOp("k2", withIdentity("i1")))
}

func archiveKeyButIdentityAnswers(l *ledger) {
	byKey := l.mustEndUntil("k1", "i1")
	byIdentity := l.mustBegin(l.newOp("k2", withIdentity("i2")))
	l.clock.advance(time.Hour)
	l.wantMatch(l.newOp("k1", withIdentity("i2")), byIdentity, justonce.MatchIdentity)
	l.want("the operation met by key", l.mustGet(byKey.Ref), byKey)
}

func archiveIdentityButKeyAnswers(l *ledger) {
	byIdentity := l.mustEndUntil("k1", "i1")
	byKey := l.mustBegin(l.newOp("k2", withIdentity("i2")))
	l.clock.advance(time.Hour)
	l.wantMatch(l.newOp("k2", withIdentity("i1")), byKey, justonce.MatchKey)
	l.want("the operation met by identity", l.mustGet(byIdentity.Ref), byIdentity)
}

func archiveBoundary(l *ledger) {
	was := l.mustEndUntil("k", "i")
	l.clock.advance(was.DedupeUntil.Sub(l.clock.now()) - 1)
	l.wantMatch(l.newOp("k"), was, justonce.MatchKey)
	l.wantMatch(l.newOp("k2", withIdentity("i")), was, justonce.MatchIdentity)
	l.clock.advance(1)
	l.mustBegin(l.newOp("k"))
}

func archiveNeverOpen(l *ledger) {
	for _, state := range []justonce.State{justonce.Pending, justonce.Running, justonce.Unknown, justonce.Review} {
		op := l.newOp("k-"+string(state), withIdentity("i-"+string(state)), func(op *justonce.Operation) {
			op.DedupeUntil = l.clock.now()
		})
		l.mustBegin(op)
		op.State = state
		l.mustUpdate(op)
		l.clock.advance(time.Hour)
		l.wantMatch(l.newOp(op.Key), recorded(op, 2), justonce.MatchKey)
		l.wantMatch(l.newOp("x", withIdentity(op.Identity)), recorded(op, 2), justonce.MatchIdentity)
	}
}

func archiveNeverZero(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	l.mustBegin(op)
	ended := l.mustEnd(op)
	l.clock.advance(100 * 365 * 24 * time.Hour)
	l.wantMatch(l.newOp("k"), ended, justonce.MatchKey)
	l.wantMatch(l.newOp("k2", withIdentity("i")), ended, justonce.MatchIdentity)
}

func archiveFailed(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	l.mustBegin(op)
	op.Status = justonce.Status{State: justonce.Failed, Reason: justonce.ReasonRejected}
	op.Failure = &justonce.Failure{Code: "card_declined"}
	op.DedupeUntil = l.clock.now().Add(1)
	l.mustUpdate(op)
	was, history := l.mustGet(op.Ref), l.mustHistory(op.Ref)
	l.clock.advance(1)
	l.mustBegin(l.newOp("k", withIdentity("i")))
	l.wantArchived(was, history)
}

func archiveAgain(l *ledger) {
	type gone struct {
		op      *justonce.Operation
		history []justonce.Entry
	}
	var all []gone
	for range 4 {
		was := l.mustEndUntil("k", "i")
		all = append(all, gone{was, l.mustHistory(was.Ref)})
		l.clock.advance(time.Hour)
	}
	l.mustBegin(l.newOp("k", withIdentity("i")))
	for _, g := range all {
		l.wantArchived(g.op, g.history)
	}
	if n := len(l.mustList(justonce.Filter{Tenant: "acme"}).Operations); n != 5 {
		l.t.Errorf("List has %d operations, want the archived ones too: 5", n)
	}
}

func archiveLongKey(l *ledger) {
	was := l.mustEndUntil(strings.Repeat("k", 255), "i")
	history := l.mustHistory(was.Ref)
	l.clock.advance(time.Hour)
	l.mustBegin(l.newOp(was.Key))
	l.wantArchived(was, history)
}

func archiveOneFresh(l *ledger) {
	for round := range 8 {
		was := l.mustEndUntil(fmt.Sprint("k", round), fmt.Sprint("i", round))
		l.clock.advance(time.Hour)
		const callers = 12
		var fresh, met [callers]bool
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range callers {
			op := l.newOp(was.Key, withIdentity(was.Identity))
			if i%2 == 1 {
				op.Key += "-2" // by identity alone
			}
			wg.Go(func() {
				<-start
				a, err := l.Begin(l.ctx, op, arrived(op))
				if err != nil {
					l.t.Errorf("Begin: %v", err)
					return
				}
				fresh[i] = a.Fresh
				met[i] = !a.Fresh && a.Operation.State == justonce.Pending
			})
		}
		close(start)
		wg.Wait()
		n := 0
		for i := range callers {
			if fresh[i] {
				n++
			} else if !met[i] {
				l.t.Errorf("round %d: a caller was given the operation that no longer answers", round)
			}
		}
		if n != 1 {
			l.t.Fatalf("round %d: %d of %d concurrent calls are Fresh, want 1", round, n, callers)
		}
	}
}
