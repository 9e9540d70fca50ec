package mcpproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Connections watch the connections of an [http.Server] whose handlers are
// [Handler]s, so that these know better whether an answer has arrived. The zero
// value is ready:
//
//	var c mcpproxy.Connections
//	srv := &http.Server{ConnContext: c.ConnContext, ConnState: c.ConnState}
//	srv.Serve(c.Listener(ln))
//
// It understands HTTP/1 without TLS.
type Connections struct {
	mu    sync.Mutex
	links map[net.Conn]*link
}

// A link is a connection of a client.
type link struct {
	conn net.Conn

	mu   sync.Mutex
	next chan struct{} // closed when a request begins, then replaced
	idle chan struct{} // closed when its response was written, then replaced
	end  int64         // bytes written when it last was
	over chan struct{} // closed with the connection
}

type linkKey struct{}

// ConnContext is for the field of [http.Server] of this name.
func (c *Connections) ConnContext(ctx context.Context, conn net.Conn) context.Context {
	l := &link{conn: conn, next: make(chan struct{}), idle: make(chan struct{}), over: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.links == nil {
		c.links = map[net.Conn]*link{}
	}
	c.links[conn] = l
	return context.WithValue(ctx, linkKey{}, l)
}

// ConnState is for the field of [http.Server] of this name.
func (c *Connections) ConnState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	l := c.links[conn]
	over := state == http.StateClosed || state == http.StateHijacked
	if over {
		delete(c.links, conn)
	}
	c.mu.Unlock()
	if l == nil {
		return
	}
	switch {
	case over:
		close(l.over)
	case state == http.StateActive:
		l.mu.Lock()
		close(l.next)
		l.next = make(chan struct{})
		l.mu.Unlock()
	case state == http.StateIdle:
		l.mu.Lock()
		l.end = l.sent()
		close(l.idle)
		l.idle = make(chan struct{})
		l.mu.Unlock()
	}
}

// Listener returns ln with connections that notice how they end: a client that
// closes its side has read what was sent before, while the system resets the
// connection of one that died over it, or gave up. Without it a client that
// closes its connection at once counts as one that got nothing.
func (c *Connections) Listener(ln net.Listener) net.Listener { return &endingListener{ln} }

type endingListener struct{ net.Listener }

// Accept implements [net.Listener].
func (l *endingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &endingConn{Conn: conn}, nil
}

// An endingConn counts what is written, and notices how much of it had arrived
// when the other side closed in good order.
type endingConn struct {
	net.Conn
	written atomic.Int64
	taken   atomic.Int64 // 0: it has not closed; -1: not in good order
}

// Read implements [net.Conn].
func (c *endingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case err == nil || n > 0 || errors.Is(err, os.ErrDeadlineExceeded):
	case errors.Is(err, io.EOF):
		written := c.written.Load()
		if left, _, known := unacknowledged(c.Conn); known {
			written -= int64(left)
		}
		c.taken.CompareAndSwap(0, written)
	default:
		c.taken.CompareAndSwap(0, -1) // after a reset the next read says EOF
	}
	return n, err
}

// Write implements [net.Conn].
func (c *endingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// sent returns how many bytes were written so far; 0: it was not counted.
func (l *link) sent() int64 {
	if c, ok := l.conn.(*endingConn); ok {
		return c.written.Load()
	}
	return 0
}

// closedAfter reports whether the client closed in good order after it had taken
// the first n bytes.
func (l *link) closedAfter(n int64) bool {
	c, ok := l.conn.(*endingConn)
	return ok && n > 0 && c.taken.Load() >= n
}

// unread asks the system how much of what was written the client's has not
// acknowledged.
func (l *link) unread() (n int, gone, known bool) { return unacknowledged(l.conn) }

func unacknowledged(conn net.Conn) (n int, gone, known bool) {
	if c, ok := conn.(*endingConn); ok {
		conn = c.Conn
	}
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = t.NetConn()
	}
	f, ok := conn.(filer)
	if !ok {
		return 0, false, false
	}
	n, _, gone, known = unread(f)
	return n, gone, known
}

// An evidence is what tells whether an answer arrives.
type evidence struct {
	l      *link // nil: nothing does, once it was written
	next   <-chan struct{}
	idle   <-chan struct{}
	known  bool
	closes bool // the connection ends with the answer
}

// Times that an answer takes to arrive.
const (
	// standing is how long a connection must last after an answer: a client that
	// died over it, or gave up before, closes it earlier.
	standing = 100 * time.Millisecond
	// arriving bounds how long a slow client is watched.
	arriving = 30 * time.Second
)

// watchConnection begins to watch, before the answer is written.
func watchConnection(r *http.Request) *evidence {
	l, _ := r.Context().Value(linkKey{}).(*link)
	if l == nil {
		return &evidence{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &evidence{l: l, next: l.next, idle: l.idle, closes: r.Close || !r.ProtoAtLeast(1, 1)}
	_, _, e.known = l.unread()
	return e
}

// arrived waits until it is known whether the answer, which was written as a
// whole, has arrived. It has when the client sends another request on its
// connection, or when it acknowledged all and keeps the connection for a moment or
// closes it in good order. Without such evidence it has not.
func (e *evidence) arrived(ctx context.Context) bool {
	if e.l == nil {
		return true
	}
	limit := time.NewTimer(arriving)
	defer limit.Stop()
	if !e.closes {
		select {
		case <-e.idle:
		case <-e.l.over:
			return false // before all was written
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	e.l.mu.Lock()
	end := e.l.end
	e.l.mu.Unlock()
	if e.closes {
		end = e.l.sent() // all was flushed
	}
	stood := time.NewTimer(standing)
	defer stood.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	taken, old, gone := false, false, false
	for {
		select {
		case <-e.next:
			n, left, known := e.l.unread()
			return !known || !left && n == 0 // or it was sent before the answer came
		case <-e.l.over:
			return e.l.closedAfter(end)
		default:
		}
		if !gone {
			n, left, known := e.l.unread()
			gone = e.known && (!known || left)
			taken = taken || !gone && (!e.known || n == 0)
		}
		switch {
		case gone && e.closes: // this goroutine keeps the connection from ending
			return e.l.closedAfter(end)
		case taken && old && !gone, e.closes && e.l.closedAfter(end):
			return true
		}
		select {
		case <-e.next:
		case <-e.l.over:
		case <-stood.C:
			old = true
		case <-look.C:
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
