package justonce

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"time"
)

// writeTime bounds one try at writing to the ledger.
const writeTime = 20 * time.Second

// A writeContext ends between writeTime and a second more after it was handed
// out. All writes of a second share one: a timer for each would cost more than
// the rest of a call.
type writeContext struct {
	context.Context
	until time.Time
}

func (r *Runner) writeContext() context.Context {
	now := time.Now()
	if c := r.writes.Load(); c != nil && now.Before(c.until) {
		return c
	}
	// It ends by its deadline, or with r.base.
	ctx, cancel := context.WithTimeout(r.base, writeTime+time.Second)
	context.AfterFunc(ctx, cancel)
	c := &writeContext{ctx, now.Add(time.Second)}
	r.writes.Store(c)
	return c
}

// perform takes the step for which op was claimed and records what came of it.
// It returns once that is durable, or when the process gives up.
func (r *Runner) perform(ctx context.Context, t *registered, op *Operation, step Step) {
	switch step {
	case StepSend:
		r.performSend(ctx, t, op)
	case StepLookup:
		r.performLookup(ctx, t, op)
	}
}

// describe fills a from op.
func (a *Attempt) describe(op *Operation) {
	a.Ref, a.Tool, a.Scope, a.RunID = op.Ref, op.Tool, op.Scope, op.RunID
	a.Arguments, a.WireKey, a.Number = op.Arguments, op.WireKey, op.Attempts
	a.ID = op.WireKey + "/" + strconv.FormatInt(op.Fence, 10)
	a.FirstSent, a.UnknownAt = op.FirstSent, op.UnknownAt
	a.Reference, a.TraceParent = op.Reference, op.TraceParent
}

func (r *Runner) performSend(ctx context.Context, t *registered, op *Operation) {
	now := r.store.Now()
	// A process that was frozen must not send under a lease that ran out.
	left := op.LeaseUntil.Sub(now)
	if left <= 0 {
		r.giveBack(t, op, "the lease ran out before anything was sent")
		return
	}
	if t.Policy.renews() { // counted from the claim
		left += t.Policy.Timeout - t.Policy.Lease
	}
	during := newAttemptContext(ctx, op, min(t.Policy.Timeout, left))
	a := during.attempt
	fence, renewal := op.Fence, r.renew(during, t, op)
	start := r.observed()
	out := r.send(during, t, a)
	during.end()
	op = renewal.end(op)
	t.budget.sent(r.store.Now, out.Kind)
	if out.Kind != OutcomeSucceeded && out.Kind != OutcomeAccepted {
		r.log.Info("a send did not succeed", "tool", t.Name, "key", op.Key, "outcome", out.Kind, "failure", out.Failure, "attempt", a.Number)
	}
	if r.observer.Attempt != nil {
		r.observer.Attempt(t.Name, out.Kind, time.Since(start))
	}
	var rep report
	r.report(&rep, &out, fence, now)
	r.settle(t, op, &rep)
}

// giveBack releases what was claimed and not sent.
func (r *Runner) giveBack(t *registered, op *Operation, why string) {
	r.settle(t, op, &report{event: Event{Kind: EventReleased, Fence: op.Fence}, entry: Entry{Kind: EntryReleased, Note: why}})
}

// send calls the connector; a panic leaves the outcome unknown.
func (r *Runner) send(ctx context.Context, t *registered, a *Attempt) (out Outcome) {
	defer func() {
		if v := recover(); v != nil {
			r.log.Error("a tool panicked", "tool", t.Name, "key", a.Key, "panic", v, "stack", string(debug.Stack()))
			out = Outcome{Failure: &Failure{Code: "panic", Message: "the tool panicked"}}
		}
	}()
	return t.Connector.Send(ctx, a)
}

func (r *Runner) performLookup(ctx context.Context, t *registered, op *Operation) {
	asked := r.store.Now()
	during := newAttemptContext(ctx, op, t.Policy.Timeout)
	a := during.attempt
	defer during.end()
	fence, renewal := op.Fence, r.renew(during, t, op)
	start := time.Now()
	f := r.lookup(during, t, a)
	op = renewal.end(op)
	for range 3 {
		rep := &report{
			event: Event{Fence: fence, RetryAfter: f.RetryAfter, Reference: f.Reference, Asked: asked},
			entry: Entry{Kind: EntryLookup, Started: asked, Evidence: f.Evidence}, failure: f.Failure,
		}
		switch f.Kind {
		case FindingFound:
			r.choose(during, t, op, f.Matches, rep)
		case FindingAbsent:
			rep.event.Kind = EventAbsent
		case FindingFailed:
			rep.event.Kind = EventFoundFailed
		case FindingProgress:
			rep.event.Kind = EventProgress
			r.carry(rep, f.Result)
		default:
			rep.event.Kind = EventLookupFailed
		}
		rep.entry.Reference = rep.event.Reference
		kind := rep.event.Kind
		if !r.settle(t, op, rep) {
			continue // another operation took the reference meanwhile
		}
		if r.observer.Lookup != nil {
			r.observer.Lookup(t.Name, kind, time.Since(start))
		}
		return
	}
}

func (r *Runner) lookup(ctx context.Context, t *registered, a *Attempt) (f Finding) {
	finder, ok := t.Connector.(Finder)
	if !ok {
		return Finding{}
	}
	defer func() {
		if v := recover(); v != nil {
			r.log.Error("a lookup panicked", "tool", t.Name, "key", a.Key, "panic", v, "stack", string(debug.Stack()))
			f = Finding{Failure: &Failure{Code: "panic", Message: "the lookup panicked"}}
		}
	}()
	return finder.Lookup(ctx, a)
}

// choose finds the one match that no other operation holds.
func (r *Runner) choose(ctx context.Context, t *registered, op *Operation, matches []Found, rep *report) {
	if len(matches) == 0 { // found, but not what; it surely is not absent
		rep.event.Kind = EventLookupFailed
		rep.entry.Note = "the lookup found it without saying what it found"
		return
	}
	free := matches
	if t.byList() {
		free = nil
		for _, m := range matches {
			page, err := r.store.List(ctx, Filter{Tenant: op.Tenant, Tool: op.Tool, Reference: m.Reference, Limit: 2})
			if err != nil || m.Reference == "" {
				rep.event.Kind = EventLookupFailed
				rep.entry.Note = "the matches could not be compared with other operations'"
				return
			}
			if !slices.ContainsFunc(page.Operations, func(o *Operation) bool { return o.Ref != op.Ref }) {
				free = append(free, m)
			}
		}
	}
	switch len(free) {
	case 0:
		rep.event.Kind = EventAbsent
	case 1:
		rep.event.Kind = EventFound
		rep.event.Reference = free[0].Reference
		r.carry(rep, free[0].Result)
	default:
		rep.event.Kind = EventAmbiguous
	}
	if n := len(matches); n > 1 {
		rep.entry.Note = fmt.Sprintf("%d matches, %d of them held by no other operation", n, len(free))
	}
}

// byList reports whether references are found by matching fields.
func (t *Tool) byList() bool { return t.Policy.Capability == ByList || t.Policy.Fallback == ByList }
