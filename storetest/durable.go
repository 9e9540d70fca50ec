package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

func (s *suite) durable(t *testing.T) {
	s.test(t, "Everything", durableEverything)
	s.test(t, "AcknowledgedBeforeClose", durableAcknowledged)
}

// reopen closes the store under test and opens its ledger again.
func (l *ledger) reopen() {
	l.t.Helper()
	was := l.Store
	l.mustClose()
	l.use(l.suite.features.Reopen(l.t, was, l.clock.now))
}

func durableEverything(l *ledger) {
	var refs []justonce.Ref
	ended := l.newOp("ended", withIdentity("i1"))
	l.mustBegin(ended)
	l.mustEnd(ended)
	purged := l.newOp("purged", withIdentity("i2"))
	l.mustBegin(purged)
	l.mustEnd(purged, func(op *justonce.Operation) { op.UpdatedAt = op.UpdatedAt.Add(-time.Hour) })
	if n := l.mustPurge(l.clock.now(), 10); n != 1 {
		l.t.Fatalf("Purge = %d, want 1", n)
	}
	filled := l.newOp("filled", withIdentity("i3"))
	l.mustBegin(filled)
	full(filled, l.clock.now())
	l.mustUpdate(filled, fullEntry(l.clock.now()))
	claimed := l.newOp("claimed")
	l.mustBegin(claimed)
	l.wantClaim(justonce.Due{Limit: 10}, "claimed")
	pending := l.newOp("pending")
	l.mustBegin(pending)
	archived := l.mustEndUntil("archived", "i4")
	l.clock.advance(time.Hour)
	l.mustBegin(l.newOp("archived", withIdentity("i4")))
	for _, op := range []*justonce.Operation{ended, purged, filled, claimed, pending, archived} {
		refs = append(refs, op.Ref)
	}
	refs = append(refs, archivedRef(archived))

	before, stats, list := l.snapshot(refs...), l.mustStats(), l.mustListAll(justonce.Filter{Tenant: "acme", Limit: 2})
	cursor := l.mustList(justonce.Filter{Tenant: "acme", Limit: 3}).Next
	for range 2 {
		l.reopen()
		l.want("the ledger", l.snapshot(refs...), before)
		l.want("stats", l.mustStats(), stats)
		l.want("list", l.mustListAll(justonce.Filter{Tenant: "acme", Limit: 2}), list)
		if n := len(l.mustList(justonce.Filter{Tenant: "acme", Cursor: cursor}).Operations); n != len(refs)-3 {
			l.t.Errorf("an old cursor leads to %d operations, want %d", n, len(refs)-3)
		}
	}
	l.wantMatch(l.newOp("x", withIdentity("i2")), before[1].Operation, justonce.MatchIdentity)
	l.wantClaim(justonce.Due{Ref: &claimed.Ref, Limit: 1}, "claimed") // its lease ran out
	got := l.mustClaim(justonce.Due{Ref: &pending.Ref, Limit: 1}, take)
	if len(got) != 1 || string(got[0].Arguments) != string(pending.Arguments) {
		l.t.Errorf("Claim after reopening returned %+v", got)
	}
}

// durableAcknowledged closes while others write: what was acknowledged is
// there afterwards, and what was refused is there wholly or not at all.
func durableAcknowledged(l *ledger) {
	const writers, each = 6, 8
	var errs [writers][each]error
	store := l.Store
	ops := make([][]*justonce.Operation, writers)
	for w := range writers {
		for i := range each {
			ops[w] = append(ops[w], l.newOp(fmt.Sprintf("k%d-%d", w, i)))
		}
	}
	var wg sync.WaitGroup
	half := make(chan struct{}, writers)
	for w := range writers {
		wg.Go(func() {
			for i, op := range ops[w] {
				_, errs[w][i] = store.Begin(l.ctx, op, arrived(op))
				if i == each/2 {
					half <- struct{}{}
				}
			}
		})
	}
	<-half
	l.reopenWhile(wg.Wait)
	for w := range writers {
		for i, err := range errs[w] {
			for _, verdict := range []error{justonce.ErrNotFound, justonce.ErrConflict, justonce.ErrStale} {
				if errors.Is(err, verdict) {
					l.t.Errorf("Begin of a closing store: error %v", err)
				}
			}
			l.wantWhole(ops[w][i], err == nil)
		}
	}
}

// reopenWhile closes, waits for what is still running, and opens again.
func (l *ledger) reopenWhile(wait func()) {
	l.t.Helper()
	was := l.Store
	l.mustClose()
	wait()
	l.use(l.suite.features.Reopen(l.t, was, l.clock.now))
}
