package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

// Random histories: after each step the store answers like the reference
// model.
func (s *suite) model(t *testing.T) {
	s.random(t, "Walk", 4, func(l *ledger, rng *rand.Rand) {
		w := &walk{l: l, rng: rng, model: inmem.New(&inmem.Options{Now: l.clock.now})}
		for range 200 {
			w.step()
		}
		w.compareAll()
	})
}

// A walk does the same to a store and to the model. Where the specification
// leaves a choice it does not go: no two operations are created or due at the
// same time, and tombstones are not updated.
type walk struct {
	l     *ledger
	rng   *rand.Rand
	model *inmem.Store
	ns    int64 // makes times unique
	trace []string
}

var walkTenants = []string{"acme", "globex"}

func (w *walk) step() {
	w.l.t.Helper()
	w.l.clock.advance(time.Duration(1+w.rng.IntN(60_000)) * time.Millisecond)
	switch n := w.rng.IntN(100); {
	case n < 33:
		w.begin()
	case n < 63:
		w.update()
	case n < 80:
		w.claim()
	case n < 88:
		w.list()
	case n < 94:
		w.purge()
	case n < 97 && w.l.suite.features.Durable:
		w.tracef("reopen")
		w.l.reopen()
		w.compareAll()
	default:
		w.compareAll()
	}
}

func (w *walk) tracef(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%v ", w.l.clock.now().Sub(epoch))+fmt.Sprintf(format, args...))
}

// same ends the test unless the store did as the model.
func (w *walk) same(what string, got, want any, gotErr, wantErr error) {
	w.l.t.Helper()
	d := diff(got, want)
	if verdict(gotErr) != verdict(wantErr) {
		d = fmt.Sprintf("\terror: got %v, want %v\n%s", gotErr, wantErr, d)
	}
	if d != "" {
		w.l.t.Fatalf("%s is not as the model's:\n%s\nafter\n\t%s", what, d, strings.Join(w.trace, "\n\t"))
	}
}

// verdict returns what callers branch on.
func verdict(err error) error {
	for _, v := range []error{
		nil, justonce.ErrNotFound, justonce.ErrStale, justonce.ErrReferenceTaken, justonce.ErrInvalid,
	} {
		if errors.Is(err, v) {
			return v
		}
	}
	return err
}

// at returns a time around now that no other call returns.
func (w *walk) at(from, to time.Duration) time.Time {
	w.ns++
	d := from + time.Duration(w.rng.Int64N(int64(to-from)))
	return w.l.clock.now().Add(d.Truncate(time.Millisecond) + time.Duration(w.ns))
}

func (w *walk) maybeAt(from, to time.Duration) time.Time {
	if w.rng.IntN(3) == 0 {
		return time.Time{}
	}
	return w.at(from, to)
}

func (w *walk) begin() {
	l, rng := w.l, w.rng
	op := l.newOp(oneOf(rng, "a", "b", "c", "d", "e", "a~1"), func(op *justonce.Operation) {
		op.Tenant = oneOf(rng, walkTenants...)
		op.Identity = oneOf(rng, "", "i1", "i2", "i3", "i4")
		op.Tool = oneOf(rng, "charge", "mail")
		op.Scope = oneOf(rng, "", "s1", "s2")
		op.RunID = oneOf(rng, "", "r1")
		op.Fingerprint = fmt.Sprint(rng.IntN(100))
		op.Due = w.maybeAt(-time.Minute, time.Minute)
		op.DedupeUntil = w.maybeAt(-time.Minute, 10*time.Minute)
	})
	w.tracef("begin %v identity=%q", op.Ref, op.Identity)
	mine := *op
	got, err := l.Begin(l.ctx, op, arrived(op))
	want, wantErr := w.model.Begin(l.ctx, &mine, arrived(&mine))
	w.same("Begin", got, want, err, wantErr)
	w.same("the version of the operation given to Begin", op.Version, mine.Version, nil, nil)
	w.compare(op.Ref)
	if !want.Fresh {
		w.compare(want.Operation.Ref)
	}
}

// refs returns what the model holds.
func (w *walk) refs() []justonce.Ref {
	var refs []justonce.Ref
	for _, tenant := range walkTenants {
		page, err := w.model.List(w.l.ctx, justonce.Filter{Tenant: tenant, Limit: 1000})
		if err != nil {
			w.l.t.Fatal(err)
		}
		for _, op := range page.Operations {
			refs = append(refs, op.Ref)
		}
	}
	return refs
}

// any returns an operation of the model, or nil.
func (w *walk) any() *justonce.Operation {
	refs := w.refs()
	if len(refs) == 0 {
		return nil
	}
	op, err := w.model.Get(w.l.ctx, oneOf(w.rng, refs...))
	if err != nil {
		w.l.t.Fatal(err)
	}
	return op
}

