package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

func (s *suite) claim(t *testing.T) {
	s.test(t, "Changes", claimChanges)
	s.test(t, "OldestDueFirst", claimOrder)
	s.test(t, "OnlyWhatIsDue", claimOnlyDue)
	s.test(t, "DueBoundary", claimBoundary)
	s.test(t, "Tools", claimTools)
	s.test(t, "Ref", claimRef)
	s.test(t, "Limit", claimLimit)
	s.test(t, "Refused", claimRefused)
	s.test(t, "ArgumentsAndResult", claimBodies)
	s.test(t, "MakesUpdatesStale", claimMakesStale)
	s.test(t, "NeverTwice", claimNeverTwice)
	s.test(t, "NeverTwiceByRef", claimNeverTwiceByRef)
}

const lease = time.Minute

// take claims whatever it is given for the length of lease.
func take(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
	op.State = justonce.Running
	op.Fence++
	op.Attempts++
	op.LeaseUntil = now.Add(lease)
	op.Due = op.LeaseUntil
	op.UpdatedAt = now
	return []justonce.Entry{{Kind: justonce.EntryClaimed, At: now, Fence: op.Fence, State: op.State, Actor: "worker"}}, true
}

type advance = func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)

func (l *ledger) mustClaim(due justonce.Due, f advance) []*justonce.Operation {
	l.t.Helper()
	ops, err := l.Claim(l.ctx, due, f)
	if err != nil {
		l.t.Fatalf("Claim(%+v): %v", due, err)
	}
	return ops
}

// wantClaim claims with take and wants the operations with these keys.
func (l *ledger) wantClaim(due justonce.Due, keys ...string) {
	l.t.Helper()
	got := []string{}
	for _, op := range l.mustClaim(due, take) {
		got = append(got, op.Key)
	}
	l.want(fmt.Sprintf("Claim(%+v)", due), got, keys)
}

func claimChanges(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	l.mustBegin(op)
	now := l.clock.advance(time.Second)
	var given []justonce.Operation
	claimed := l.mustClaim(justonce.Due{Limit: 10}, func(o *justonce.Operation, at time.Time) ([]justonce.Entry, bool) {
		given = append(given, *o)
		if !at.Equal(now) {
			l.t.Errorf("advance was called with time %v, want Now, %v", at, now)
		}
		return take(o, at)
	})
	if len(given) != 1 || len(claimed) != 1 {
		l.t.Fatalf("advance was called %d times and %d operations were returned, want 1", len(given), len(claimed))
	}
	was := recorded(op, 1)
	given[0].Arguments = nil // they may be there
	l.want("the operation that advance was given", &given[0], was)

	want := recorded(op, 2)
	entries, _ := take(want, now)
	l.want("the operation as recorded", l.mustGet(op.Ref), want)
	want.Arguments = op.Arguments
	l.want("the operation as returned", claimed[0], want)
	l.want("history", l.mustHistory(op.Ref), append([]justonce.Entry{arrived(op)}, entries...))

	if again := l.mustClaim(justonce.Due{Limit: 10}, take); len(again) != 0 {
		l.t.Errorf("Claim returned %d operations, want none: it is leased", len(again))
	}
	l.mustUpdate(claimed[0]) // its Version is current
}

func claimOrder(l *ledger) {
	for i, due := range []int{3, 1, 5, 2, 4} {
		l.mustBegin(l.newOp(fmt.Sprint("k", due), func(op *justonce.Operation) {
			op.Tenant = fmt.Sprint("tenant", i%2)
			op.Due = l.clock.now().Add(time.Duration(due))
			op.CreatedAt = l.clock.now().Add(time.Duration(i))
		}))
	}
	l.clock.advance(time.Second)
	l.wantClaim(justonce.Due{Limit: 2}, "k1", "k2")
	l.wantClaim(justonce.Due{Limit: 10}, "k3", "k4", "k5")
	l.wantClaim(justonce.Due{Limit: 10})
}

