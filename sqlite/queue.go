package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
)

// A queue runs the writes of a store. Its goroutine takes all requests that
// wait, runs them in one transaction and acknowledges them after the commit;
// meanwhile the next ones gather. There is no artificial delay. Transactions of
// the application run in between, see [Store.InTx].
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  bool
	wake    chan struct{} // capacity 1
	done    chan struct{} // closed when run has returned

	commits atomic.Uint64

	// turn has an element while somebody writes. Who waits to put one in is let in
	// in the order of arrival.
	turn chan struct{}

	// Of whoever has the turn.
	writer *writer // for requests
	lent   *writer // for transactions of the application; connected by the first

	// Of the goroutine alone.
	batch []*request
	err   error // of close
}

func newQueue(w *writer) *queue {
	return &queue{
		wake: make(chan struct{}, 1), done: make(chan struct{}), turn: make(chan struct{}, 1),
		writer: w, lent: &writer{store: w.store, path: w.path, busy: w.busy, known: w.known, guard: &guard{}},
	}
}

// maxGroup bounds a transaction, so that other processes get their turn.
const maxGroup = 1024

// enqueue hands r to the writer.
func (q *queue) enqueue(r *request) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		r.err = unavailable("writing", errClosed)
		r.done <- struct{}{}
		return
	}
	r.stage = stageQueued
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// withdraw takes r back and returns true unless its transaction has begun.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.stage != stageQueued {
		return false
	}
	r.stage = stageWithdrawn
	return true
}

// take moves what waits into the batch, in the order of its arrival.
func (q *queue) take() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batch = q.batch[:0]
	n := 0
	for _, r := range q.waiting {
		if len(q.batch) == maxGroup {
			break
		}
		n++
		if r.stage == stageQueued {
			r.stage = stageTaken
			q.batch = append(q.batch, r)
		}
	}
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
}

// pending reports whether there is work, and whether there may be more.
func (q *queue) pending() (work, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0, !q.closed
}

func (q *queue) run() {
	defer close(q.done)
	for {
		work, more := q.pending()
		switch {
		case work:
			q.group()
		case more:
			<-q.wake
		default:
			q.turn <- struct{}{}
			q.err = q.writer.disconnect()
			if err := q.lent.disconnect(); q.err == nil {
				q.err = err
			}
			<-q.turn
			return
		}
	}
}

func (q *queue) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
	<-q.done
	return q.err
}

// group runs one transaction and acknowledges its requests.
func (q *queue) group() {
	err := q.commit()
	for i, r := range q.batch {
		if err != nil {
			r.err = unavailable("writing", err)
		}
		q.batch[i] = nil
		r.done <- struct{}{}
	}
	if err == nil {
		q.writer.yield()
	}
}

// commit takes a batch, runs it and commits.
func (q *queue) commit() error {
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	w := q.writer
	err := w.connect()
	if err == nil {
		err = w.begin(context.Background())
	}
	// Not before the lock is held: until then callers may still leave, and
	// others join.
	q.take()
	if err != nil {
		return err
	}
	if err := w.transact(q.batch); err != nil {
		w.recover(err)
		return err
	}
	q.commits.Add(1)
	return nil
}

// lend gives the writer for the application out, in a transaction. Unless the
// error says otherwise the caller has the turn.
func (q *queue) lend(ctx context.Context) (*writer, error) {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	w := q.lent
	err := q.beginLent(ctx, w)
	if err != nil {
		w.drop(err) // what the application left there may be in the way
		<-q.turn
		return nil, err
	}
	return w, nil
}

func (q *queue) beginLent(ctx context.Context, w *writer) error {
	if _, open := q.pending(); !open {
		return errClosed
	}
	if err := w.connect(); err != nil {
		return err
	}
	err := w.begin(ctx)
	if isStale(err) { // a statement of the application was left under way
		w.drop(err)
		if err = w.connect(); err == nil {
			err = w.begin(ctx)
		}
	}
	if err != nil {
		return err
	}
	if err := run(w.stmts.arm); err != nil {
		return err
	}
	return w.refresh()
}
