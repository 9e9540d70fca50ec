package justonce

import (
	"context"
	"errors"
	"time"
)

// A renewal keeps the lease of an operation while this process is at work on
// it. Nil is that of a lease which outlasts the attempt.
type renewal struct {
	op     *Operation // as last known; the loop's until done is closed
	fence  int64      // of the holder, whatever op says
	cancel context.CancelFunc
	done   chan struct{}
}

// renew keeps the lease of op until ctx is done, that is until the attempt's
// time is up, or until end. Nobody hears of a process that is frozen, dead or
// cut off from the ledger any more, and of an attempt that outstays its time;
// others take over then.
func (r *Runner) renew(ctx context.Context, t *registered, op *Operation) *renewal {
	if !t.Policy.renews() {
		return nil
	}
	n := &renewal{op: op, fence: op.Fence, done: make(chan struct{})}
	ctx, n.cancel = context.WithCancel(ctx)
	stop := context.AfterFunc(r.base, n.cancel) // ctx may outlive this Runner
	go func() {
		defer close(n.done)
		defer stop()
		r.renewing(ctx, t, n)
	}()
	return n
}

// end stops the renewal of op and returns it as last known, by now perhaps under
// another holder's fence. No write is under way afterwards.
func (n *renewal) end(op *Operation) *Operation {
	if n == nil {
		return op
	}
	n.cancel()
	<-n.done
	return n.op
}

// renewing writes a lease anew once a third of it is over, and tries again soon
// where that fails.
func (r *Runner) renewing(ctx context.Context, t *registered, n *renewal) {
	third := t.Policy.Lease / 3
	timer := time.NewTimer(n.op.LeaseUntil.Sub(r.store.Now()) - 2*third)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		switch held, err := r.renewOnce(ctx, t, n); {
		case err != nil && ctx.Err() == nil:
			r.ledgerTrouble("a lease could not be renewed; trying again", err, n.op)
			timer.Reset(third / 3)
		case err != nil:
			return
		case !held:
			r.log.Warn("a lease was lost while its attempt ran", "tool", t.Name, "key", n.op.Key, "fence", n.fence)
			return
		default:
			timer.Reset(third)
		}
	}
}

// renewOnce reports whether this process holds the lease. An error says that
// the ledger did not tell.
func (r *Runner) renewOnce(ctx context.Context, t *registered, n *renewal) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(t.Policy.Lease, writeTime))
	defer cancel()
	for {
		now := r.store.Now()
		next := shallow(n.op)
		_, err := r.transit(&next.Status, &Event{Kind: EventRenewed, Fence: n.fence}, t, now)
		if err != nil || next.Status == n.op.Status && n.op.late(n.fence) {
			return false, nil
		}
		next.UpdatedAt = now
		err = r.store.Update(ctx, next)
		if err == nil {
			n.op = next
			return true, nil
		}
		if !errors.Is(err, ErrStale) {
			return false, err
		}
		fresh, err := r.refetch(ctx, n.op) // such as its own renewal, whose answer was lost
		if err != nil {
			return false, err
		}
		fresh.Arguments = n.op.Arguments
		n.op = fresh
	}
}
