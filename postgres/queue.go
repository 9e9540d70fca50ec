package postgres

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A queue gathers requests while its takers are busy: there is no artificial
// delay.
type queue struct {
	together int // how many make it worth while to work beside another taker
	limit    int // of requests taken at once
	bytes    int // of their sizes, about

	mu     sync.Mutex
	cond   sync.Cond
	list   []*request
	busy   int
	closed bool
	look   *time.Timer // for who gives up; nil: nobody does
	takers sync.WaitGroup
}

// giveUpEvery is how often it is looked who does not want to wait any longer.
const giveUpEvery = 10 * time.Millisecond

// start runs takers, which call serve with what they have taken until the
// queue is closed.
func (q *queue) start(takers int, serve func() func([]*request)) {
	q.cond.L = &q.mu
	for range takers {
		serve := serve()
		q.takers.Go(func() {
			var batch []*request
			for {
				batch = q.take(batch[:0])
				if batch == nil {
					return
				}
				serve(batch)
				for i, r := range batch {
					r.done <- struct{}{}
					batch[i] = nil
				}
				q.mu.Lock()
				q.busy--
				q.mu.Unlock()
				q.cond.Signal()
			}
		})
	}
}

// do hands r to the takers and waits for the answer. It returns false if ctx
// ended, and that was seen before one of them took r, which then is withdrawn.
// Once the queue is closed r is refused.
func (q *queue) do(ctx context.Context, r *request) bool {
	r.over = ctx.Done()
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		r.err = unavailable("asking", errClosed)
		return true
	}
	q.list = append(q.list, r)
	wake := q.ready()
	if q.look == nil && r.over != nil {
		q.look = time.AfterFunc(giveUpEvery, q.giveUp)
	}
	q.mu.Unlock()
	if wake {
		q.cond.Signal()
	}
	<-r.done
	return !r.withdrawn
}

// giveUp withdraws the requests whose context is done. If each call waited for
// its context, too, that would cost them more than this does.
func (q *queue) giveUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	again := false
	q.list = slices.DeleteFunc(q.list, func(r *request) bool {
		select {
		case <-r.over:
			r.withdrawn = true
			r.done <- struct{}{}
			return true
		default:
			again = again || r.over != nil
			return false
		}
	})
	if again {
		q.look.Reset(giveUpEvery)
	} else {
		q.look = nil
	}
}

// ready reports whether a taker that is free should go to work. Few requests
// are better left to one that is busy: they then share a commit with those who
// come meanwhile.
func (q *queue) ready() bool {
	return len(q.list) > 0 && (q.busy == 0 || len(q.list) >= q.together)
}

// take returns the requests to serve, in the order of their arrival; nil: the
// queue is closed.
func (q *queue) take(batch []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ready() {
		if q.closed && len(q.list) == 0 {
			q.cond.Broadcast()
			return nil
		}
		q.cond.Wait()
	}
	size := 0
	for _, r := range q.list {
		if len(batch) == q.limit || size > q.bytes {
			break
		}
		size += r.row.size()
		batch = append(batch, r)
	}
	q.list = slices.Delete(q.list, 0, len(batch))
	q.busy++
	return batch
}

// close waits until all that was added is served. Later requests are refused.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
	q.takers.Wait()
}
