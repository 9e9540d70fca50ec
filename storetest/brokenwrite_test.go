package storetest_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/justonce-dev/justonce"
)

type noVersions struct{ justonce.Store }

func (s noVersions) Update(ctx ctxT, op *opT, entries ...entryT) error {
	for {
		err := s.Store.Update(ctx, op, entries...)
		if !errors.Is(err, justonce.ErrStale) {
			return err
		}
		now, getErr := s.Get(ctx, op.Ref)
		if getErr != nil {
			return err
		}
		op.Version = now.Version
	}
}

type losesUpdates struct {
	justonce.Store
	n atomic.Int64
}

func (s *losesUpdates) Update(ctx ctxT, op *opT, entries ...entryT) error {
	if s.n.Add(1)%7 == 0 {
		op.Version++
		return nil
	}
	return s.Store.Update(ctx, op, entries...)
}

type resultOfRow struct{ justonce.Store }

func (s resultOfRow) Update(ctx ctxT, op *opT, entries ...entryT) error {
	if op.Result != nil {
		entries = append(entries, entryT{Kind: justonce.EntryAttempt, Body: op.Result, IsResult: true})
	}
	return s.Store.Update(ctx, op, entries...)
}

type notExclusive struct{ justonce.Store }

func (s notExclusive) Update(ctx ctxT, op *opT, entries ...entryT) error {
	err := s.Store.Update(ctx, op, entries...)
	if errors.Is(err, justonce.ErrReferenceTaken) {
		op.Exclusive = false
		err = s.Store.Update(ctx, op, entries...)
		op.Exclusive = true
	}
	return err
}

// lookThenUpdate is a store that asks for the reference before it writes.
type lookThenUpdate struct{ justonce.Store }

func (s lookThenUpdate) Update(ctx ctxT, op *opT, entries ...entryT) error {
	page, err := s.List(ctx, justonce.Filter{Tenant: op.Tenant, Tool: op.Tool, Reference: op.Reference})
	if err != nil {
		return err
	}
	for range 50 {
		runtime.Gosched()
	}
	if op.Reference == "" || len(page.Operations) == 0 {
		return notExclusive(s).Update(ctx, op, entries...)
	}
	return s.Store.Update(ctx, op, entries...)
}

type ignoresLeases struct{ justonce.Store }

func (s ignoresLeases) Claim(ctx ctxT, due justonce.Due, advance advanceT) ([]*opT, error) {
	claimed, err := s.Store.Claim(ctx, due, advance)
	if err != nil || len(claimed) == due.Limit {
		return claimed, err
	}
	page, err := s.List(ctx, justonce.Filter{Tenant: "acme", States: []justonce.State{justonce.Running}, Limit: due.Limit})
	if err != nil {
		return nil, err
	}
	for _, op := range page.Operations {
		if due.Ref != nil && *due.Ref != op.Ref || op.Due.IsZero() {
			continue
		}
		if op, err = s.Get(ctx, op.Ref); err != nil {
			return nil, err
		}
		entries, ok := advance(op, s.Now())
		if ok && s.Store.Update(ctx, op, entries...) == nil {
			claimed = append(claimed, op)
		}
	}
	return claimed, nil
}

// claimsWith changes what Claim is given.
type claimsWith struct {
	justonce.Store
	due    func(*justonce.Due)
	answer func([]entryT, bool) ([]entryT, bool)
}

func acceptAll(entries []entryT, ok bool) ([]entryT, bool)   { return entries, true }
func dropEntries(entries []entryT, ok bool) ([]entryT, bool) { return nil, ok }

func (s claimsWith) Claim(ctx ctxT, due justonce.Due, advance advanceT) ([]*opT, error) {
	if s.due != nil {
		s.due(&due)
	}
	return s.Store.Claim(ctx, due, func(op *opT, now time.Time) ([]entryT, bool) {
		entries, ok := advance(op, now)
		if s.answer != nil {
			return s.answer(entries, ok)
		}
		return entries, ok
	})
}
