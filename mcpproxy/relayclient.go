package mcpproxy

import (
	"context"
	"errors"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// toClient writes one message to the client.
func (r *relay) toClient(line []byte) { r.answerTo(context.Background(), "", line, nil) }

// answerTo writes the answer to a request, which the client may take back while
// it is written.
func (r *relay) answerTo(ctx context.Context, id string, line []byte, d *delivery) {
	r.writing.Lock() // receipts are kept in the order of the bytes
	defer r.writing.Unlock()
	if err := r.out.Write(line); err != nil {
		d.report(false)
		r.once.Do(func() { close(r.broken) })
		return
	}
	if ctx.Err() != nil {
		d.report(false)
		d = nil
	}
	r.acks.wrote(len(line)+1, id, d)
}

// fromClient takes one message of the client.
func (r *relay) fromClient(line []byte, bad error) {
	var m *jsonrpc.Message
	err := bad
	if err == nil {
		m, err = jsonrpc.Parse(line)
	}
	switch {
	case errors.Is(err, jsonrpc.ErrBatch):
		r.batch(line)
	case err != nil:
		r.refuse(err)
	case m.IsRequest():
		r.request(m)
	case m.Method == "notifications/cancelled":
		r.cancelled(m)
	case m.Method == "tools/call":
		// Nobody would ever learn what became of it.
		r.s.log.Warn("a tools/call without an id was dropped; nothing was sent")
	case m.IsResponse() && r.stale(m.IDKey()):
	default:
		if m.Method == "notifications/initialized" {
			r.mu.Lock()
			r.ready = m.Raw
			r.mu.Unlock()
		}
		if err := r.toServer(m.Raw); err != nil {
			r.s.log.Debug("a message did not reach the server", "method", m.Method, "error", err)
		}
	}
}

// stale reports whether a client's response answers a server that has ended: its
// successor may have asked something else under the same id.
func (r *relay) stale(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, known := r.asked[id]
	delete(r.asked, id)
	return known && q.start != r.starts
}

func (r *relay) refuse(err error) {
	e := &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: err.Error()}
	errors.As(err, &e)
	r.toClient(jsonrpc.ErrorResponse(e.ID, jsonrpc.ErrorObject(e.Code, e.Message+"; nothing was sent", nil)))
}

// batch passes on several messages in one line, as the version 2025-03-26 of the
// protocol had them, unless one of them is about a call.
func (r *relay) batch(line []byte) {
	for _, e := range jsonrpc.Elements(line) {
		m, err := jsonrpc.Parse(e)
		if err != nil {
			r.refuse(err)
			return
		}
		if m.Method == "tools/call" || m.Method == "notifications/cancelled" {
			r.refuse(&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, ID: m.ID, Message: "calls of tools, and cancellations, are not taken in batches: send each by itself"})
			return
		}
	}
	if err := r.toServer(line); err != nil {
		r.refuse(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()})
	}
}

// request takes a request of the client.
func (r *relay) request(m *jsonrpc.Message) {
	if v := jsonrpc.Get(m.Params, "_meta"); jsonrpc.Get(v, "io.modelcontextprotocol/protocolVersion") != nil {
		r.mu.Lock()
		r.modern = protocolMeta(v)
		r.mu.Unlock()
	}
	a := &answering{}
	a.ctx, a.cancel = context.WithCancel(r.ctx)
	in := &inbound{msg: m, version: r.spoken(), gone: r.gone}
	if m.Method == "tools/call" && r.s.has(jsonrpc.String(m.Params, "name")) {
		r.answer(m, a, func() *response { return &response{raw: r.s.own(a.ctx, in)} })
		return
	}
	t, e := r.s.effect(a.ctx, in, &lineCarrier{r, m.ID})
	switch {
	case e != nil:
		a.cancel()
		r.toClient(jsonrpc.ErrorResponse(m.ID, e))
	case t != nil:
		t.unseen = r.acks.verdict()
		a.passive = t.spec.mode == Observe
		r.answer(m, a, func() *response { return r.s.serve(t) })
	default:
		a.cancel()
		r.pass(m)
	}
}

// answer answers a request of the client by f, beside what else comes.
func (r *relay) answer(m *jsonrpc.Message, a *answering, f func() *response) {
	id := m.IDKey()
	r.mu.Lock()
	used := r.turns[id] != nil || r.pending[id] != nil
	if !used {
		r.turns[id] = a
	}
	r.mu.Unlock()
	if used {
		a.cancel()
		r.used(m)
		return
	}
	r.calls.Go(func() {
		if res := f(); res.raw != nil {
			r.answerTo(a.ctx, id, res.raw, res.delivery)
		}
		r.mu.Lock()
		delete(r.turns, id)
		r.mu.Unlock()
		a.cancel()
		r.maybeIdle()
	})
}

func (r *relay) used(m *jsonrpc.Message) {
	r.toClient(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInvalidRequest, "the id is in use by a request under way; nothing was sent", nil)))
}

// cancelled takes the client's word that it does not want an answer any more.
// Before a call was sent that releases it; afterwards nothing stops it, however
// often it is said.
func (r *relay) cancelled(m *jsonrpc.Message) {
	id := jsonrpc.Key(jsonrpc.Get(m.Params, "requestId"))
	r.acks.unwanted(id)
	r.mu.Lock()
	a, p := r.turns[id], r.pending[id]
	r.mu.Unlock()
	if a != nil {
		a.cancel()
	}
	if (a != nil || p != nil && p.reply != nil) && (a == nil || !a.passive) {
		return
	}
	if p != nil && p.reply == nil {
		r.take(id) // the server need not answer any more
	}
	_ = r.toServer(m.Raw)
}

// pass hands a request to the server as it is.
func (r *relay) pass(m *jsonrpc.Message) {
	p, id := &pending{id: m.ID, method: m.Method}, m.IDKey()
	if m.Method == "initialize" {
		p.hello = m.Raw
	}
	r.mu.Lock()
	used := r.turns[id] != nil || r.pending[id] != nil
	if !used {
		r.pending[id] = p
	}
	r.mu.Unlock()
	if used {
		r.used(m)
		return
	}
	if err := r.toServer(m.Raw); err != nil && r.take(id) != nil {
		r.toClient(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInternal, err.Error(), nil)))
	}
}
