package justonce

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// observedSuffix marks tenants whose operations were observed only.
const observedSuffix = "~observed"

// ObservedTenant returns the tenant in which the observed calls of tenant are
// recorded. It can be listed and read like any other, but not called.
func ObservedTenant(tenant string) string {
	if tenant == "" {
		tenant = DefaultTenant
	}
	return tenant + observedSuffix
}

// observed reports whether ref is of an operation that was observed only.
func (ref *Ref) observed() bool { return strings.HasSuffix(ref.Tenant, observedSuffix) }

const (
	// maxObserved is how many duplicates are recorded with one operation. Each is
	// one write to its row, so that Version bounds them.
	maxObserved = 1000
	// observeTime bounds what observing waits for the ledger: the call waits, too.
	observeTime = 2 * time.Second
	// observedPaths names the evidence that lists a conflict's paths.
	observedPaths = "paths"
)

// An Observation tells what would have become of a call. It is not safe for
// concurrent use.
type Observation struct {
	// Operation is the first one's, as it stood; nil where nothing is recorded:
	// refused calls and those of tools whose repetition is harmless.
	Operation *Operation
	// Would is CallExecuted for the first call of an intent, CallPassed for tools
	// whose repetition is harmless, and else what would have kept the call from
	// its effect: CallReplayed, CallJoined, CallConflict or CallRefused.
	Would     Decided
	MatchedBy Match // by what it met Operation
	// Paths and Differs tell of a conflict, as in [ConflictError].
	Paths, Differs []string
	// Refusal is why the call would have been refused; it is ErrInvalid.
	Refusal error

	runner  *Runner
	tool    *registered
	started time.Time
}

// Observe records what would become of a call, and holds nothing back: the
// caller executes it whatever is returned, and then calls Settle. It waits for
// the ledger until ctx ends, and at most two seconds.
//
// What is observed lives in a tenant of its own, see [ObservedTenant], and
// stands for its key as long as it would otherwise. justonce never sends it or
// looks it up: without Settle within the tool's timeout its outcome is unknown,
// and it ends in review.
//
// The error is ErrUnknownTool, ErrUnavailable, or ctx's; the call then goes on
// unrecorded.
func (r *Runner) Observe(ctx context.Context, c Call) (*Observation, error) {
	t := r.tool(c.Tool)
	if t == nil {
		return nil, unknownTool(c.Tool)
	}
	o, err := r.observe(ctx, t, &c)
	if err != nil {
		return nil, err
	}
	if r.observer.Observed != nil {
		r.observer.Observed(t.Name, o.Would)
	}
	return o, nil
}

func (r *Runner) observe(ctx context.Context, t *registered, c *Call) (*Observation, error) {
	if len(c.Arguments) == 0 {
		c.Arguments = emptyArguments
	}
	in, err := t.identify(ctx, c)
	if err == nil {
		err = t.validate(c)
	}
	if err != nil {
		return &Observation{Would: CallRefused, Refusal: err}, nil
	}
	if !t.recorded() {
		return &Observation{Would: CallPassed}, nil
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.underway.Done()
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	defer cancel()
	in.Tenant = ObservedTenant(in.Tenant)
	t = unsent(t)
	op := r.newOperation(t, c, in, true)
	arrival, err := r.store.Begin(ctx, op, r.arrived(op))
	if err != nil {
		return nil, unavailable(err)
	}
	o := &Observation{Operation: op, Would: CallExecuted, runner: r, tool: t, started: op.CreatedAt}
	if arrival.Fresh {
		return o, nil
	}
	o.Operation, o.MatchedBy = arrival.Operation, arrival.MatchedBy
	return o, o.met(ctx, c, in)
}

// met works out what a call that met an operation would have got, and records
// it there.
func (o *Observation) met(ctx context.Context, c *Call, in *Intent) error {
	r, op := o.runner, o.Operation
	o.Would = CallJoined
	if op.State.Ended() {
		o.Would = CallReplayed
	}
	if op.Fingerprint != in.Fingerprint {
		e := (*ConflictError)(nil)
		if err := r.conflict(ctx, o.tool, c, in, op, o.MatchedBy); errors.As(err, &e) {
			o.Would, o.Paths, o.Differs = CallConflict, e.Paths, e.Differs
		} else if err != nil {
			return err
		}
	}
	entry := Entry{Kind: EntryObserved, Fence: op.Fence, Actor: r.o.Worker, Note: string(o.Would)}
	if len(o.Paths) > 0 {
		list, _ := json.Marshal(o.Paths)
		entry.Evidence = map[string]string{observedPaths: string(list)}
	}
	for {
		if op.Version > maxObserved {
			r.log.Info("an observed call is counted, but not recorded: there are many", "tool", op.Tool, "key", op.Key, "would", o.Would)
			return nil
		}
		entry.At, entry.State = r.store.Now(), op.State
		err := r.store.Update(ctx, op, entry)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrStale):
			return unavailable(err)
		}
		if op, err = r.refetch(ctx, op); err != nil {
			return unavailable(err)
		}
		o.Operation = op
	}
}

// Settle records how the observed call ended; it does nothing unless it was the
// first. A call that was not executed or was withdrawn gives way to the next
// equal one, an accepted job counts as a success, and an unknown outcome ends in
// review. It is not cut short by ctx. ErrUnavailable.
func (o *Observation) Settle(ctx context.Context, out Outcome) error {
	if o.Would != CallExecuted {
		return nil
	}
	r, t, op := o.runner, o.tool, o.Operation
	if r.enter() == nil { // the ledger may be there even if not
		defer r.underway.Done()
	}
	switch out.Kind {
	case OutcomeNotExecuted: // and nobody here will execute it
		out.Kind = OutcomeWithdrawn
	case OutcomeAccepted: // and nobody here will ask how it ended
		out.Kind = OutcomeSucceeded
	}
	var rep report
	r.report(&rep, &out, op.Fence, o.started)
	rep.event.Jitter = r.o.Rand()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	var entry Entry
	for {
		next := r.apply(t, op, &rep, &entry)
		err := r.store.Update(ctx, next, entry)
		switch {
		case err == nil:
			o.Operation = next
			return nil
		case !errors.Is(err, ErrStale):
			return unavailable(err)
		}
		if op, err = r.refetch(ctx, op); err != nil {
			return unavailable(err)
		}
	}
}

// Delivered notes that an answer reached the caller: see [Runner.Delivered].
func (o *Observation) Delivered(ctx context.Context) error {
	if o.Operation == nil {
		return nil
	}
	return o.runner.Delivered(ctx, o.Operation)
}

// toolOf returns the tool by which op goes, or nil. Nothing is ever sent or
// looked up for what was observed only.
func (r *Runner) toolOf(op *Operation) *registered {
	t := r.tool(op.Tool)
	if t != nil && op.observed() {
		return unsent(t)
	}
	return t
}

// unsent returns t for operations that were observed only. Its lease is as long
// as an attempt may last, and nothing can be known afterwards.
func unsent(t *registered) *registered {
	c := *t.Tool
	c.Policy = Policy{Timeout: t.Policy.Timeout, Lease: t.Policy.Timeout}.WithDefaults()
	c.Connector = refuses{}
	return &registered{Tool: &c, budget: newBudget()}
}

// refuses is the connector of what was observed only. It is never reached.
type refuses struct{}

// Send implements [Connector].
func (refuses) Send(context.Context, *Attempt) Outcome {
	return Outcome{Kind: OutcomeWithdrawn, Failure: &Failure{Code: "observed", Message: "it was observed only"}}
}
