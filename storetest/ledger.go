package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// A clock is moved by hand. It is safe for concurrent use.
type clock struct{ ns atomic.Int64 }

// epoch has nanoseconds, since stores must keep them.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func (c *clock) now() time.Time { return epoch.Add(time.Duration(c.ns.Load())) }
func (c *clock) advance(d time.Duration) time.Time {
	return epoch.Add(time.Duration(c.ns.Add(int64(d))))
}

// A ledger is a store under test with what the tests need around it. Its
// methods with must in their name end the test on an error.
type ledger struct {
	justonce.Store
	suite *suite
	t     *testing.T
	ctx   context.Context
	clock *clock
}

func (s *suite) ledger(t *testing.T) *ledger {
	c := new(clock)
	l := &ledger{suite: s, t: t, ctx: context.WithoutCancel(t.Context()), clock: c}
	l.use(s.open(t, c.now))
	return l
}

// use makes s the store under test and closes it after the test.
func (l *ledger) use(s justonce.Store) {
	l.Store = s
	l.t.Cleanup(func() {
		if l.Store == s {
			l.mustClose()
		}
	})
}

func (l *ledger) mustClose() {
	l.t.Helper()
	if l.Store == nil {
		return
	}
	if err := l.Store.Close(); err != nil {
		l.t.Errorf("Close: %v", err)
	}
	l.Store = nil
}

// newOp returns a pending operation that is due now and was created now, with
// a value in every field that arrival fills.
func (l *ledger) newOp(key string, edits ...func(*justonce.Operation)) *justonce.Operation {
	now := l.clock.now()
	op := &justonce.Operation{
		Ref:         justonce.Ref{Tenant: "acme", Key: key},
		KeySource:   justonce.KeyGiven,
		Scope:       "account-1",
		RunID:       "run-1",
		Tool:        "charge",
		IntentSeq:   1,
		Fingerprint: "fingerprint of " + key,
		Algorithm:   "v1",
		WireKey:     "0123456789abcdef0123456789abcdef",
		Status:      justonce.Status{State: justonce.Pending, Due: now},
		Arguments:   json.RawMessage(`{"amount": 9900, "key": "` + key + `"}`),
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		CreatedAt:   now,
		UpdatedAt:   now,
	}
	for _, edit := range edits {
		edit(op)
	}
	return op
}

// arrived returns the first entry of op's history.
func arrived(op *justonce.Operation) justonce.Entry {
	return justonce.Entry{
		Kind: justonce.EntryArrived, At: op.CreatedAt, State: op.State,
		Actor: "agent", Body: op.Arguments,
	}
}

// mustBegin records op, which must be new, and returns it as recorded.
func (l *ledger) mustBegin(op *justonce.Operation) *justonce.Operation {
	l.t.Helper()
	a := l.mustMeet(op)
	if !a.Fresh {
		l.t.Fatalf("Begin(%s): met %s by %s, want it to be fresh", op.Key, a.Operation.Key, a.MatchedBy)
	}
	return a.Operation
}

// mustMeet calls Begin. A fresh arrival gets the operation as it was recorded.
func (l *ledger) mustMeet(op *justonce.Operation) *justonce.Arrival {
	l.t.Helper()
	a, err := l.Begin(l.ctx, op, arrived(op))
	if err != nil {
		l.t.Fatalf("Begin(%s): %v", op.Key, err)
	}
	if a == nil || a.Fresh == (a.Operation != nil) {
		l.t.Fatalf("Begin(%s): a fresh arrival has no operation and another has one: %+v", op.Key, a)
	}
	if a.Fresh {
		a.Operation = recorded(op, 1)
	}
	return a
}

func (l *ledger) mustGet(ref justonce.Ref) *justonce.Operation {
	l.t.Helper()
	op, err := l.Get(l.ctx, ref)
	if err != nil {
		l.t.Fatalf("Get(%v): %v", ref, err)
	}
	return op
}

func (l *ledger) mustUpdate(op *justonce.Operation, entries ...justonce.Entry) {
	l.t.Helper()
	if err := l.Update(l.ctx, op, entries...); err != nil {
		l.t.Fatalf("Update(%s): %v", op.Key, err)
	}
}

func (l *ledger) mustHistory(ref justonce.Ref) []justonce.Entry {
	l.t.Helper()
	h, err := l.History(l.ctx, ref)
	if err != nil {
		l.t.Fatalf("History(%v): %v", ref, err)
	}
	return h
}

func (l *ledger) mustList(f justonce.Filter) *justonce.Page {
	l.t.Helper()
	p, err := l.List(l.ctx, f)
	if err != nil {
		l.t.Fatalf("List(%+v): %v", f, err)
	}
	return p
}

func (l *ledger) mustStats() *justonce.Stats {
	l.t.Helper()
	s, err := l.Stats(l.ctx)
	if err != nil {
		l.t.Fatalf("Stats: %v", err)
	}
	return s
}

func (l *ledger) mustPurge(before time.Time, limit int) int {
	l.t.Helper()
	n, err := l.Purge(l.ctx, before, limit)
	if err != nil {
		l.t.Fatalf("Purge: %v", err)
	}
	return n
}

// mustEnd records that op succeeded, with a result, and returns it as Get does.
func (l *ledger) mustEnd(op *justonce.Operation, edits ...func(*justonce.Operation)) *justonce.Operation {
	l.t.Helper()
	now := l.clock.now()
	op.Status = justonce.Status{State: justonce.Succeeded, Fence: op.Fence + 1, Attempts: 1, Reference: "ref of " + op.Key, Digest: "digest"}
	op.UpdatedAt = now
	for _, edit := range edits {
		edit(op)
	}
	e := justonce.Entry{
		Kind: justonce.EntryAttempt, At: now, Started: now.Add(-time.Second), Fence: op.Fence, State: op.State,
		Outcome: justonce.EventSucceeded, Reference: op.Reference, Body: resultOf(op.Key), IsResult: true,
	}
	l.mustUpdate(op, e)
	return l.mustGet(op.Ref)
}

// resultOf returns the result that mustEnd records.
func resultOf(key string) json.RawMessage {
	return json.RawMessage(`{ "receipt":  "` + key + `" }`)
}

// snapshot returns all that can be read of some operations.
func (l *ledger) snapshot(refs ...justonce.Ref) []record {
	l.t.Helper()
	var all []record
	for _, ref := range refs {
		all = append(all, record{l.mustGet(ref), l.mustHistory(ref)})
	}
	return all
}

type record struct {
	Operation *justonce.Operation
	History   []justonce.Entry
}

// wantErr reports an error that is not want.
func (l *ledger) wantErr(what string, err, want error) {
	l.t.Helper()
	if !errors.Is(err, want) {
		l.t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// want reports how got differs from want.
func (l *ledger) want(what string, got, want any) {
	l.t.Helper()
	if d := diff(got, want); d != "" {
		l.t.Errorf("%s differs:\n%s", what, d)
	}
}
