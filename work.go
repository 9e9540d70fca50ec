package justonce

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Work claims what is due and carries it out: calls that nobody waits for,
// retries, lookups, and what a dead process left behind. It returns nil when
// ctx is done and everything that it started has ended. Any number of Works may
// run on one ledger. A failing ledger is logged, counted and tried again.
func (r *Runner) Work(ctx context.Context) error {
	r.working.Add(1)
	defer r.working.Add(-1)
	defer r.listen()()
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, r.o.Concurrency)
	timer := time.NewTimer(0)
	defer timer.Stop()
	heard, looked := r.news.due, time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-r.wake:
		case <-heard:
			heard = nil
			timer.Reset(min(newsEvery, r.o.Poll) - time.Since(looked))
			continue
		}
		heard, looked = r.news.due, time.Now()
		for ctx.Err() == nil {
			limit := cap(slots) - len(slots)
			if limit == 0 {
				break // an end pokes
			}
			limit = min(limit, 100)
			claims, err := r.claim(ctx, Due{Tools: r.toolNames(), Limit: limit})
			if err != nil {
				if ctx.Err() == nil {
					r.log.Error("nothing could be claimed; trying again", "error", err)
					if r.observer.Ledger != nil {
						r.observer.Ledger(err)
					}
				}
				break
			}
			for _, c := range claims {
				if c.step == StepNone {
					continue
				}
				slots <- struct{}{}
				running.Add(1)
				go func() {
					defer running.Done()
					r.carryOut(c)
					if len(slots) == cap(slots) {
						defer r.poke()
					}
					<-slots
				}()
			}
			if len(claims) < limit {
				break
			}
		}
		timer.Reset(r.o.Poll)
	}
}

// wakeAt wakes Work when something is due before it would look by itself.
func (r *Runner) wakeAt(due time.Time) {
	if wait := due.Sub(r.store.Now()); due.IsZero() || wait > r.o.Poll {
		return
	} else if wait <= 0 {
		r.poke()
	} else {
		time.AfterFunc(wait, r.poke)
	}
}

type claimed struct {
	op   *Operation
	step Step
}

// claim leases what is due and tells this process of what changed.
func (r *Runner) claim(ctx context.Context, due Due) ([]claimed, error) {
	type move struct {
		step Step
		from State
	}
	moves := make(map[Ref]move)
	ops, err := r.store.Claim(ctx, due, func(op *Operation, now time.Time) ([]Entry, bool) {
		from := op.State
		step, entries, ok := r.advance(op, now)
		moves[op.Ref] = move{step, from}
		return entries, ok
	})
	if err != nil {
		return nil, err
	}
	claims := make([]claimed, len(ops))
	for i, op := range ops {
		m := moves[op.Ref]
		claims[i] = claimed{op, m.step}
		r.publish(op, m.from)
	}
	return claims, nil
}

// advance is what a claim does to an operation that is due.
func (r *Runner) advance(op *Operation, now time.Time) (Step, []Entry, bool) {
	t := r.toolOf(op)
	if t == nil {
		return StepNone, nil, false
	}
	var entries []Entry
	note := func(kind EntryKind, text string) {
		entries = append(entries, Entry{Kind: kind, At: now, Fence: op.Fence, State: op.State, Actor: r.o.Worker, Note: text})
	}
	jitter := r.o.Rand()
	op.UpdatedAt = now
	if op.State == Running && !op.Accepted {
		if r.justWoke(t.Policy.Lease) {
			return StepNone, nil, false // its holder may be waking up, too
		}
		if _, err := r.transit(&op.Status, &Event{Kind: EventLeaseExpired, Jitter: jitter}, t, now); err != nil {
			return StepNone, nil, false
		}
		op.Failure = &Failure{Code: "lease_expired", Message: "the process that sent it was not heard of again"}
		note(EntryExpired, "")
		if !op.IsDue(now) {
			return StepNone, entries, true
		}
	}
	before := op.Status
	step, err := r.transit(&op.Status, &Event{Kind: EventClaimed}, t, now)
	if err != nil {
		return StepNone, entries, len(entries) > 0
	}
	if step == StepSend && before.Attempts > 0 && !t.budget.allow(now) {
		op.Status = before
		r.transit(&op.Status, &Event{Kind: EventDeferred, Jitter: jitter}, t, now)
		return StepNone, entries, true
	}
	if op.State == Failed {
		if op.Failure == nil {
			op.Failure = &Failure{Code: string(op.Reason)}
		}
		t.keepFor(op, now)
	}
	note(EntryClaimed, string(step))
	return step, entries, true
}

// carryOut performs a claimed step, so that Shutdown and joiners know of it.
func (r *Runner) carryOut(c claimed) {
	t := r.toolOf(c.op)
	if err := r.enter(); err != nil {
		r.giveBack(t, c.op, "shutting down")
		return
	}
	defer r.underway.Done()
	f, _ := r.flights.join(c.op.Ref)
	f.publish(c.op)
	f.add(0, 1)
	defer r.flights.leave(f, 1, 1)
	r.perform(r.base, t, c.op, c.step)
}

// watch waits for the end of an open operation, and moves it on while waiting:
// what is due is claimed, what another process does is polled.
func (r *Runner) watch(ctx context.Context, f *flight, op *Operation) (*Operation, error) {
	for {
		v := f.look()
		if v.op != nil {
			op = v.op
		}
		stop := r.until(v.busy)
		switch {
		case v.settled:
			return op, v.err
		case ended(stop):
			return op, nil
		case !f.steer():
		case ctx.Done() == nil:
			r.drive(f)
			continue
		default:
			r.underway.Add(1)
			go func() {
				defer r.underway.Done()
				r.drive(f)
			}()
		}
		select {
		case <-v.changed:
		case <-stop: // and what has ended meanwhile counts
		case <-ctx.Done():
			return op, nil
		}
	}
}

// until returns when waiting for an operation makes no sense any more: what is
// under way ends during Shutdown, but nothing is begun.
func (r *Runner) until(busy bool) <-chan struct{} {
	if busy {
		return r.base.Done()
	}
	return r.closing
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// drive moves an operation on until it is settled for callers or nobody waits.
func (r *Runner) drive(f *flight) {
	poll := 5 * time.Millisecond
	var timer *time.Timer // seldom needed
	for {
		f.mu.Lock()
		v := f.view()
		stop := r.until(v.busy)
		if v.settled || f.waiters == 0 || ended(stop) {
			f.driven = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		op := v.op
		var tick <-chan time.Time
		if !v.busy && op != nil {
			r.news.waiting.Do(func() { r.listen() }) // until Shutdown
			wait := poll
			if until := op.Due.Sub(r.store.Now()); !op.Due.IsZero() && until > 0 {
				wait = min(wait, until)
			}
			if timer == nil {
				timer = time.NewTimer(wait)
				defer timer.Stop()
			}
			timer.Reset(wait)
			tick = timer.C
		}
		select {
		case <-v.changed:
			continue
		case <-stop:
			continue
		case <-tick:
		}
		if fresh, err := r.reload(op); err == nil {
			f.publish(fresh)
			op = fresh
		} else if errors.Is(err, ErrNotFound) || errors.Is(err, ErrLedgerGone) {
			f.fail(err)
			continue
		}
		poll = min(poll+poll/2, r.o.Poll)
		if !op.IsDue(r.store.Now()) {
			continue
		}
		claims, err := r.claim(r.base, Due{Ref: &f.ref, Limit: 1})
		if err != nil {
			continue
		}
		for _, c := range claims {
			r.carryOut(c)
			poll = 5 * time.Millisecond
		}
	}
}
