package storetest_test

import (
	"errors"
	"runtime"

	"github.com/justonce-dev/justonce"
)

// lookThenBegin is a store without a unique key.
type lookThenBegin struct{ justonce.Store }

func (s lookThenBegin) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	_, err := s.Get(ctx, op.Ref)
	for range 50 {
		runtime.Gosched()
	}
	a, beginErr := s.Store.Begin(ctx, op, first)
	if errors.Is(err, justonce.ErrNotFound) && beginErr == nil && a.MatchedBy == justonce.MatchKey {
		a.Fresh, a.MatchedBy = true, ""
	}
	return a, beginErr
}

type forgetsOpen struct{ justonce.Store }

func (s forgetsOpen) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	a, err := s.Store.Begin(ctx, op, first)
	if err == nil && !a.Fresh && !a.Operation.DedupeUntil.IsZero() && !a.Operation.DedupeUntil.After(s.Now()) {
		a.Fresh, a.MatchedBy = true, ""
	}
	return a, err
}

type matchWithoutResult struct{ justonce.Store }

func (s matchWithoutResult) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	a, err := s.Store.Begin(ctx, op, first)
	if err == nil && !a.Fresh {
		a.Operation.Result = nil
	}
	return a, err
}

type noIdentity struct{ justonce.Store }

func (s noIdentity) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	identity := op.Identity
	op.Identity = ""
	a, err := s.Store.Begin(ctx, op, first)
	op.Identity = identity
	return a, err
}

type oneTenant struct{ justonce.Store }

func (s oneTenant) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	tenant := op.Tenant
	op.Tenant = "one"
	a, err := s.Store.Begin(ctx, op, first)
	op.Tenant = tenant
	if err == nil && !a.Fresh {
		a.Operation.Tenant = tenant
	}
	return a, err
}

func (s oneTenant) Get(ctx ctxT, ref justonce.Ref) (*opT, error) {
	op, err := s.Store.Get(ctx, justonce.Ref{Tenant: "one", Key: ref.Key})
	if err == nil {
		op.Tenant = ref.Tenant
	}
	return op, err
}

func (s oneTenant) History(ctx ctxT, ref justonce.Ref) ([]entryT, error) {
	return s.Store.History(ctx, justonce.Ref{Tenant: "one", Key: ref.Key})
}

type versionOfMatch struct{ justonce.Store }

func (s versionOfMatch) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	a, err := s.Store.Begin(ctx, op, first)
	if err == nil && !a.Fresh {
		op.Version = a.Operation.Version
	}
	return a, err
}

type acknowledgesCancelled struct{ justonce.Store }

func (s acknowledgesCancelled) Begin(ctx ctxT, op *opT, first entryT) (*justonce.Arrival, error) {
	if ctx.Err() != nil {
		return &justonce.Arrival{Operation: op, Fresh: true}, nil
	}
	return s.Store.Begin(ctx, op, first)
}