func claimOnlyDue(l *ledger) {
	now := l.clock.now()
	past, future := now.Add(-time.Second), now.Add(time.Second)
	want := []string{}
	n := 0
	for _, state := range justonce.States() {
		for _, due := range []time.Time{{}, past, now, future} {
			for _, leased := range []time.Time{{}, past, now, future} {
				n++
				op := l.newOp(fmt.Sprintf("k%03d", n))
				l.mustBegin(op)
				op.Status = justonce.Status{State: state, Due: due, LeaseUntil: leased}
				l.mustUpdate(op)
				if op.IsDue(now) {
					want = append(want, op.Key)
				}
			}
		}
	}
	if len(want) == 0 {
		l.t.Fatal("nothing is due")
	}
	got := make(map[string]bool)
	for _, op := range l.mustClaim(justonce.Due{Limit: 1000}, take) {
		got[op.Key] = true
	}
	wanted := make(map[string]bool)
	for _, key := range want {
		wanted[key] = true
	}
	l.want("the operations claimed", got, wanted)
}

func claimBoundary(l *ledger) {
	op := l.newOp("k", func(op *justonce.Operation) { op.Due = l.clock.now().Add(time.Second) })
	l.mustBegin(op)
	l.clock.advance(time.Second - 1)
	l.wantClaim(justonce.Due{Limit: 1})
	l.clock.advance(1)
	l.wantClaim(justonce.Due{Limit: 1}, "k")
	l.clock.advance(lease - 1)
	l.wantClaim(justonce.Due{Limit: 1})
	l.clock.advance(1)
	l.wantClaim(justonce.Due{Limit: 1}, "k")
}

func claimTools(l *ledger) {
	for i, tool := range []string{"charge", "mail", "ticket", "charge", "Charge"} {
		l.mustBegin(l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) {
			op.Tool = tool
			op.Due = op.Due.Add(time.Duration(i))
		}))
	}
	l.clock.advance(time.Second)
	l.wantClaim(justonce.Due{Tools: []string{"refund"}, Limit: 10})
	l.wantClaim(justonce.Due{Tools: []string{"ticket", "mail"}, Limit: 10}, "k1", "k2")
	l.wantClaim(justonce.Due{Tools: []string{"charge"}, Limit: 10}, "k0", "k3")
	l.wantClaim(justonce.Due{Tools: []string{}, Limit: 10}, "k4")
}

func claimRef(l *ledger) {
	l.mustBegin(l.newOp("k1"))
	l.mustBegin(l.newOp("k2"))
	l.mustBegin(l.newOp("k3", func(op *justonce.Operation) { op.Due = op.Due.Add(time.Hour) }))
	ref := func(key string) justonce.Due {
		return justonce.Due{Ref: &justonce.Ref{Tenant: "acme", Key: key}, Limit: 5}
	}
	l.wantClaim(ref("k2"), "k2")
	l.wantClaim(ref("k2"))
	l.wantClaim(ref("k3")) // not due yet
	l.wantClaim(ref("k4"))
	l.wantClaim(justonce.Due{Ref: &justonce.Ref{Tenant: "globex", Key: "k1"}, Limit: 1})
	other := ref("k1")
	other.Tools = []string{"mail"}
	l.wantClaim(other)
	other.Tools = []string{"mail", "charge"}
	l.wantClaim(other, "k1")
}

func claimLimit(l *ledger) {
	for i := range 7 {
		l.mustBegin(l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) { op.Due = op.Due.Add(time.Duration(i)) }))
	}
	l.clock.advance(time.Second)
	l.wantClaim(justonce.Due{Limit: 1}, "k0")
	l.wantClaim(justonce.Due{Limit: 3}, "k1", "k2", "k3")
	l.wantClaim(justonce.Due{Limit: 3}, "k4", "k5", "k6")
}

