package justonce

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// newsEvery is how often news alone makes Work look for what is due: a look
	// costs a query, and most news is of operations that have ended.
	newsEvery = 50 * time.Millisecond
	// listenAgain is how long to wait before listening again after a failure; it
	// doubles up to listenAgainCap.
	listenAgain    = 100 * time.Millisecond
	listenAgainCap = 30 * time.Second
)

// news is what a Runner hears of other processes, while Work runs or from the
// first call on that waits for one of them.
type news struct {
	notifier Notifier      // nil: nobody tells
	due      chan struct{} // something may have become due
	waiting  sync.Once     // a call has waited; it listens until Shutdown

	mu    sync.Mutex
	users int
	stop  context.CancelFunc
	done  chan struct{} // closed when the last Listen has returned
}

// listen keeps one Listen under way until release is called. The last release
// returns after its end.
func (r *Runner) listen() (release func()) {
	n := &r.news
	if n.notifier == nil {
		return func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.users++; n.users == 1 {
		ctx, stop := context.WithCancel(r.base)
		before, done := n.done, make(chan struct{})
		n.stop, n.done = stop, done
		go func() {
			defer close(done)
			if before != nil {
				<-before
			}
			r.listening(ctx)
		}()
	}
	return func() {
		n.mu.Lock()
		n.users--
		last, done := n.users == 0, n.done
		if last {
			n.stop()
		}
		n.mu.Unlock()
		if last {
			<-done
		}
	}
}

// listening listens until ctx ends, again after each failure.
func (r *Runner) listening(ctx context.Context) {
	again := listenAgain
	for ctx.Err() == nil {
		began := time.Now()
		err := r.news.notifier.Listen(ctx, r.heard)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it stopped telling")
		}
		if time.Since(began) > listenAgainCap {
			again = listenAgain
		}
		r.log.Warn("no news of other processes; looking is all there is meanwhile", "error", err, "again_in", again)
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		again = min(2*again, listenAgainCap)
	}
}

// listened waits until nobody listens any more, once r.base has ended, or for
// ctx.
func (n *news) listened(ctx context.Context) {
	n.mu.Lock()
	done := n.done
	n.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// heard takes news of an operation: whoever waits for it here is told at once, and
// what is kept in memory is read anew. What it became is not said, so that Work
// looks, too, where nobody here waits for it: it may be pending.
func (r *Runner) heard(ref Ref) {
	ref = ref.withTenant()
	r.cache.drop(ref)
	if f := r.flights.find(ref); f != nil {
		if op := f.look().op; op != nil && r.enter() == nil {
			go func() {
				defer r.underway.Done()
				if fresh, err := r.reload(op); err == nil { // else it is looked for, as ever
					f.publish(fresh)
				}
			}()
		}
		return
	}
	select {
	case r.news.due <- struct{}{}:
	default:
	}
}
