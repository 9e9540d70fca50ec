package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce"
)

func (s *suite) shared(t *testing.T) {
	s.test(t, "OneSeesTheOther", sharedSees)
	s.test(t, "OneFresh", sharedOneFresh)
	s.test(t, "NeverClaimedTwice", sharedClaim)
	s.test(t, "OneUpdateWins", sharedUpdate)
}

// another opens the ledger once more; the test closes it.
func (l *ledger) another() *ledger {
	l.t.Helper()
	other := &ledger{suite: l.suite, t: l.t, ctx: l.ctx, clock: l.clock}
	other.use(l.suite.features.Reopen(l.t, l.Store, l.clock.now))
	return other
}

func sharedSees(l *ledger) {
	other := l.another()
	op := l.newOp("k", withIdentity("i"))
	was := l.mustBegin(op)
	l.want("the other's operation", other.mustGet(op.Ref), was)
	other.wantMatch(l.newOp("k"), was, justonce.MatchKey)
	other.wantMatch(l.newOp("k2", withIdentity("i")), was, justonce.MatchIdentity)
	l.want("the first's operation", l.mustGet(op.Ref), was)
	other.wantClaim(justonce.Due{Limit: 1}, "k")
	l.want("the first's ledger", l.snapshot(op.Ref), other.snapshot(op.Ref))
	l.wantErr("Update after the other claimed", l.Update(l.ctx, op), justonce.ErrStale)
	l.wantClaim(justonce.Due{Limit: 1})
	mine := l.mustGet(op.Ref)
	l.mustEnd(mine)
	l.want("the other's ledger", other.snapshot(op.Ref), l.snapshot(op.Ref))
	other.mustClose()
	l.mustGet(op.Ref)
}

func sharedOneFresh(l *ledger) {
	stores := []justonce.Store{l.Store, l.another().Store, l.another().Store}
	for round := range 8 {
		const callers = 9
		var fresh [callers]bool
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range callers {
			op := l.newOp(fmt.Sprintf("k%d", round), withIdentity(fmt.Sprint("i", round)))
			if i%2 == 1 {
				op.Key += fmt.Sprint("-", i)
			}
			wg.Go(func() {
				<-start
				a, err := stores[i%len(stores)].Begin(l.ctx, op, arrived(op))
				if err != nil {
					l.t.Errorf("Begin: %v", err)
					return
				}
				fresh[i] = a.Fresh
			})
		}
		close(start)
		wg.Wait()
		n := 0
		for _, f := range fresh {
			if f {
				n++
			}
		}
		if n != 1 {
			l.t.Fatalf("round %d: %d of %d concurrent calls are Fresh, want 1", round, n, callers)
		}
	}
}

func sharedClaim(l *ledger) {
	stores := []justonce.Store{l.Store, l.another().Store}
	refs := l.beginMany(30)
	given := l.claimAtOnce(stores, func(worker, i int) justonce.Due { return justonce.Due{Limit: 1 + worker%3} })
	l.wantOnceEach(given, refs)
}

func sharedUpdate(l *ledger) {
	stores := []justonce.Store{l.Store, l.another().Store}
	op := l.newOp("k")
	l.mustBegin(op)
	const writers, each = 6, 10
	var wg sync.WaitGroup
	var accepted [writers]int
	for w := range writers {
		store := stores[w%len(stores)]
		wg.Go(func() {
			for range each {
				mine, err := store.Get(l.ctx, op.Ref)
				if err != nil {
					l.t.Errorf("Get: %v", err)
					return
				}
				if store.Update(l.ctx, mine, justonce.Entry{Kind: justonce.EntryDecision}) == nil {
					accepted[w]++
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for _, a := range accepted {
		n += a
	}
	if got, entries := l.mustGet(op.Ref), l.mustHistory(op.Ref); got.Version != int64(n+1) || len(entries) != n+1 {
		l.t.Errorf("%d updates were accepted; version %d and %d entries are recorded, want %d", n, got.Version, len(entries), n+1)
	}
}
