package mcpproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// greeting bounds the handshake with a server that was started again.
const greeting = 30 * time.Second

// connect starts the server unless it runs. One that was initialized before is
// initialized again, the way the client did it.
func (r *relay) connect(ctx context.Context) error {
	r.starting.Lock()
	defer r.starting.Unlock()
	r.mu.Lock()
	p, why, closed := r.peer, r.err, r.err == io.EOF
	hello, ready := r.hello, r.ready
	r.mu.Unlock()
	switch {
	case p != nil:
		return nil
	case closed:
		return errEnded
	}
	if err := r.pace.wait(why); err != nil {
		return err
	}
	r.mu.Lock()
	r.starts++
	start := r.starts
	r.mu.Unlock()
	p, err := r.o.Start(func(line []byte) { r.fromServer(start, line) })
	if err != nil {
		r.later(err, 0)
		return err
	}
	r.mu.Lock()
	if r.err == io.EOF { // closed meanwhile
		r.mu.Unlock()
		p.Close()
		return errEnded
	}
	r.mu.Unlock()
	began := time.Now()
	if hello != nil { // a server took it before
		if err := r.greet(ctx, p, hello, ready); err != nil {
			p.Close()
			r.later(err, 0)
			return err
		}
	}
	r.mu.Lock()
	r.peer, r.err = p, nil
	r.mu.Unlock()
	go r.watch(p, began)
	return nil
}

// later puts off the next start of a server that ended, or did not start, after
// it had lived. starting is locked.
func (r *relay) later(err error, lived time.Duration) {
	r.pace.failed(lived)
	r.mu.Lock()
	if r.err != io.EOF {
		r.err = err
	}
	r.mu.Unlock()
}

// greet initializes a server that was started again. Its answer is not for the
// client, which was answered by the first.
func (r *relay) greet(ctx context.Context, p Peer, hello, ready []byte) error {
	id := r.ownID()
	ctx, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	go func() {
		select {
		case <-p.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	reply := r.ask(ctx, id, "initialize", jsonrpc.Set(hello, json.RawMessage(id), "id"), p.Write)
	if reply.Result == nil {
		return fmt.Errorf("the server was started again and did not take the handshake: %v %s", reply.Cause, reply.Error)
	}
	if ready == nil {
		return nil
	}
	return p.Write(ready)
}

// watch waits for the server's end and tells everybody who waits for it.
func (r *relay) watch(p Peer, began time.Time) {
	<-p.Done()
	err := p.Err()
	if err == nil {
		err = fmt.Errorf("the server has ended")
	}
	r.starting.Lock()
	r.later(err, time.Since(began))
	r.starting.Unlock()
	r.mu.Lock()
	if r.peer == p {
		r.peer = nil
	}
	lost := r.pending
	r.pending = map[string]*pending{}
	closed := r.err == io.EOF
	var open []question
	for id, q := range r.asked {
		if q.start != 0 {
			open = append(open, q)
			r.asked[id] = question{id: q.id} // an answer goes nowhere
		}
	}
	r.mu.Unlock()
	for _, q := range open {
		r.toClient(jsonrpc.Request(nil, "notifications/cancelled",
			json.RawMessage(`{"requestId":`+string(q.id)+`,"reason":"the server has ended"}`)))
	}
	if !closed {
		r.s.log.Warn("the server ended; it is started again when it is needed", "why", err, "requests_without_an_answer", len(lost))
	}
	for _, q := range lost {
		if q.reply != nil {
			q.reply <- mcpconn.Reply{Cause: err}
		} else {
			r.toClient(jsonrpc.ErrorResponse(q.id, jsonrpc.ErrorObject(jsonrpc.CodeInternal, err.Error()+" before it answered", nil)))
		}
	}
	r.maybeIdle()
}
