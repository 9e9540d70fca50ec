package sqlite

import (
	"context"
	"sync"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

type requestKind uint8

const (
	kindGet requestKind = iota
	kindBegin
	kindUpdate
	kindClaim
	kindPurge
	kindDue
)

type requestStage uint8

const (
	stageNew       requestStage = iota
	stageQueued                 // in the writer's queue
	stageTaken                  // in a transaction
	stageWithdrawn              // its caller has left
)

// A request is a call on its way through a reader, the writer or both in turn. Its
// caller fills it, encoding included, so that those only bind and step.
type request struct {
	kind requestKind
	done chan struct{} // capacity 1; one signal for each wait

	stage requestStage // guarded by the writer's mutex

	lead *reader // from the readers, with a signal: the caller goes on as leader

	row       row
	lines     []line
	keyHash   int64
	idHash    int64 // of the identity, if there is one
	exclusive bool
	place     place // a hint for updates; where the row is when it is done

	due     justonce.Due
	advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)
	before  time.Time
	ids     []int64

	// The answer.
	op      *justonce.Operation
	match   justonce.Match
	fresh   bool
	claimed []*justonce.Operation
	places  []place
	n       int
	panic   any
	err     error
}

var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

func newRequest(kind requestKind) *request {
	r := requests.Get().(*request)
	r.kind = kind
	return r
}

// free gives r back. Not for one that was withdrawn: others still hold it.
func (r *request) free() {
	buf, lines := r.row.buf, r.lines
	if cap(buf) > 16<<10 {
		buf = nil
	}
	clear(lines)
	*r = request{done: r.done, row: row{buf: buf[:0]}, lines: lines[:0]}
	requests.Put(r)
}

// addEntry encodes an entry behind what the row has in its buffer.
func (r *request) addEntry(x *justonce.Entry) error {
	if len(x.Body) > maxBody {
		return &justonce.InvalidError{Field: "body", Detail: "is too large to store", TooLarge: true}
	}
	e := encoder{packed.Encoder{B: r.row.buf[len(r.row.buf):]}}
	appendEntry(&e, x)
	if e.Err != nil {
		return invalid("time", e.Err.Error())
	}
	// If that outgrew the buffer the entry has one of its own; the row keeps
	// the old one.
	r.lines = append(r.lines, line{data: e.B, body: x.Body, isResult: x.IsResult && len(x.Body) > 0})
	if n := len(r.row.buf) + len(e.B); n <= cap(r.row.buf) {
		r.row.buf = r.row.buf[:n]
	}
	return nil
}

// wait returns when the writer is done with r. It returns false if ctx ended
// first and r was withdrawn.
func (s *Store) wait(ctx context.Context, r *request) bool {
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
		if s.queue.withdraw(r) {
			return false
		}
		<-r.done
		return true
	}
}
