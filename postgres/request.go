package postgres

import (
	"context"

	justonce "github.com/justonce-dev/justonce"
)

type requestKind uint8

const (
	kindRecord requestKind = iota
	kindReplace
	kindRead
)

// A request is a call that waits for a writer or a reader. Its caller fills it,
// encoding included.
type request struct {
	kind requestKind
	row  row
	done chan struct{} // closed when it is answered

	// What may still be changed, guarded by the queue's mutex.
	taken, withdrawn bool

	// The answer.
	ok       bool // recorded or replaced
	found    *justonce.Operation
	match    justonce.Match
	outlived bool // found, but it no longer answers
	err      error
}

func newRequest(kind requestKind) *request {
	return &request{kind: kind, done: make(chan struct{})}
}

// wait returns when r is answered. It returns false if ctx ended first and r
// was withdrawn.
func (q *queue) wait(ctx context.Context, r *request) bool {
	if ctx.Done() == nil {
		<-r.done
		return true
	}
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
		if q.withdraw(r) {
			return false
		}
		<-r.done
		return true
	}
}