func claimRefused(l *ledger) {
	var refs []justonce.Ref
	for i := range 4 {
		op := l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) { op.Due = op.Due.Add(time.Duration(i)) })
		l.mustBegin(op)
		refs = append(refs, op.Ref)
	}
	l.clock.advance(time.Second)
	before := l.snapshot(refs...)
	calls := 0
	refuse := func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		calls++
		op.Failure = &justonce.Failure{Code: "changed"}
		op.Note, op.Version = "changed", 99
		entries, _ := take(op, now)
		return entries, false
	}
	if ops := l.mustClaim(justonce.Due{Limit: 3}, refuse); len(ops) != 0 {
		l.t.Errorf("Claim returned %d operations that advance refused", len(ops))
	}
	if calls != 3 {
		l.t.Errorf("advance was called %d times, want Limit, 3: what it refuses counts", calls)
	}
	l.want("the ledger after all were refused", l.snapshot(refs...), before)

	odd := func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		if op.Key == "k0" || op.Key == "k2" {
			return refuse(op, now)
		}
		return take(op, now)
	}
	ops := l.mustClaim(justonce.Due{Limit: 10}, odd)
	if len(ops) != 2 || ops[0].Key != "k1" || ops[1].Key != "k3" {
		l.t.Fatalf("Claim returned %d operations, want k1 and k3, which advance accepted", len(ops))
	}
	l.want("what was refused", l.snapshot(refs[0], refs[2]), []record{before[0], before[2]})
}

func claimBodies(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	op.Accepted = true
	e := fullEntry(l.clock.now())
	l.mustUpdate(op, e)
	claimed := l.mustClaim(justonce.Due{Limit: 1}, take)
	if len(claimed) != 1 {
		l.t.Fatalf("Claim returned %d operations, want 1", len(claimed))
	}
	if got := claimed[0]; string(got.Arguments) != string(op.Arguments) || string(got.Result) != string(e.Body) {
		l.t.Errorf("Claim returned arguments %s and result %s, want %s and %s", got.Arguments, got.Result, op.Arguments, e.Body)
	}
	if got := l.mustGet(op.Ref).Result; string(got) != string(e.Body) {
		l.t.Errorf("after Claim the result is %s, want %s", got, e.Body)
	}
}

func claimMakesStale(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	l.mustClaim(justonce.Due{Limit: 1}, take)
	l.wantErr("Update with the version before Claim", l.Update(l.ctx, op), justonce.ErrStale)
}

// claimAtOnce lets several workers claim until nothing is left and returns how
// often each operation was given.
func (l *ledger) claimAtOnce(stores []justonce.Store, due func(worker, i int) justonce.Due) map[string]int {
	given := make(map[string]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for worker := range 6 {
		store := stores[worker%len(stores)]
		wg.Go(func() {
			<-start
			for i, empty := 0, 0; empty < 8 && i < 200; i++ {
				ops, err := store.Claim(l.ctx, due(worker, i), take)
				if err != nil {
					l.t.Errorf("Claim: %v", err)
					return
				}
				if len(ops) == 0 {
					empty++
				}
				mu.Lock()
				for _, op := range ops {
					given[op.Key]++
				}
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	return given
}

// beginMany records n operations and returns their refs.
func (l *ledger) beginMany(n int) []justonce.Ref {
	l.t.Helper()
	var refs []justonce.Ref
	for i := range n {
		op := l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) { op.Due = op.Due.Add(time.Duration(i)) })
		l.mustBegin(op)
		refs = append(refs, op.Ref)
	}
	l.clock.advance(time.Second)
	return refs
}

// wantOnceEach checks what claimAtOnce returned and what is recorded.
func (l *ledger) wantOnceEach(given map[string]int, refs []justonce.Ref) {
	l.t.Helper()
	for _, ref := range refs {
		if n := given[ref.Key]; n != 1 {
			l.t.Errorf("%s was given to %d claims, want 1", ref.Key, n)
		}
		if op := l.mustGet(ref); op.Fence != 1 || op.Version != 2 || len(l.mustHistory(ref)) != 2 {
			l.t.Errorf("%s: fence %d, version %d, want one claim recorded", ref.Key, op.Fence, op.Version)
		}
	}
}

func claimNeverTwice(l *ledger) {
	refs := l.beginMany(40)
	given := l.claimAtOnce([]justonce.Store{l.Store}, func(worker, i int) justonce.Due {
		return justonce.Due{Limit: 1 + worker%3}
	})
	l.wantOnceEach(given, refs)
}

func claimNeverTwiceByRef(l *ledger) {
	refs := l.beginMany(8)
	given := l.claimAtOnce([]justonce.Store{l.Store}, func(worker, i int) justonce.Due {
		return justonce.Due{Ref: &refs[i%len(refs)], Limit: 1}
	})
	l.wantOnceEach(given, refs)
}
