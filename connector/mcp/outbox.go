package mcpconn

import (
	"fmt"
	"os"
	"sync"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A Queued is a message that waits to be written to a [Process], or was.
type Queued struct {
	out   *outbox
	line  []byte
	begun bool // a byte of it was, or is being, written
	back  bool // taken back
}

// Withdraw takes the message back, and reports whether that worked: whether no
// byte of it was or will be written. Also where the process has ended since.
func (m *Queued) Withdraw() bool {
	m.out.mu.Lock()
	defer m.out.mu.Unlock()
	if m.begun {
		return false
	}
	if !m.back {
		m.back = true
		m.out.bytes -= len(m.line)
		m.line = nil
	}
	return true
}

// Write hands one message to the child. It does not wait for the child to read
// it: what it has not read waits, up to the limit of [ProcessOptions]. Every
// error wraps [ErrNotSent]. Nil says no more than that the child may get it.
func (p *Process) Write(line []byte) error {
	_, err := p.Queue(line)
	return err
}

// Queue is [Process.Write], with a handle to take the message back.
func (p *Process) Queue(line []byte) (*Queued, error) {
	select {
	case <-p.exited:
		return nil, fmt.Errorf("%w: %w", ErrNotSent, p.err)
	default:
		return p.out.add(line)
	}
}

// An outbox holds what waits for a child to read it.
type outbox struct {
	to    *os.File
	limit int
	done  chan struct{} // run has ended

	mu     sync.Mutex
	more   *sync.Cond
	queue  []*Queued
	bytes  int // of those in queue that nobody took back
	ending bool
}

func newOutbox(to *os.File, limit int) *outbox {
	o := &outbox{to: to, limit: limit, done: make(chan struct{})}
	o.more = sync.NewCond(&o.mu)
	return o
}

func (o *outbox) add(line []byte) (*Queued, error) {
	m := &Queued{out: o, line: jsonrpc.AppendLine(make([]byte, 0, len(line)+1), line)}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ending:
		return nil, fmt.Errorf("%w: the MCP server reads no more", ErrNotSent)
	case len(line) > o.limit:
		return nil, fmt.Errorf("%w: the message has %d bytes, more than the %d allowed", ErrNotSent, len(line), o.limit)
	case o.bytes > 0 && o.bytes+len(m.line) > o.limit:
		return nil, fmt.Errorf("%w: the MCP server does not read what it is sent; %d bytes wait already", ErrNotSent, o.bytes)
	}
	o.queue = append(o.queue, m)
	o.bytes += len(m.line)
	o.more.Signal()
	return m, nil
}

// next waits for a message and marks it as begun; nil at the end.
func (o *outbox) next() *Queued {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.queue) == 0 && !o.ending {
			o.more.Wait()
		}
		if len(o.queue) == 0 {
			return nil
		}
		m := o.queue[0]
		o.queue[0], o.queue = nil, o.queue[1:]
		if m.back {
			continue
		}
		m.begun = true
		return m
	}
}

// run writes until the end, or until the child reads no more, and then closes
// its standard input.
func (o *outbox) run() {
	defer close(o.done)
	defer o.to.Close()
	for m := o.next(); m != nil; m = o.next() {
		n, err := o.to.Write(m.line)
		o.mu.Lock()
		o.bytes -= len(m.line)
		if m.line = nil; err != nil {
			m.begun = n > 0 // what cannot be written did not arrive
			o.ending, o.queue = true, nil
		}
		o.mu.Unlock()
	}
}

// finish lets run write what is there and end.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = true
	o.more.Signal()
}

// stop makes run end now.
func (o *outbox) stop() {
	o.mu.Lock()
	o.ending, o.queue = true, nil
	o.more.Signal()
	o.mu.Unlock()
	_ = o.to.Close() // ends a write
}
