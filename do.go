package justonce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/justonce-dev/justonce/internal/canon"
)

// Do implements [Service]. Recording the call is not cut short by ctx; what is
// recorded is carried out even if ctx ends.
func (r *Runner) Do(ctx context.Context, c Call) (*Answer, error) {
	if r.observer.Call == nil {
		return r.do(ctx, &c)
	}
	start := time.Now()
	ans, err := r.do(ctx, &c)
	if r.tool(c.Tool) != nil {
		r.observer.Call(c.Tool, decided(ans, err), time.Since(start))
	}
	return ans, err
}

func decided(a *Answer, err error) Decided {
	switch {
	case errors.Is(err, ErrConflict):
		return CallConflict
	case err != nil:
		return CallRefused
	case a.Replayed:
		return CallReplayed
	case a.Joined:
		return CallJoined
	case a.Operation.Key == "":
		return CallPassed
	}
	return CallExecuted
}

func (r *Runner) do(ctx context.Context, c *Call) (*Answer, error) {
	t := r.tool(c.Tool)
	if t == nil {
		return nil, unknownTool(c.Tool)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(c.Arguments) == 0 {
		c.Arguments = emptyArguments
	}
	in := new(Intent) // on the stack
	if err := t.name(ctx, c, in); err != nil {
		return nil, err
	}
	if !t.recorded() {
		if err := t.validate(c); err != nil {
			return nil, err
		}
		return r.pass(ctx, t, c, in)
	}
	op, asked := r.cache.get(in.Ref, r.store.Now)
	if op != nil {
		return r.met(ctx, t, c, in, op, MatchKey, asked)
	}
	if g, ok := r.store.(Guesser); ok && g.MayHave(in.Ref) {
		op, err := r.store.Get(ctx, in.Ref)
		if err == nil && op.State.Ended() && op.Fingerprint == in.Fingerprint && !op.outlived(r.store.Now()) {
			return r.met(ctx, t, c, in, op, MatchKey, asked)
		}
	}
	if err := t.validate(c); err != nil {
		return nil, err
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.underway.Done()
	return r.arrive(ctx, t, c, in, asked)
}

// arrive lets one call at a time ask the ledger for an operation.
func (r *Runner) arrive(ctx context.Context, t *registered, c *Call, in *Intent, asked moment) (*Answer, error) {
	f, leader := r.flights.join(in.Ref)
	defer r.flights.leave(f, 1, 0)
	if !leader {
		return r.follow(ctx, f, t, c, in, asked)
	}
	return r.lead(ctx, f, t, c, in, asked)
}

func (t *Tool) validate(c *Call) error {
	if t.Validate == nil {
		return nil
	}
	if err := t.Validate(c.Arguments); err != nil {
		if errors.Is(err, ErrInvalid) {
			return err
		}
		return &InvalidError{Field: "arguments", Schema: true, Detail: err.Error()}
	}
	return nil
}

// lead records the call and, if it is new, executes it.
func (r *Runner) lead(ctx context.Context, f *flight, t *registered, c *Call, in *Intent, asked moment) (*Answer, error) {
	slot := false
	if c.NoWait {
		select {
		case r.slots <- struct{}{}:
			slot = true
		default: // Work takes it up
		}
	}
	op := r.newOperation(t, c, in, !c.NoWait || slot)
	arrival, err := r.store.Begin(r.writeContext(), op, r.arrived(op))
	if err != nil || !arrival.Fresh {
		if slot {
			<-r.slots
		}
		if err != nil {
			err = unavailable(err)
			f.fail(err)
			r.flights.drop(f)
			return nil, err
		}
		f.publish(arrival.Operation)
		return r.met(ctx, t, c, in, arrival.Operation, arrival.MatchedBy, asked)
	}
	r.observer.recorded(op, "")
	if op.State == Pending {
		f.publish(op)
		r.poke()
		return &Answer{Operation: op}, nil
	}
	f.mu.Lock()
	f.busy++
	f.driven = true
	f.mu.Unlock()
	f.publish(op)
	run := func() {
		r.perform(context.WithoutCancel(ctx), t, op, StepSend)
		r.flights.leave(f, 0, 1)
		if slot {
			<-r.slots
		}
		r.drive(f)
	}
	if ctx.Done() == nil && !c.NoWait {
		run()
	} else {
		r.underway.Add(1)
		go func() {
			defer r.underway.Done()
			growStack()
			run()
		}()
	}
	if c.NoWait {
		return &Answer{Operation: op}, nil
	}
	last, err := r.watch(ctx, f, op) // run still needs op
	if err != nil {
		return nil, err
	}
	return &Answer{Operation: last}, nil
}

// follow waits for what another caller of this process has under way.
func (r *Runner) follow(ctx context.Context, f *flight, t *registered, c *Call, in *Intent, asked moment) (*Answer, error) {
	for {
		v := f.look()
		if v.err != nil {
			return nil, v.err
		}
		if op := v.op; op != nil {
			match := MatchKey
			if op.Ref != in.Ref {
				if op.Identity != in.Identity {
					return r.arrive(ctx, t, c, in, asked) // met by the other call only
				}
				match = MatchIdentity
			}
			return r.met(ctx, t, c, in, op, match, asked)
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("the ledger has not answered yet: %w", ctx.Err())
		}
	}
}

// met answers a call that met an operation which was there when the call asked,
// or later.
func (r *Runner) met(ctx context.Context, t *registered, c *Call, in *Intent, op *Operation, by Match, asked moment) (*Answer, error) {
	if op.Fingerprint != in.Fingerprint {
		if err := r.conflict(ctx, t, c, in, op, by); err != nil {
			return nil, err
		}
	}
	a := &Answer{Operation: op, MatchedBy: by}
	if !op.State.Open() {
		a.Replayed = op.State.Ended()
		a.Joined = !a.Replayed
		if op.Ref == in.Ref {
			r.remember(op, asked)
		}
		return a, nil
	}
	a.Joined = true
	if c.NoWait {
		return a, nil
	}
	f, _ := r.flights.join(op.Ref)
	defer r.flights.leave(f, 1, 0)
	f.publish(op)
	var err error
	a.Operation, err = r.watch(ctx, f, op)
	return a, err
}

// conflict returns a *ConflictError unless the recorded arguments, read by the
// rules of today, are the call's after all.
func (r *Runner) conflict(ctx context.Context, t *registered, c *Call, in *Intent, op *Operation, by Match) error {
	e := &ConflictError{Operation: op, MatchedBy: by}
	if op.Tool != t.Name {
		e.Differs = append(e.Differs, "tool")
	}
	if op.Scope != in.Scope {
		e.Differs = append(e.Differs, "scope")
	}
	if op.Tool != t.Name {
		return e
	}
	history, err := r.store.History(ctx, op.Ref)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return unavailable(err)
	}
	i := slices.IndexFunc(history, func(e Entry) bool { return e.Kind == EntryArrived })
	if i < 0 || len(history[i].Body) == 0 {
		return e
	}
	if e.Paths, err = canon.Diff(history[i].Body, c.Arguments, t.canon); err == nil && len(e.Paths) == 0 && len(e.Differs) == 0 {
		return nil
	}
	return e
}

// newOperation returns the row of a new call; leased to this process if run.
func (r *Runner) newOperation(t *registered, c *Call, in *Intent, run bool) *Operation {
	now := r.store.Now()
	op := new(Operation)
	op.Ref, op.KeySource = in.Ref, in.KeySource
	op.Scope, op.RunID, op.Tool, op.IntentSeq = in.Scope, in.RunID, t.Name, in.IntentSeq
	op.Identity, op.Fingerprint, op.Algorithm = in.Identity, in.Fingerprint, Algorithm
	op.Arguments, op.TraceParent = slices.Clone(c.Arguments), c.TraceParent
	op.CreatedAt, op.UpdatedAt = now, now
	op.State, op.Due = Pending, now
	op.WireKey = t.wireKey(op)
	if run {
		r.transit(&op.Status, &Event{Kind: EventClaimed}, t, now)
	}
	return op
}

// arrived is the first entry of op.
func (r *Runner) arrived(op *Operation) Entry {
	return Entry{Kind: EntryArrived, At: op.CreatedAt, State: op.State, Fence: op.Fence, Actor: r.o.Worker, Body: op.Arguments}
}

// pass runs a tool whose repetition is harmless.
func (r *Runner) pass(ctx context.Context, t *registered, c *Call, in *Intent) (*Answer, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.underway.Done()
	a := &Attempt{Ref: Ref{Tenant: in.Tenant}, Tool: t.Name, Scope: in.Scope, RunID: in.RunID,
		Arguments: c.Arguments, Number: 1, TraceParent: c.TraceParent,
		WireKey: t.wireKey(&Operation{Ref: in.Ref, KeySource: in.KeySource, CreatedAt: r.store.Now()})}
	ctx, cancel := context.WithTimeout(&attempting{ctx, a}, t.Policy.Timeout)
	defer cancel()
	out := r.send(ctx, t, a)
	op := &Operation{Ref: a.Ref, Tool: t.Name, Scope: in.Scope, RunID: in.RunID, IntentSeq: in.IntentSeq,
		Fingerprint: in.Fingerprint, Algorithm: Algorithm, Result: asJSON(out.Result), Failure: out.Failure}
	op.Attempts, op.Reference = 1, out.Reference
	op.CreatedAt = r.store.Now()
	op.UpdatedAt = op.CreatedAt
	switch out.Kind {
	case OutcomeSucceeded, OutcomeAccepted:
		op.State, op.Failure, op.Note = Succeeded, nil, out.Note
	case OutcomeRejected:
		op.State, op.Reason = Failed, ReasonRejected
	case OutcomeWithdrawn:
		op.State, op.Reason, op.Note = Failed, ReasonCancelled, NoteWithdrawn
	default:
		op.State = Unknown
	}
	return &Answer{Operation: op}, nil
}
