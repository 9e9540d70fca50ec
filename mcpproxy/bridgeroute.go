package mcpproxy

import (
	"errors"
	"slices"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// fromServer takes one message of the server.
func (w *wire) fromServer(line []byte) {
	m, err := jsonrpc.Parse(line)
	if errors.Is(err, jsonrpc.ErrBatch) {
		for _, e := range jsonrpc.Elements(line) {
			w.fromServer(e)
		}
		return
	}
	if err != nil {
		w.h.s.log.Warn("a message of the server was dropped", "why", err)
		return
	}
	if m.IsResponse() {
		if a := w.take(m.IDKey()); a != nil {
			a.answer <- &answer{Reply: mcpconn.Reply{Result: m.Result, Error: m.Error}, id: a.id, line: m.Raw}
		}
		return
	}
	if a, m := w.belongs(m); a != nil {
		if a.f != nil {
			a.f.add(event(m.Raw), "")
		}
		return
	}
	w.stray(m)
}

// subscription names the request that asked for a notification.
const subscription = "io.modelcontextprotocol/subscriptionId"

// belongs returns the request of which a message speaks, and the message as its
// client knows it.
func (w *wire) belongs(m *jsonrpc.Message) (*request, *jsonrpc.Message) {
	path := []string{"progressToken"}
	if m.Method != "notifications/progress" {
		path = []string{"_meta", subscription}
	}
	name := jsonrpc.Get(m.Params, path...)
	if name == nil {
		return nil, m
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.order {
		as := a.token
		if m.Method != "notifications/progress" {
			as = a.id
		}
		if !w.remap && as != nil && sameID(as, name) {
			return a, m
		}
		if w.remap && string(a.id) == string(name) {
			if m.Method != "notifications/progress" && a.f != nil {
				as = a.f.id
			}
			if as == nil {
				return a, m
			}
			changed := *m
			changed.Raw = jsonrpc.Set(m.Raw, as, append([]string{"params"}, path...)...)
			return a, &changed
		}
	}
	return nil, m
}

// newest returns the request that was sent last and whose client listens.
func (w *wire) newest() *flow {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.order) - 1; i >= 0; i-- {
		if f := w.order[i].f; f != nil && f.read() {
			return f
		}
	}
	return nil
}

// strayShared takes a message that does not say to whose request it belongs. It
// is passed on only where all requests so far were one client's.
func (w *wire) strayShared(m *jsonrpc.Message) {
	w.mu.Lock()
	var to *flow
	for _, a := range w.order {
		if w.several {
			break // it may be about a call of the other that is over
		}
		if a.f == nil {
			continue
		}
		if to != nil && to.owner != a.f.owner {
			to = nil
			break
		}
		to = a.f
	}
	w.mu.Unlock()
	switch {
	case m.IsRequest():
		_ = w.write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeMethodNotFound, "no client takes requests here", nil))) // else it has ended
	case to != nil:
		to.add(event(m.Raw), "")
	default:
		w.h.s.log.Debug("a message of the server was dropped, since it may belong to several clients", "method", m.Method)
	}
}

// stray takes a message of a session's server that belongs to no request that is
// known: what belongs to the one under way as a rule goes to the newest, the rest
// to the stream for such, or whatever there is.
func (s *session) stray(m *jsonrpc.Message) {
	general := slices.Contains([]string{"notifications/resources/updated", "notifications/resources/list_changed",
		"notifications/tools/list_changed", "notifications/prompts/list_changed"}, m.Method)
	newest := s.wire.newest()
	s.mu.Lock()
	get := s.get
	if get != nil && !get.read() {
		get = nil
	}
	to := newest
	if get != nil && (general || newest == nil) {
		to = get
	}
	if to == nil && len(s.backlog) < maxBacklog {
		s.backlog = append(s.backlog, event(m.Raw))
	}
	s.mu.Unlock()
	if to != nil {
		to.add(event(m.Raw), "")
	}
}
