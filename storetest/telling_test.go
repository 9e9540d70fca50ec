package storetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// A fault is what is wrong with the news of a store.
type fault int

const (
	sound fault = iota
	silent
	silentOfEnds
	losesLast
	neverEnds
	endsInError
	deafAfterCut
)

// telling is a store that is a [justonce.Notifier]. Those with one hub stand for
// processes that share a ledger.
type telling struct {
	justonce.Store
	hub   *hub
	fault fault
	cut   chan struct{} // closed, and made anew, by a cut; guarded by the hub
	gone  bool          // closed; guarded by the hub
}

type hub struct {
	mu   sync.Mutex
	ears map[*telling]func(justonce.Ref)
}

func newTelling(s justonce.Store, f fault) *telling {
	return (&telling{Store: s, hub: &hub{ears: map[*telling]func(justonce.Ref){}}, fault: f}).another()
}

func (s *telling) another() *telling {
	return &telling{Store: s.Store, hub: s.hub, fault: s.fault, cut: make(chan struct{})}
}

func reopenTelling(_ *testing.T, s justonce.Store, _ func() time.Time) justonce.Store {
	return s.(*telling).another()
}

// cutNews returns when s no longer listens.
func cutNews(_ *testing.T, s justonce.Store) {
	t := s.(*telling)
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	delete(t.hub.ears, t)
	close(t.cut)
	t.cut = make(chan struct{})
}

func (s *telling) Listen(ctx context.Context, changed func(justonce.Ref)) error {
	s.hub.mu.Lock()
	s.hub.ears[s] = changed
	cut := s.cut
	s.hub.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-cut:
		if s.fault != deafAfterCut {
			return errors.New("cut")
		}
		<-ctx.Done()
	}
	switch s.fault {
	case neverEnds:
		select {}
	case endsInError:
		return ctx.Err()
	}
	return nil
}

func (s *telling) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	a, err := s.Store.Begin(ctx, op, first)
	if err == nil && a.Fresh {
		s.tell(op)
	}
	return a, err
}

func (s *telling) Update(ctx ctxT, op *opT, entries ...entryT) error {
	err := s.Store.Update(ctx, op, entries...)
	if err == nil && !(s.fault == silentOfEnds && op.State.Ended()) {
		s.tell(op)
	}
	return err
}

func (s *telling) Close() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.gone = true
	return s.Store.Close()
}

// tell tells the others of op.
func (s *telling) tell(op *opT) {
	ref := op.Ref
	switch s.fault {
	case silent:
	case losesLast:
		time.AfterFunc(time.Millisecond, func() { s.hub.tell(s, ref) })
	default:
		s.hub.tell(s, ref)
	}
}

func (h *hub) tell(from *telling, ref justonce.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from.gone {
		return
	}
	for s, changed := range h.ears {
		if s != from {
			changed(ref)
		}
	}
}