func (w *walk) update() {
	l, rng := w.l, w.rng
	op := w.any()
	if op == nil || op.Note == justonce.NotePurged {
		return
	}
	op.State = oneOf(rng, justonce.States()...)
	op.Reference = oneOf(rng, "", "ref1", "ref2", "ref3")
	op.Exclusive = rng.IntN(2) == 0
	op.Due = w.maybeAt(-time.Minute, 5*time.Minute)
	op.LeaseUntil = oneOf(rng, time.Time{}, op.Due)
	op.DedupeUntil = w.maybeAt(-time.Minute, 10*time.Minute)
	op.UpdatedAt = l.clock.now()
	op.Fence += int64(rng.IntN(3))
	op.Note = oneOf(rng, "", "note")
	op.Failure = oneOf(rng, nil, &justonce.Failure{Code: "code", Message: "message"})
	if rng.IntN(8) == 0 {
		op.Version += oneOf[int64](rng, -1, 1)
		op.Exclusive = false
	}
	var entries []justonce.Entry
	for range rng.IntN(4) {
		e := fullEntry(l.clock.now())
		e.Note = fmt.Sprint(rng.IntN(1000))
		e.Body = []byte(oneOf(rng, "", "1", `{"a": 2}`))
		e.IsResult = rng.IntN(2) == 0
		entries = append(entries, e)
	}
	w.tracef("update %v version=%d to %s reference=%q exclusive=%v, %d entries", op.Ref, op.Version, op.State, op.Reference, op.Exclusive, len(entries))
	mine := *op
	err := l.Update(l.ctx, op, entries...)
	wantErr := w.model.Update(l.ctx, &mine, entries...)
	w.same("Update", op.Version, mine.Version, err, wantErr)
	w.compare(op.Ref)
}

func (w *walk) claim() {
	l, rng := w.l, w.rng
	due := justonce.Due{Limit: 1 + rng.IntN(4)}
	if rng.IntN(3) == 0 {
		due.Tools = oneOf(rng, []string{"charge"}, []string{"mail", "other"}, []string{"other"})
	}
	if op := w.any(); op != nil && rng.IntN(4) == 0 {
		due.Ref = &op.Ref
	}
	w.ns += 10
	base := l.clock.now().Add(lease + time.Duration(w.ns))
	advance := func(given *[]string) advance {
		return func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
			*given = append(*given, op.Key)
			entries, _ := take(op, now)
			op.LeaseUntil = base.Add(-time.Duration(len(*given)))
			op.Due = op.LeaseUntil
			return entries, (len(op.Key)+len(*given))%4 != 0
		}
	}
	var given, wantGiven []string
	got, err := l.Claim(l.ctx, due, advance(&given))
	want, wantErr := w.model.Claim(l.ctx, due, advance(&wantGiven))
	w.tracef("claim ref=%v tools=%v limit=%d: %v", due.Ref, due.Tools, due.Limit, keysOf(want))
	w.same("the operations given to advance", given, wantGiven, nil, nil)
	w.same("Claim", got, want, err, wantErr)
	for _, op := range want {
		w.compare(op.Ref)
	}
}

func (w *walk) list() {
	rng := w.rng
	f := justonce.Filter{
		Tenant:    oneOf(rng, walkTenants...),
		Tool:      oneOf(rng, "", "", "charge", "mail"),
		Scope:     oneOf(rng, "", "", "s1"),
		RunID:     oneOf(rng, "", "", "r1"),
		Reference: oneOf(rng, "", "", "", "ref1"),
		Limit:     1 + rng.IntN(5),
	}
	for range rng.IntN(3) {
		f.States = append(f.States, oneOf(rng, justonce.States()...))
	}
	if rng.IntN(3) == 0 {
		f.Since = w.at(-time.Hour, 0)
	}
	if rng.IntN(3) == 0 {
		f.Until = w.at(-time.Hour, 0)
	}
	w.tracef("list %+v", f)
	mine := f
	for {
		got, err := w.l.List(w.l.ctx, f)
		want, wantErr := w.model.List(w.l.ctx, mine)
		w.same("List", err == nil, wantErr == nil, err, wantErr)
		w.same("the page", got.Operations, want.Operations, nil, nil)
		w.same("that there is a next page", got.Next != "", want.Next != "", nil, nil)
		if want.Next == "" {
			return
		}
		f.Cursor, mine.Cursor = got.Next, want.Next
	}
}

func (w *walk) purge() {
	before := w.at(-20*time.Minute, time.Minute)
	got, err := w.l.Purge(w.l.ctx, before, 1000)
	want, wantErr := w.model.Purge(w.l.ctx, before, 1000)
	w.tracef("purge %v: %d", before.Sub(epoch), want)
	w.same("Purge", got, want, err, wantErr)
	w.compareAll()
}

// compare compares what can be read of one operation.
func (w *walk) compare(ref justonce.Ref) {
	w.l.t.Helper()
	got, err := w.l.Get(w.l.ctx, ref)
	want, wantErr := w.model.Get(w.l.ctx, ref)
	if err == nil && want != nil && want.Note == justonce.NotePurged {
		got.Failure, want.Failure = nil, nil // up to the store
	}
	w.same(fmt.Sprint("Get of ", ref), got, want, err, wantErr)
	history, err := w.l.History(w.l.ctx, ref)
	wantHistory, wantErr := w.model.History(w.l.ctx, ref)
	w.same(fmt.Sprint("History of ", ref), history, wantHistory, err, wantErr)
}

// compareAll compares everything.
func (w *walk) compareAll() {
	w.l.t.Helper()
	for _, ref := range w.refs() {
		w.compare(ref)
	}
	got, err := w.l.Stats(w.l.ctx)
	want, wantErr := w.model.Stats(w.l.ctx)
	w.same("Stats", err == nil, wantErr == nil, err, wantErr)
	for _, state := range justonce.States() {
		w.same("the count of "+string(state), got.Count[state], want.Count[state], nil, nil)
		w.same("the oldest of "+string(state), got.Oldest[state], want.Oldest[state], nil, nil)
	}
	w.same("the lag", got.Lag, want.Lag, nil, nil)
}
