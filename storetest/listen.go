package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// listen tests stores that are a [justonce.Notifier]. One may come without
// any news; then it still ends with its context.
func (s *suite) listen(t *testing.T) {
	s.test(t, "EndsWithItsContext", listenEnds)
	if s.features.News {
		s.test(t, "HearsOfTheOther", listenHears)
		s.test(t, "HearsOfTheLast", listenHearsTheLast)
		if s.features.CutNews != nil {
			s.test(t, "SurvivesACut", listenSurvives)
		}
	}
}

const (
	// patience is how long news may take, connecting included.
	patience = 10 * time.Second
	// listenAgain is when a listener that failed is tried again, as callers do.
	listenAgain = 10 * time.Millisecond
	// tellAgain is how often somebody is told who may not listen yet.
	tellAgain = 50 * time.Millisecond
)

// An ear is a store that listens until the test ends.
type ear struct {
	t  *testing.T
	mu sync.Mutex
	// refs are those heard of; changed is closed when one is added, and made anew.
	refs    map[justonce.Ref]bool
	changed chan struct{}
}

// listening makes l's store listen.
func (l *ledger) listening() *ear {
	l.t.Helper()
	n, ok := l.Store.(justonce.Notifier)
	if !ok {
		l.t.Fatalf("%T has News and is no justonce.Notifier", l.Store)
	}
	e := &ear{t: l.t, refs: map[justonce.Ref]bool{}, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		again := time.NewTicker(listenAgain)
		defer again.Stop()
		for n.Listen(ctx, e.hear) != nil && ctx.Err() == nil {
			<-again.C
		}
	}()
	l.t.Cleanup(func() {
		cancel()
		wait(l.t, done, "the end of Listen after that of its context")
	})
	return e
}

// wait fails the test unless c is closed in time.
func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
}

func (e *ear) hear(ref justonce.Ref) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refs[ref] = true
	close(e.changed)
	e.changed = make(chan struct{})
}

// forget makes what was heard of count no more.
func (e *ear) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.refs)
}

// heard waits until ref was heard of, for a time at most.
func (e *ear) heard(ref justonce.Ref, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		e.mu.Lock()
		ok, changed := e.refs[ref], e.changed
		e.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

func (e *ear) wantHeard(ref justonce.Ref, what string) {
	e.t.Helper()
	if !e.heard(ref, patience) {
		e.t.Fatalf("nothing was heard of %s, which was %s by another store, within %v", ref.Key, what, patience)
	}
}

// untilHeard records operations in l until e hears of one: from then on it is
// known to listen, and l to know it.
func (l *ledger) untilHeard(e *ear, prefix string) {
	l.t.Helper()
	for start := time.Now(); time.Since(start) < patience; {
		op := l.newOp(fmt.Sprint(prefix, time.Since(start)))
		l.mustBegin(op)
		if e.heard(op.Ref, tellAgain) {
			return
		}
	}
	l.t.Fatalf("nothing was heard of another store within %v", patience)
}

func listenEnds(l *ledger) {
	n, ok := l.Store.(justonce.Notifier)
	if !ok {
		l.t.Skipf("%T is no justonce.Notifier", l.Store)
	}
	for _, before := range []bool{true, false} {
		ctx, cancel := context.WithCancel(l.ctx)
		if before {
			cancel()
		}
		done := make(chan struct{})
		var err error
		go func() {
			defer close(done)
			err = n.Listen(ctx, func(justonce.Ref) {})
		}()
		l.mustBegin(l.newOp(fmt.Sprint("k", before)))
		cancel()
		wait(l.t, done, "the end of Listen after that of its context")
		if err != nil {
			l.t.Errorf("Listen whose context ended: %v, want nil", err)
		}
	}
}

func listenHears(l *ledger) {
	e, other := l.listening(), l.another()
	other.untilHeard(e, "first")
	for _, end := range []struct {
		what string
		edit func(*justonce.Operation)
	}{
		{"ended", func(*justonce.Operation) {}},
		{"failed", func(op *justonce.Operation) { op.State, op.Reason = justonce.Failed, justonce.ReasonRejected }},
		{"put into review", func(op *justonce.Operation) { op.State = justonce.Review }},
		{"made pending again", func(op *justonce.Operation) { op.State = justonce.Pending }},
	} {
		op := other.newOp(end.what, func(op *justonce.Operation) { op.Tenant = "a \"ténant\"\n" })
		other.mustBegin(op)
		e.wantHeard(op.Ref, "recorded as pending")
		e.forget()
		other.mustEnd(op, end.edit)
		e.wantHeard(op.Ref, end.what)
	}
	var refs []justonce.Ref
	for i := range 50 {
		op := other.newOp(fmt.Sprint("many", i))
		other.mustBegin(op)
		refs = append(refs, op.Ref)
	}
	for _, ref := range refs {
		e.wantHeard(ref, "recorded as one of many")
	}
	// What the listener itself writes does not stop the rest.
	l.mustBegin(l.newOp("own"))
	op := other.newOp("last")
	other.mustBegin(op)
	e.wantHeard(op.Ref, "recorded at last")
}

// listenHearsTheLast: a process that ends just after a change has told of it.
func listenHearsTheLast(l *ledger) {
	e, other := l.listening(), l.another()
	other.untilHeard(e, "first")
	op := other.newOp("last")
	other.mustBegin(op)
	other.mustClose()
	e.wantHeard(op.Ref, "recorded before Close")
}

func listenSurvives(l *ledger) {
	e, other := l.listening(), l.another()
	for i := range 2 {
		other.untilHeard(e, fmt.Sprint("round ", i, " "))
		l.suite.features.CutNews(l.t, l.Store)
	}
	other.untilHeard(e, "last")
}
