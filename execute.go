package justonce

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
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

func (r *Runner) attempt(op *Operation) *Attempt {
	return &Attempt{
		Ref: op.Ref, Tool: op.Tool, Scope: op.Scope, RunID: op.RunID,
		Arguments: op.Arguments, WireKey: op.WireKey, Number: op.Attempts,
		ID:        op.WireKey + "/" + strconv.FormatInt(op.Fence, 10),
		FirstSent: op.FirstSent, UnknownAt: op.UnknownAt,
		Reference: op.Reference, TraceParent: op.TraceParent,
	}
}

func (r *Runner) performSend(ctx context.Context, t *registered, op *Operation) {
	a := r.attempt(op)
	now := r.store.Now()
	// A process that was frozen must not send under a lease that ran out.
	left := min(t.Policy.Timeout, op.LeaseUntil.Sub(now))
	if left <= 0 {
		r.settle(t, op, report{event: Event{Kind: EventReleased, Fence: op.Fence},
			entry: Entry{Kind: EntryReleased, Note: "the lease ran out before anything was sent"}})
		return
	}
	ctx, cancel := context.WithTimeout(attemptContext(ctx, a), left)
	start := r.observed()
	out := r.send(ctx, t, a)
	cancel()
	t.budget.sent(r.store.Now(), out.Kind)
	if out.Kind != OutcomeSucceeded && out.Kind != OutcomeAccepted {
		r.log.Info("a send did not succeed", "tool", t.Name, "key", op.Key, "outcome", out.Kind, "failure", out.Failure, "attempt", op.Attempts)
	}
	if r.observer.Attempt != nil {
		r.observer.Attempt(t.Name, out.Kind, time.Since(start))
	}
	rep := report{
		event: Event{Kind: out.Kind.Event(), Fence: op.Fence, Reference: out.Reference,
			RetryAfter: out.RetryAfter, Conclusive: out.Conclusive},
		entry:   Entry{Kind: EntryAttempt, Started: now, Reference: out.Reference, Evidence: out.Evidence},
		failure: out.Failure,
	}
	if out.Kind == OutcomeSucceeded || out.Kind == OutcomeAccepted {
		r.carry(&rep, out.Result)
	}
	r.settle(t, op, rep)
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
	a := r.attempt(op)
	asked := r.store.Now()
	ctx, cancel := context.WithTimeout(attemptContext(ctx, a), t.Policy.Timeout)
	defer cancel()
	start := time.Now()
	f := r.lookup(ctx, t, a)
	for range 3 {
		rep := report{
			event: Event{Fence: op.Fence, RetryAfter: f.RetryAfter, Reference: f.Reference, Asked: asked},
			entry: Entry{Kind: EntryLookup, Started: asked, Evidence: f.Evidence}, failure: f.Failure,
		}
		switch f.Kind {
		case FindingFound:
			r.choose(ctx, t, op, f.Matches, &rep)
		case FindingAbsent:
			rep.event.Kind = EventAbsent
		case FindingFailed:
			rep.event.Kind = EventFoundFailed
		case FindingProgress:
			rep.event.Kind = EventProgress
			r.carry(&rep, f.Result)
		default:
			rep.event.Kind = EventLookupFailed
		}
		rep.entry.Reference = rep.event.Reference
		if !r.settle(t, op, rep) {
			continue // another operation took the reference meanwhile
		}
		if r.observer.Lookup != nil {
			r.observer.Lookup(t.Name, rep.event.Kind, time.Since(start))
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

// A report is what is to be recorded of a step.
type report struct {
	event   Event
	entry   Entry
	failure *Failure
	result  json.RawMessage
	note    string
}

// carry adds a result to the report, or its digest if it is too large.
func (r *Runner) carry(rep *report, result json.RawMessage) {
	result = asJSON(result)
	if result == nil {
		return
	}
	sum := sha256.Sum256(result)
	rep.event.Digest = hexString(&sum)
	if len(result) > r.o.ResultLimit {
		rep.note = fmt.Sprintf("its result of %d bytes exceeds the limit of %d; only the SHA-256 %s was kept",
			len(result), r.o.ResultLimit, rep.event.Digest)
		return
	}
	rep.result = result
}

// noResult takes the place of what was recorded before it was known that there
// is none.
var noResult = json.RawMessage("null")

// asJSON returns b without white space around it, or b as a JSON string if it is
// not JSON.
func asJSON(b json.RawMessage) json.RawMessage {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || json.Valid(b) {
		return b
	}
	s, _ := json.Marshal(string(b))
	return s
}

// settle records a report. It tries until the ledger took it or Shutdown gave
// up; a result that is not recorded is told to nobody. It returns false if
// another operation holds the reference that a lookup found.
func (r *Runner) settle(t *registered, op *Operation, rep report) bool {
	rep.event.Jitter = r.o.Rand()
	from, unsure := op.State, false
	for try := 0; ; try++ {
		next, entry := r.apply(t, op, rep)
		err := r.store.Update(r.writeContext(), next, entry)
		switch {
		case err == nil:
			if !next.State.Open() {
				next.Arguments = nil // they are in the history
			}
			if !unsure {
				from = op.State
			}
			r.publish(next, from)
			return true
		case errors.Is(err, ErrReferenceTaken):
			if rep.event.Kind == EventFound {
				return false
			}
			// The provider named one effect twice: a person looks at it.
			rep.entry.Note = "the provider's reference is held by another operation"
			rep.event.Kind, rep.event.Reference = EventContested, ""
			continue
		case errors.Is(err, ErrStale):
			fresh, err := r.reload(op)
			if err == nil {
				fresh.Arguments = op.Arguments
				op = fresh
				continue
			}
			if errors.Is(err, ErrNotFound) {
				return true
			}
		default:
			unsure = true // it may be recorded, and nobody was told
		}
		r.ledgerTrouble(err, op)
		if !r.pause(min(time.Second<<min(try, 4), 10*time.Second)) {
			return true
		}
	}
}

// pause waits and reports whether the process still goes on.
func (r *Runner) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.base.Done():
		return false
	}
}

func (r *Runner) ledgerTrouble(err error, op *Operation) {
	if r.observer.Ledger != nil {
		r.observer.Ledger(err)
	}
	r.log.Error("an outcome could not be recorded; trying again", "tool", op.Tool, "key", op.Key, "error", err)
}

// reload reads op anew, also where a later one has taken its key or identity.
func (r *Runner) reload(op *Operation) (*Operation, error) {
	ctx, cancel := context.WithTimeout(r.base, writeTime)
	defer cancel()
	fresh, err := r.store.Get(ctx, op.Ref)
	if errors.Is(err, ErrNotFound) || err == nil && !fresh.CreatedAt.Equal(op.CreatedAt) {
		return r.store.Get(ctx, op.archived())
	}
	return fresh, err
}

// archived names op once a later one has taken its key or identity. See
// [Store.Begin].
func (op *Operation) archived() Ref {
	return Ref{Tenant: op.Tenant, Key: op.Key + "~" + strconv.FormatInt(op.CreatedAt.UnixNano(), 10)}
}

func shallow(op *Operation) *Operation {
	c := *op
	return &c
}

// apply runs the table and returns the row and the entry to write.
func (r *Runner) apply(t *registered, op *Operation, rep report) (*Operation, Entry) {
	now := r.store.Now()
	ev, entry := rep.event, rep.entry
	next := shallow(op)
	late := op.late(ev.Fence)
	status, _, err := r.transition(op.Status, ev, t.Policy, now)
	if err == nil {
		next.Status = status
	}
	if late {
		entry.Kind = EntryLate
		if r.observer.Late != nil {
			r.observer.Late(t.Name, ev.Kind)
		}
	}
	next.UpdatedAt = now
	changed := next.State != op.State || !late
	entry.At, entry.Fence, entry.State, entry.Outcome, entry.Failure = now, ev.Fence, next.State, ev.Kind, rep.failure
	entry.Body = rep.result
	if entry.Note == "" {
		entry.Note = rep.note
	}
	if changed && rep.failure != nil {
		next.Failure = rep.failure
	}
	switch {
	case next.State == Succeeded && op.State != Succeeded:
		if rep.result == nil && op.Result != nil {
			rep.result, entry.Body = noResult, noResult // a job's progress is not its result
		}
		entry.IsResult = rep.result != nil
		next.Failure, next.Note = nil, rep.note
		next.Result = rep.result
	case next.State == Running && next.Accepted && changed:
		entry.IsResult = rep.result != nil
		next.Failure = nil
		if entry.IsResult {
			next.Result = rep.result
		}
	case next.State == Failed && next.Failure == nil:
		next.Failure = &Failure{Code: string(next.Reason)}
	}
	next.Exclusive = t.byList() && next.Reference != "" && next.State == Succeeded
	t.keepFor(next, now)
	return next, entry
}

// keepFor sets how long an ended operation answers for its key. It counts from
// the end: after a week in review a retry still meets it.
func (t *Tool) keepFor(op *Operation, now time.Time) {
	switch {
	case !op.State.Ended():
		op.DedupeUntil = time.Time{}
	case op.KeySource.derived() && t.Dedupe == Strict:
		op.DedupeUntil = now.Add(t.DedupeFor)
	}
}

// publish tells this process of a durable change.
func (r *Runner) publish(op *Operation, from State) {
	r.observer.recorded(op, from)
	if op.State == Review && from != Review {
		r.log.Warn("a person must decide", "tool", op.Tool, "key", op.Key, "incident", op.Incident)
	}
	if op.State == Failed && op.Reason == ReasonExhausted && from != Failed {
		r.log.Warn("given up without effect; redrive it once the cause is gone", "tool", op.Tool, "key", op.Key, "failure", op.Failure)
	}
	if op.State == Succeeded {
		r.cache.put(op)
	} else {
		r.cache.drop(op.Ref)
	}
	if f := r.flights.find(op.Ref); f != nil {
		f.publish(op)
	}
	if op.State.Open() && r.working.Load() > 0 {
		r.wakeAt(op.Due)
	}
}
