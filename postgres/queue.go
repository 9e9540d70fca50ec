package postgres

import "sync"

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
	takers sync.WaitGroup
}

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

// add hands r to the takers, or refuses it once the queue is closed.
func (q *queue) add(r *request) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		r.err = unavailable("asking", errClosed)
		r.done <- struct{}{}
		return
	}
	q.list = append(q.list, r)
	wake := q.ready()
	q.mu.Unlock()
	if wake {
		q.cond.Signal()
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
	for {
		for !q.ready() {
			if q.closed && len(q.list) == 0 {
				q.cond.Broadcast()
				return nil
			}
			q.cond.Wait()
		}
		n, size := 0, 0
		for _, r := range q.list {
			if len(batch) == q.limit || size > q.bytes {
				break
			}
			n++
			if r.withdrawn {
				continue
			}
			r.taken = true
			size += r.row.size()
			batch = append(batch, r)
		}
		rest := copy(q.list, q.list[n:])
		clear(q.list[rest:])
		q.list = q.list[:rest]
		if len(batch) > 0 {
			q.busy++
			return batch
		}
	}
}

// withdraw takes r back and returns true unless it has been taken.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.taken {
		return false
	}
	r.withdrawn = true
	return true
}

// close waits until all that was added is served. Later requests are refused.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
	q.takers.Wait()
}
