package justonce

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// A report is what is to be recorded of a step.
type report struct {
	event   Event
	entry   Entry
	failure *Failure
	result  json.RawMessage
	note    string
}

// report fills rep with what is to be recorded of a send that began at started.
func (r *Runner) report(rep *report, out *Outcome, fence int64, started time.Time) {
	rep.event.Kind, rep.event.Fence, rep.event.Reference = out.Kind.Event(), fence, out.Reference
	rep.event.RetryAfter, rep.event.Conclusive = out.RetryAfter, out.Conclusive
	rep.entry.Kind, rep.entry.Started = EntryAttempt, started
	rep.entry.Reference, rep.entry.Evidence = out.Reference, out.Evidence
	rep.failure, rep.note = out.Failure, out.Note
	switch out.Kind {
	case OutcomeSucceeded, OutcomeAccepted, OutcomeRejected:
		r.carry(rep, out.Result)
	}
}

// carry adds a result to the report, or its digest if it is too large.
func (r *Runner) carry(rep *report, result json.RawMessage) {
	result = asJSON(result)
	if result == nil {
		return
	}
	sum := sha256.Sum256(result)
	rep.event.Digest = hexString(&sum, fullDigest)
	if len(result) > r.o.ResultLimit {
		note := fmt.Sprintf("its result of %d bytes exceeds the limit of %d; only the SHA-256 %s was kept",
			len(result), r.o.ResultLimit, rep.event.Digest)
		if rep.note != "" {
			note = rep.note + "; " + note
		}
		rep.note = note
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
func (r *Runner) settle(t *registered, op *Operation, rep *report) bool {
	rep.event.Jitter = r.o.Rand()
	written := entries.Get().(*[1]Entry)
	defer func() {
		*written = [1]Entry{}
		entries.Put(written)
	}()
	from, unsure := op.State, false
	for try := 0; ; try++ {
		next := r.apply(t, op, rep, &written[0])
		err := r.store.Update(r.writeContext(), next, written[:]...)
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
		r.ledgerTrouble("an outcome could not be recorded; trying again", err, op, "outcome", rep.event.Kind, "reference", rep.event.Reference)
		if !r.pause(min(time.Second<<min(try, 4), 10*time.Second)) {
			return true
		}
	}
}

// entries are what settle writes; a store keeps none.
var entries = sync.Pool{New: func() any { return new([1]Entry) }}

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

func (r *Runner) ledgerTrouble(what string, err error, op *Operation, more ...any) {
	if r.observer.Ledger != nil {
		r.observer.Ledger(err)
	}
	r.log.Error(what, append([]any{"tool", op.Tool, "key", op.Key, "error", err}, more...)...)
}

// reload reads op anew, also where a later one has taken its key or identity.
func (r *Runner) reload(op *Operation) (*Operation, error) {
	ctx, cancel := context.WithTimeout(r.base, writeTime)
	defer cancel()
	return r.refetch(ctx, op)
}

// refetch is reload within ctx.
func (r *Runner) refetch(ctx context.Context, op *Operation) (*Operation, error) {
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

// apply runs the table and returns the row to write, and in entry what to write
// with it.
func (r *Runner) apply(t *registered, op *Operation, rep *report, entry *Entry) *Operation {
	now := r.store.Now()
	ev, result := &rep.event, rep.result
	*entry = rep.entry
	next := shallow(op)
	late := op.late(ev.Fence)
	r.transit(&next.Status, ev, t, now) // what is not allowed is kept as evidence only
	if late {
		entry.Kind = EntryLate
		if r.observer.Late != nil {
			r.observer.Late(t.Name, ev.Kind)
		}
	}
	next.UpdatedAt = now
	changed := next.State != op.State || !late
	entry.At, entry.Fence, entry.State, entry.Outcome, entry.Failure = now, ev.Fence, next.State, ev.Kind, rep.failure
	entry.Body = result
	if entry.Note == "" {
		entry.Note = rep.note
	}
	if changed && rep.failure != nil {
		next.Failure = rep.failure
	}
	switch {
	case next.State == Succeeded && op.State != Succeeded:
		if result == nil && op.Result != nil {
			result, entry.Body = noResult, noResult // a job's progress is not its result
		}
		entry.IsResult = result != nil
		next.Failure, next.Note = nil, rep.note
		next.Result = result
	case next.State == Running && next.Accepted && changed:
		entry.IsResult = result != nil
		next.Failure = nil
		if entry.IsResult {
			next.Result = result
		}
	case next.State == Failed && op.State != Failed:
		if next.Failure == nil {
			next.Failure = &Failure{Code: string(next.Reason)}
		}
		if ev.Kind == EventRejected && next.Digest != "" { // the provider's answer, or what is known of it
			if result == nil && op.Result != nil {
				result, entry.Body = noResult, noResult
			}
			entry.IsResult = result != nil
			next.Result, next.Note = result, rep.note
		}
	}
	next.Exclusive = t.byList() && next.Reference != "" && next.State == Succeeded
	t.keepFor(next, now)
	if ev.Kind == EventWithdrawn && next.State == Failed && op.State != Failed {
		next.Note, next.DedupeUntil = NoteWithdrawn, now // it gives way, whatever its key
	}
	return next
}

// keepFor sets how long an ended operation answers for its key. It counts from
// the end: after a week in review a retry still meets it.
func (t *Tool) keepFor(op *Operation, now time.Time) {
	switch {
	case !op.State.Ended():
		op.DedupeUntil = time.Time{}
	case op.outlived(now): // what gave way does not come back
	case op.KeySource.derived():
		op.DedupeUntil = now.Add(t.DedupeFor) // until_delivered: if nobody gets it
	}
}

// remember keeps a result in memory that was read since asked, unless any
// process may be told that it was delivered.
func (r *Runner) remember(op *Operation, asked moment) {
	if op.KeySource.derived() {
		if t := r.tool(op.Tool); t == nil || t.Dedupe == UntilDelivered {
			return
		}
	}
	r.cache.put(op, asked)
}

// publish tells this process of a durable change.
func (r *Runner) publish(op *Operation, from State) {
	r.observer.recorded(op, from)
	if op.State == Review && from != Review && !op.observed() {
		r.log.Warn("a person must decide", "tool", op.Tool, "key", op.Key, "incident", op.Incident)
	}
	if op.State == Failed && op.Reason == ReasonExhausted && from != Failed {
		r.log.Warn("given up without effect; redrive it once the cause is gone", "tool", op.Tool, "key", op.Key, "failure", op.Failure)
	}
	r.cache.drop(op.Ref)
	if f := r.flights.find(op.Ref); f != nil {
		f.publish(op)
	}
	if op.State.Open() && r.working.Load() > 0 {
		r.wakeAt(op.Due)
	}
}
