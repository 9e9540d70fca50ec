package mcpconn

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A link is one process of a session and what is asked over it.
type link struct {
	p     *Process
	ready chan struct{} // p is set

	mu      sync.Mutex
	last    int64
	waiting map[string]chan *jsonrpc.Message // by id; each holds one
}

func startLink(o ProcessOptions) (*link, error) {
	l := &link{ready: make(chan struct{}), waiting: map[string]chan *jsonrpc.Message{}}
	o.Handle = l.handle
	p, err := Start(&o)
	if err != nil {
		return nil, err
	}
	l.p = p
	close(l.ready)
	return l, nil
}

// handle takes what the server says. It never waits.
func (l *link) handle(line []byte) {
	<-l.ready
	list, err := messages(line)
	if err != nil {
		return // there is nobody to tell
	}
	for _, m := range list {
		switch {
		case m.IsResponse():
			l.mu.Lock()
			w := l.waiting[m.IDKey()]
			delete(l.waiting, m.IDKey())
			l.mu.Unlock()
			if w != nil {
				w <- m
			}
		case m.IsRequest():
			_ = l.p.Write(serverRequest(m)) // a server that is gone wants no answer
		}
	}
}

// A question is a request that waits for its response.
type question struct {
	id     string
	answer chan *jsonrpc.Message
	queued *Queued
}

// send hands a request to the server. An error says that nothing was sent.
func (l *link) send(method string, params json.RawMessage) (*question, error) {
	q := &question{answer: make(chan *jsonrpc.Message, 1)}
	l.mu.Lock()
	l.last++
	q.id = strconv.FormatInt(l.last, 10)
	l.waiting[q.id] = q.answer
	l.mu.Unlock()
	var err error
	if q.queued, err = l.p.Queue(jsonrpc.Request(json.RawMessage(q.id), method, params)); err != nil {
		l.forget(q)
		return nil, err
	}
	return q, nil
}

func (l *link) forget(q *question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, q.id)
}

// wait waits for the response, the end of ctx, or that of the server. Without a
// response it returns how far the request got.
func (l *link) wait(ctx context.Context, q *question) (*jsonrpc.Message, Stage, error) {
	var err error
	select {
	case m := <-q.answer:
		return m, Sent, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.p.Done():
		err = l.gone()
	}
	l.forget(q)
	select {
	case m := <-q.answer: // both at once
		return m, Sent, nil
	default:
	}
	if q.queued.Withdraw() {
		return nil, Unsent, err
	}
	return nil, Sent, err
}

func (l *link) gone() error {
	if err := l.p.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the MCP server %q was closed", l.p.name)
}

// ask implements speaker.
func (l *link) ask(ctx context.Context, _ dialect, method string, params json.RawMessage) (*jsonrpc.Message, error) {
	q, err := l.send(method, params)
	if err != nil {
		return nil, err
	}
	m, _, err := l.wait(ctx, q)
	return m, err
}

// tell implements speaker.
func (l *link) tell(_ context.Context, _ dialect, method string, params json.RawMessage) error {
	return l.p.Write(jsonrpc.Request(nil, method, params))
}
