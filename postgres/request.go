package postgres

import (
	"sync"

	justonce "github.com/justonce-dev/justonce"
)

type requestKind uint8

const (
	kindRecord requestKind = iota
	kindReplace
	kindRead
)

// A request is a call that waits for a writer or a reader. Its caller fills it,
// encoding included, and releases it.
type request struct {
	kind requestKind
	row  row
	done chan struct{} // told once when it is answered

	over <-chan struct{} // closed when the call does not want to wait any longer

	// The answer.
	withdrawn bool
	ok        bool // recorded or replaced
	found     *justonce.Operation
	match     justonce.Match
	outlived  bool // found, but it no longer answers
	err       error
}

// requests are used again, with their buffers and channels.
var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

// mostKept is the size of a buffer that is worth keeping.
const mostKept = 16 << 10

func newRequest(kind requestKind) *request {
	r := requests.Get().(*request)
	r.kind = kind
	return r
}

// release gives r back.
func (r *request) release() {
	buf := r.row.buf
	if cap(buf) > mostKept {
		buf = nil
	}
	*r = request{done: r.done, row: row{buf: buf}}
	requests.Put(r)
}
