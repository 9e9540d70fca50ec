package mcpproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A wireCarrier carries an intercepted request to a server that speaks in lines.
type wireCarrier struct {
	s    *session // nil: the request stands for itself
	wire *wire
	f    *flow
}

func (c *wireCarrier) forward(ctx context.Context, raw []byte) mcpconn.Reply {
	c.f.sending()
	a := c.wire.ask(ctx, c.f, raw, true)
	if a.Result != nil || a.Error != nil {
		c.f.heading(&head{status: c.wire.status(a.Error), answered: true})
	}
	return a.Reply
}

func (c *wireCarrier) ask(ctx context.Context, call *mcpconn.ToolCall) mcpconn.Reply {
	r := c.wire.callTool(ctx, call, c.f.meta)
	if r.Stage != mcpconn.Unsent || c.s == nil {
		return r
	}
	// The session ended with its server, perhaps over this very call.
	if own := c.f.h.s.ownCaller(); own != nil {
		return own.CallTool(ctx, call)
	}
	return c.s.askAnew(ctx, call, c.f.meta)
}

// askAnew makes a call of the proxy's own to a server that is started for it, and
// greeted as the client greeted the session's.
func (s *session) askAnew(ctx context.Context, call *mcpconn.ToolCall, meta json.RawMessage) mcpconn.Reply {
	w := newWire(s.b.h, false)
	w.stray = w.strayShared
	defer w.finish()
	hello, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	s.mu.Lock()
	raw := s.hello
	s.mu.Unlock()
	if a := w.ask(hello, nil, raw, false); a.Result == nil {
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: fmt.Errorf("the server was started again and did not take the handshake: %v %s", a.Cause, a.Error)}
	}
	if err := w.write(jsonrpc.Request(nil, "notifications/initialized", nil)); err != nil {
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: err}
	}
	return w.callTool(ctx, call, meta)
}

func (b *bridge) carrier(w http.ResponseWriter, r *http.Request, f *flow) carrier {
	s, wire := b.place(w, r, f.msg)
	if wire == nil {
		return nil
	}
	f.early = true
	if s != nil {
		f.gone = s.gone
		if f.version == "" {
			f.version = s.spoken()
		}
		context.AfterFunc(f.ctx, s.unuse)
	}
	return &wireCarrier{s, wire, f}
}

// place finds the server for a message; nil: the client was answered. A session
// is then in use.
func (b *bridge) place(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) (*session, *wire) {
	if t := mediaType(r.Header); t != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, m.ID, jsonrpc.CodeInvalidRequest, "the body must be application/json")
		return nil, nil
	}
	if !modern(r, m) {
		if s := b.session(w, r, requestID(m)); s != nil {
			return s, s.wire
		}
		return nil, nil
	}
	if code, why := invalid(r, m); why != "" {
		refuse(w, http.StatusBadRequest, requestID(m), code, why)
		return nil, nil
	}
	if m.Method == "tools/call" {
		if why := b.params.contradiction(r.Header, m); why != "" {
			refuse(w, http.StatusBadRequest, requestID(m), codeHeaderMismatch, why)
			return nil, nil
		}
	}
	return nil, b.shared
}

func requestID(m *jsonrpc.Message) json.RawMessage {
	if m.IsRequest() {
		return m.ID
	}
	return nil
}

