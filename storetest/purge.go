package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

func (s *suite) purge(t *testing.T) {
	s.test(t, "LeavesATombstone", purgeTombstone)
	s.test(t, "TombstoneAnswers", purgeAnswers)
	s.test(t, "TombstoneIsArchived", purgeArchived)
	s.test(t, "NeverOpenOrReview", purgeNeverOpen)
	s.test(t, "EndedBefore", purgeEndedBefore)
	s.test(t, "Limit", purgeLimit)
	s.test(t, "TombstoneTakesEntries", purgeTakesEntries)
}

// tombstoneOf returns what is left of op.
func tombstoneOf(op *justonce.Operation) *justonce.Operation {
	t := *op
	t.Arguments, t.Result = nil, nil
	t.Note = justonce.NotePurged
	t.Version++
	return &t
}

func purgeTombstone(l *ledger) {
	succeeded, failed := l.newOp("k1", withIdentity("i1")), l.newOp("k2", withIdentity("i2"))
	l.mustBegin(succeeded)
	l.mustEnd(succeeded, func(op *justonce.Operation) { op.DedupeUntil = l.clock.now().Add(time.Hour) })
	l.mustBegin(failed)
	full(failed, l.clock.now())
	l.mustUpdate(failed, fullEntry(l.clock.now()))
	for _, op := range []*justonce.Operation{succeeded, failed} {
		before := l.mustGet(op.Ref)
		if n := l.mustPurge(op.UpdatedAt.Add(1), 1); n != 1 {
			l.t.Fatalf("Purge = %d, want 1", n)
		}
		// What is neither named as removed nor as kept is up to the store.
		got, want := l.mustGet(op.Ref), tombstoneOf(before)
		got.Failure, want.Failure = nil, nil
		l.want("the tombstone", got, want)
		l.want("its history", l.mustHistory(op.Ref), []justonce.Entry(nil))
		l.wantErr("Update with the version before Purge", l.Update(l.ctx, op), justonce.ErrStale)
	}
	if n := l.mustPurge(l.clock.now().Add(time.Hour), 10); n != 0 {
		l.t.Errorf("Purge of tombstones = %d, want 0", n)
	}
	l.want("List", keysOf(l.mustList(justonce.Filter{Tenant: "acme"}).Operations), []string{"k2", "k1"})
}

func purgeAnswers(l *ledger) {
	l.mustEndUntil("k", "i")
	l.mustPurge(l.clock.now(), 10)
	tombstone := l.mustGet(justonce.Ref{Tenant: "acme", Key: "k"})
	l.wantMatch(l.newOp("k"), tombstone, justonce.MatchKey)
	l.wantMatch(l.newOp("k2", withIdentity("i")), tombstone, justonce.MatchIdentity)
}

func purgeArchived(l *ledger) {
	l.mustEndUntil("k", "i")
	l.mustPurge(l.clock.now(), 10)
	tombstone := l.mustGet(justonce.Ref{Tenant: "acme", Key: "k"})
	l.clock.advance(time.Hour)
	l.mustBegin(l.newOp("k2", withIdentity("i")))
	l.wantArchived(tombstone, nil)
}

func purgeNeverOpen(l *ledger) {
	var refs []justonce.Ref
	for _, state := range []justonce.State{justonce.Pending, justonce.Running, justonce.Unknown, justonce.Review} {
		op := l.newOp(string(state))
		l.mustBegin(op)
		op.State = state
		op.DedupeUntil = l.clock.now()
		l.mustUpdate(op, fullEntry(l.clock.now()))
		refs = append(refs, op.Ref)
	}
	l.clock.advance(1000 * time.Hour)
	before := l.snapshot(refs...)
	if n := l.mustPurge(l.clock.now(), 10); n != 0 {
		l.t.Errorf("Purge = %d, want 0", n)
	}
	l.want("the ledger after Purge", l.snapshot(refs...), before)
}

func purgeEndedBefore(l *ledger) {
	op := l.newOp("k", func(op *justonce.Operation) { op.CreatedAt = op.CreatedAt.Add(-time.Hour) })
	l.mustBegin(op)
	l.clock.advance(time.Hour)
	ended := l.mustEnd(op)
	at := l.clock.now()
	l.clock.advance(time.Hour)
	if n := l.mustPurge(at, 10); n != 0 {
		l.t.Errorf("Purge = %d of what ended before the time it ended, want 0", n)
	}
	l.want("the operation", l.mustGet(op.Ref), ended)
	if n := l.mustPurge(at.Add(1), 10); n != 1 {
		l.t.Errorf("Purge = %d of what ended before a nanosecond later, want 1", n)
	}
}

func purgeLimit(l *ledger) {
	for i := range 5 {
		l.mustEndUntil(fmt.Sprint("k", i), "")
	}
	for i, want := range []int{2, 2, 1, 0} {
		if n := l.mustPurge(l.clock.now(), 2); n != want {
			l.t.Errorf("Purge no. %d with limit 2 of 5 = %d, want %d", i+1, n, want)
		}
		purged := 0
		for _, op := range l.mustList(justonce.Filter{Tenant: "acme"}).Operations {
			if op.Note == justonce.NotePurged {
				purged++
			}
		}
		if want := min(2*(i+1), 5); purged != want {
			l.t.Errorf("%d tombstones after %d calls, want %d", purged, i+1, want)
		}
	}
}

func purgeTakesEntries(l *ledger) {
	l.mustEndUntil("k", "")
	l.mustPurge(l.clock.now(), 10)
	op := l.mustGet(justonce.Ref{Tenant: "acme", Key: "k"})
	late := justonce.Entry{Kind: justonce.EntryLate, At: l.clock.now(), Outcome: justonce.EventUnknown}
	l.mustUpdate(op, late)
	l.want("history", l.mustHistory(op.Ref), []justonce.Entry{late})
}
