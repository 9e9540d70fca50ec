package justonce

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Get implements [Service].
func (r *Runner) Get(ctx context.Context, ref Ref) (*Answer, error) {
	ref = ref.withTenant()
	op, err := r.store.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &Answer{Operation: op, Replayed: op.State.Ended(), MatchedBy: MatchKey}, nil
}

// Wait implements [Service].
func (r *Runner) Wait(ctx context.Context, ref Ref) (*Answer, error) {
	ref = ref.withTenant()
	op, err := r.store.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	a := &Answer{Operation: op, Replayed: op.State.Ended(), MatchedBy: MatchKey}
	if !op.State.Open() || r.enter() != nil {
		return a, nil
	}
	defer r.underway.Done()
	f, _ := r.flights.join(op.Ref)
	defer r.flights.leave(f, 1, 0)
	f.publish(op)
	a.Joined = true
	a.Operation, err = r.watch(ctx, f, op)
	return a, err
}

func (ref Ref) withTenant() Ref {
	if ref.Tenant == "" {
		ref.Tenant = DefaultTenant
	}
	return ref
}

// List implements [Service].
func (r *Runner) List(ctx context.Context, f Filter) (*Page, error) {
	if f.Tenant == "" {
		f.Tenant = DefaultTenant
	}
	for _, s := range f.States {
		if !s.Valid() {
			return nil, &InvalidError{Field: "state", Detail: "want pending, running, unknown, review, succeeded or failed"}
		}
	}
	if f.Limit < 0 || f.Limit > 1000 {
		return nil, &InvalidError{Field: "limit", Detail: "want 1 to 1000"}
	}
	return r.store.List(ctx, f)
}

// History implements [Service].
func (r *Runner) History(ctx context.Context, ref Ref) ([]Entry, error) {
	return r.store.History(ctx, ref.withTenant())
}

// Stats returns a cheap summary of the ledger.
func (r *Runner) Stats(ctx context.Context) (*Stats, error) { return r.store.Stats(ctx) }

func (d *Decision) check() error {
	switch {
	case verdictEvents[d.Verdict] == "":
		return &InvalidError{Field: "verdict", Detail: "want happened, retry, cancel or redrive"}
	case d.Actor == "":
		return &InvalidError{Field: "actor", Detail: "say who decides"}
	case d.Reason == "":
		return &InvalidError{Field: "reason", Detail: "say why; it is kept in the history"}
	case d.Verdict != Happened && (d.Reference != "" || d.Result != nil):
		return &InvalidError{Field: "result", Detail: "a reference or result goes with the verdict happened only"}
	case d.Result != nil && !json.Valid(d.Result):
		return &InvalidError{Field: "result", Detail: "it must be JSON"}
	}
	return nil
}

// Decide implements [Service].
func (r *Runner) Decide(ctx context.Context, ref Ref, d Decision) (*Answer, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	ref = ref.withTenant()
	for {
		op, err := r.store.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		next, entry, err := r.decided(op, &d)
		if err != nil {
			return nil, err
		}
		switch err = r.store.Update(ctx, next, entry); {
		case err == nil:
			r.publish(next, op.State)
			return &Answer{Operation: next, MatchedBy: MatchKey}, nil
		case errors.Is(err, ErrReferenceTaken):
			return nil, &InvalidError{Field: "reference", Detail: "another operation of this tool holds it"}
		case !errors.Is(err, ErrStale):
			return nil, unavailable(err)
		}
	}
}

func (r *Runner) decided(op *Operation, d *Decision) (*Operation, Entry, error) {
	now := r.store.Now()
	t := r.toolOf(op)
	if t == nil {
		t = standIn(op)
	}
	if op.observed() && (d.Verdict == Retry || d.Verdict == Redrive) {
		return nil, Entry{}, &TransitionError{State: op.State, Event: verdictEvents[d.Verdict], Why: "it was observed only, and is never sent"}
	}
	purged := op.Note == NotePurged
	if purged && (d.Verdict == Retry || d.Verdict == Redrive) {
		return nil, Entry{}, &TransitionError{State: op.State, Event: verdictEvents[d.Verdict], Why: "its arguments are no longer kept"}
	}
	rep := report{event: Event{Kind: verdictEvents[d.Verdict], Reference: d.Reference}}
	r.carry(&rep, d.Result)
	next := shallow(op)
	if _, err := r.transit(&next.Status, &rep.event, t, now); err != nil {
		return nil, Entry{}, err
	}
	next.UpdatedAt = now
	next.Failure, next.Note = nil, rep.note
	if purged && rep.note == "" {
		next.Note = NotePurged
	}
	switch d.Verdict {
	case Happened:
		if rep.result == nil && op.Result != nil && op.Digest == "" {
			rep.result = noResult // a job's progress is not its result
		}
		if rep.result != nil {
			next.Result = rep.result
		}
	case Cancel:
		next.Failure = &Failure{Code: string(ReasonCancelled), Message: d.Reason}
	case Redrive:
		if op.Result != nil && op.Digest != "" {
			rep.result, next.Result = noResult, noResult // the answer to the former series
		}
		next.Series++
		next.WireKey = t.wireKey(next)
	}
	next.Exclusive = t.byList() && next.Reference != "" && next.State == Succeeded
	t.keepFor(next, now)
	return next, Entry{
		Kind: EntryDecision, At: now, Fence: next.Fence, State: next.State, Outcome: rep.event.Kind,
		Reference: d.Reference, Actor: d.Actor, Note: d.Reason, Body: rep.result, IsResult: rep.result != nil,
	}, nil
}

// standIn is what a decision needs of a tool that this process does not have:
// nobody has to declare tools to settle what a library left in review. What is
// to be sent waits for a process that has the tool.
func standIn(op *Operation) *registered {
	t := &Tool{Name: op.Tool, Dedupe: Strict, DedupeFor: 24 * time.Hour, Policy: Policy{}.WithDefaults()}
	if len(op.WireKey) != 32 {
		t.WireKey = WireKeyRaw
	}
	return &registered{Tool: t}
}

// Delivered notes that the result of op reached its caller. For a tool with
// Dedupe [UntilDelivered] the next equal call is then a new intent; for others,
// for given keys, before the end, and for an operation whose key a later one
// has taken, nothing changes. op is what Do or Wait answered.
func (r *Runner) Delivered(ctx context.Context, op *Operation) error {
	if op.Key == "" {
		return nil // not recorded
	}
	t := r.tool(op.Tool)
	if t == nil || t.Dedupe != UntilDelivered || !op.KeySource.derived() {
		return nil
	}
	ref := op.Ref.withTenant()
	for {
		now, err := r.store.Get(ctx, ref)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil // it gave way to one of the same identity under another key
		case err != nil:
			return err
		case !now.CreatedAt.Equal(op.CreatedAt) || !now.State.Ended() || now.outlived(r.store.Now()):
			return nil
		}
		now.DedupeUntil = r.store.Now()
		switch err = r.store.Update(ctx, now); {
		case err == nil:
			r.cache.drop(ref)
			return nil
		case !errors.Is(err, ErrStale):
			return unavailable(err)
		}
	}
}
