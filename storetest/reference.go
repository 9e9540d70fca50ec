package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce"
)

// Update of exclusive operations.
func (s *suite) reference(t *testing.T) {
	s.test(t, "Taken", referenceTaken)
	s.test(t, "TakenByOneThatIsNotExclusive", func(l *ledger) {
		l.mustHold(l.newOp("k1"), "ref", false)
		op := l.newOp("k2")
		l.mustBegin(op)
		l.wantErr("Update", l.hold(op, "ref", true), justonce.ErrReferenceTaken)
	})
	s.test(t, "OnlyExclusiveAsks", func(l *ledger) {
		l.mustHold(l.newOp("k1"), "ref", true)
		l.mustHold(l.newOp("k2"), "ref", false)
	})
	s.test(t, "OwnAgain", func(l *ledger) {
		op := l.newOp("k1")
		l.mustHold(op, "ref", true)
		l.mustUpdate(op)
		l.mustUpdate(op)
	})
	s.test(t, "EmptyIsNeverTaken", func(l *ledger) {
		l.mustHold(l.newOp("k1"), "", true)
		l.mustHold(l.newOp("k2"), "", true)
	})
	s.test(t, "OtherToolsAndTenants", func(l *ledger) {
		l.mustHold(l.newOp("k1"), "ref", true)
		l.mustHold(l.newOp("k2", func(op *justonce.Operation) { op.Tool = "mail" }), "ref", true)
		l.mustHold(l.newOp("k1", func(op *justonce.Operation) { op.Tenant = "globex" }), "ref", true)
		l.mustHold(l.newOp("k3"), "REF", true)
	})
	s.test(t, "FreeAgain", func(l *ledger) {
		one, two := l.newOp("k1"), l.newOp("k2")
		l.mustHold(one, "ref", true)
		l.mustBegin(two)
		l.wantErr("Update", l.hold(two, "ref", true), justonce.ErrReferenceTaken)
		one.Reference = "other"
		l.mustUpdate(one)
		if err := l.hold(two, "ref", true); err != nil {
			l.t.Errorf("Update after the reference was given up: %v", err)
		}
	})
	s.test(t, "HeldByArchivedAndPurged", func(l *ledger) {
		l.mustEndUntil("k1", "")
		l.clock.advance(1 << 40)
		l.mustBegin(l.newOp("k1")) // archives the first
		l.mustEndUntil("k2", "")
		l.clock.advance(1)
		if n := l.mustPurge(l.clock.now(), 10); n != 2 {
			l.t.Fatalf("Purge = %d, want 2", n)
		}
		op := l.newOp("k3")
		l.mustBegin(op)
		for _, held := range []string{"ref of k1", "ref of k2"} {
			l.wantErr("Update", l.hold(op, held, true), justonce.ErrReferenceTaken)
		}
	})
	s.test(t, "Race", referenceRace)
}

// hold updates op to have ended under a reference.
func (l *ledger) hold(op *justonce.Operation, reference string, exclusive bool) error {
	op.State, op.Reference, op.Exclusive = justonce.Succeeded, reference, exclusive
	return l.Update(l.ctx, op, justonce.Entry{Kind: justonce.EntryLookup, At: l.clock.now(), Reference: reference})
}

func (l *ledger) mustHold(op *justonce.Operation, reference string, exclusive bool) {
	l.t.Helper()
	l.mustBegin(op)
	if err := l.hold(op, reference, exclusive); err != nil {
		l.t.Fatalf("Update(%s) with reference %q: %v", op.Key, reference, err)
	}
}

func referenceTaken(l *ledger) {
	one, two := l.newOp("k1"), l.newOp("k2")
	l.mustHold(one, "ref", true)
	l.mustBegin(two)
	before := l.snapshot(one.Ref, two.Ref)
	l.wantErr("Update", l.hold(two, "ref", true), justonce.ErrReferenceTaken)
	if two.Version != 1 {
		l.t.Errorf("a refused Update made Version %d of 1", two.Version)
	}
	l.want("the ledger after it", l.snapshot(one.Ref, two.Ref), before)
	if err := l.hold(two, "ref2", true); err != nil {
		l.t.Errorf("Update with a free reference: %v", err)
	}
}

func referenceRace(l *ledger) {
	for round := range 8 {
		const callers = 6
		errs := make([]error, callers)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range callers {
			op := l.newOp(fmt.Sprintf("k%d-%d", round, i))
			l.mustBegin(op)
			wg.Go(func() {
				<-start
				errs[i] = l.hold(op, fmt.Sprint("ref", round), true)
			})
		}
		close(start)
		wg.Wait()
		held := 0
		for _, err := range errs {
			if err == nil {
				held++
			} else if !errors.Is(err, justonce.ErrReferenceTaken) {
				l.t.Errorf("Update: error %v, want ErrReferenceTaken", err)
			}
		}
		if held != 1 {
			l.t.Fatalf("round %d: %d operations hold one reference, want 1", round, held)
		}
	}
}