func (b *bridge) pass(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, body []byte) {
	switch {
	case m == nil && strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 64)])), "["):
		refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, "batches are not taken: send each message by itself; nothing was sent")
	case m == nil:
		refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, "the body is no JSON-RPC message; nothing was sent")
	case m.Method == "initialize" && m.IsRequest() && r.Header.Get(headerSession) == "" && !modern(r, m):
		b.initialize(w, r, m)
	case m.IsRequest():
		b.request(w, r, m)
	default:
		s, wire := b.place(w, r, m)
		if wire == nil {
			return
		}
		if s != nil {
			defer s.unuse()
		}
		if err := wire.tell(m); err != nil {
			refuse(w, http.StatusBadGateway, nil, jsonrpc.CodeInternal, err.Error())
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// request passes a request on.
func (b *bridge) request(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	s, wire := b.place(w, r, m)
	if wire == nil {
		return
	}
	if s != nil {
		defer s.unuse()
	}
	f := newFlow(b.h, r, m)
	f.early = true
	b.h.run(w, r, f, func() *response {
		a := wire.ask(f.ctx, f, m.Raw, false)
		if f.ctx.Err() != nil && s == nil {
			wire.cancel(a.id) // its client closed the stream: that means it
		}
		return b.answerTo(wire, f, m, a)
	})
}

// answerTo returns what a client gets for the answer to a request that was
// passed on.
func (b *bridge) answerTo(wire *wire, f *flow, m *jsonrpc.Message, a *answer) *response {
	switch {
	case a.line == nil && f.ctx.Err() != nil:
		return &response{}
	case a.line == nil:
		f.heading(&head{status: http.StatusBadGateway, answered: true})
		return &response{raw: jsonrpc.ErrorResponse(m.ID, noAnswer(&a.Reply))}
	}
	line := a.line
	if wire.remap {
		line = jsonrpc.Set(line, m.ID, "id")
	}
	if m.Method == "tools/list" {
		b.params.learn(a.Result)
		line = b.h.amendMessage(m, line)
	}
	f.heading(&head{status: wire.status(a.Error), answered: true})
	return &response{raw: line}
}

// initialize begins a session.
func (b *bridge) initialize(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	if t := mediaType(r.Header); t != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, m.ID, jsonrpc.CodeInvalidRequest, "the body must be application/json")
		return
	}
	s, why := b.newSession()
	if s == nil {
		refuse(w, http.StatusServiceUnavailable, m.ID, jsonrpc.CodeInternal, why)
		return
	}
	defer s.unuse()
	f := newFlow(b.h, r, m)
	f.sending() // nothing is written early: the session's name is in a header
	b.h.run(w, r, f, func() *response {
		a := s.wire.ask(f.ctx, f, m.Raw, false)
		res := b.answerTo(s.wire, f, m, a)
		if a.Result == nil {
			b.end(s)
			return res
		}
		s.mu.Lock()
		s.version, s.hello = jsonrpc.String(a.Result, "protocolVersion"), m.Raw
		s.mu.Unlock()
		f.heading(&head{status: http.StatusOK, answered: true, header: http.Header{headerSession: {s.id}}})
		return res
	})
}

func (b *bridge) other(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "" && r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	if modern(r, nil) || r.Method != http.MethodGet && r.Method != http.MethodDelete {
		w.Header().Set("Allow", "POST, GET, DELETE")
		refuse(w, http.StatusMethodNotAllowed, nil, jsonrpc.CodeInvalidRequest, "this method is not taken here")
		return
	}
	s := b.session(w, r, nil)
	if s == nil {
		return
	}
	defer s.unuse()
	if r.Method == http.MethodDelete {
		b.end(s)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if _, stream := accepts(r); !stream {
		refuse(w, http.StatusNotAcceptable, nil, jsonrpc.CodeInvalidRequest, "the stream is text/event-stream: accept that")
		return
	}
	b.listen(w, r, s)
}

// listen gives a client the stream that belongs to no request, in place of an
// earlier one.
func (b *bridge) listen(w http.ResponseWriter, r *http.Request, s *session) {
	f := newFlow(b.h, r, &jsonrpc.Message{})
	f.early = true
	at := f.attach(0)
	s.mu.Lock()
	before, backlog := s.get, s.backlog
	s.get, s.backlog = f, nil
	ended := s.ended
	s.mu.Unlock()
	if before != nil {
		before.cut()
	}
	for _, e := range backlog {
		f.add(e, "")
	}
	if ended {
		f.cut()
	}
	b.h.stream(w, r, f, at, true)
	s.mu.Lock()
	if s.get == f {
		s.get = nil
	}
	s.mu.Unlock()
}
