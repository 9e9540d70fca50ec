package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// fromServer takes one message of a server.
func (r *relay) fromServer(start int, line []byte) {
	m, err := jsonrpc.Parse(line)
	if errors.Is(err, jsonrpc.ErrBatch) {
		r.batchFromServer(start, line)
		return
	}
	if err != nil {
		r.unreadable(line, err)
		return
	}
	if !m.IsResponse() {
		if m.IsRequest() {
			r.mu.Lock()
			r.asked[m.IDKey()] = question{m.ID, start}
			r.mu.Unlock()
		}
		r.toClient(line)
		return
	}
	p := r.take(m.IDKey())
	switch {
	case p == nil && strings.HasPrefix(string(m.ID), ownIDs):
		return // the answer to a question that nobody waits for any more
	case p == nil:
		// The client knows what to think of it.
	case p.reply != nil:
		p.reply <- mcpconn.Reply{Result: m.Result, Error: m.Error}
		return
	case p.method == "initialize" && m.Result != nil:
		r.mu.Lock()
		r.version, r.hello = jsonrpc.String(m.Result, "protocolVersion"), p.hello
		r.mu.Unlock()
	case p.method == "tools/list" && m.Result != nil:
		line = jsonrpc.Replace(line, m.Result, r.s.amend(m.Result))
	}
	r.toClient(line)
}

// batchFromServer passes several messages on in one line, unless the answer to a
// request that came by itself is among them: then one by one.
func (r *relay) batchFromServer(start int, line []byte) {
	list := jsonrpc.Elements(line)
	apart := false
	for _, e := range list {
		if m, err := jsonrpc.Parse(e); err == nil && m.IsResponse() {
			r.mu.Lock()
			p := r.pending[m.IDKey()]
			apart = apart || p != nil
			r.mu.Unlock()
		}
	}
	if !apart {
		r.toClient(line)
		return
	}
	for _, e := range list {
		r.fromServer(start, e)
	}
}

// unreadable passes on what is no message to us, for the client to judge, unless
// it answers an intercepted request: that has no answer then.
func (r *relay) unreadable(line []byte, why error) {
	r.s.log.Warn("a message of the server is none", "why", why)
	e := (*jsonrpc.Error)(nil)
	if errors.As(why, &e) && e.ID != nil {
		r.mu.Lock()
		p := r.pending[jsonrpc.Key(e.ID)]
		r.mu.Unlock()
		if p != nil && p.reply != nil && r.take(jsonrpc.Key(e.ID)) != nil {
			p.reply <- mcpconn.Reply{Cause: why}
			return
		}
	}
	r.toClient(line)
}

// ask sends a request of the relay's own, or an intercepted one, and waits for
// the answer.
func (r *relay) ask(ctx context.Context, id json.RawMessage, method string, raw []byte, write func([]byte) error) mcpconn.Reply {
	p, key := &pending{id: id, method: method, reply: make(chan mcpconn.Reply, 1)}, jsonrpc.Key(id)
	r.mu.Lock()
	r.pending[key] = p
	r.mu.Unlock()
	if err := write(raw); err != nil {
		reply := mcpconn.Reply{Cause: err}
		if errors.Is(err, mcpconn.ErrNotSent) {
			reply.Stage = mcpconn.Unsent
		}
		if r.take(key) == nil { // the server ended meanwhile
			<-p.reply
		}
		return reply
	}
	select {
	case reply := <-p.reply:
		return reply
	case <-ctx.Done():
		// The client's own stays pending: a late answer is not for the client.
		r.mu.Lock()
		p.given = true
		if strings.HasPrefix(key, ownIDs) {
			delete(r.pending, key)
		}
		r.mu.Unlock()
		r.maybeIdle()
		return mcpconn.Reply{Cause: ctx.Err()}
	}
}

func (r *relay) ownID() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	return json.RawMessage(ownIDs + strconv.Itoa(r.seq) + `"`)
}

// ownIDs is how the ids of the relay's own requests begin.
const ownIDs = `"dev.justonce/`

var errNoGreeting = errors.New("no client has shaken hands with the server yet")

// CallTool implements [mcpconn.Caller] for calls that no client makes.
func (r *relay) CallTool(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	r.mu.Lock()
	meta, greeted := r.modern, r.ready != nil || r.modern != nil
	r.mu.Unlock()
	if !greeted {
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: errNoGreeting}
	}
	if a := c.Attempt; a != nil {
		key, _ := json.Marshal(a.Key) // of a string never fails
		meta = jsonrpc.Set(meta, key, metaKey)
	}
	id := r.ownID()
	return r.ask(ctx, id, "tools/call", jsonrpc.Request(id, "tools/call", toolParams(c, meta)), r.toServer)
}

// toolParams returns the params of a call of the proxy's own; meta may be nil.
func toolParams(c *mcpconn.ToolCall, meta json.RawMessage) json.RawMessage {
	name, _ := json.Marshal(c.Name) // of a string never fails
	params := jsonrpc.Set(jsonrpc.Set(nil, name, "name"), c.Arguments, "arguments")
	if meta != nil {
		params = jsonrpc.Set(params, meta, "_meta")
	}
	return params
}

// protocolMeta returns the members of a request's _meta that belong to the
// protocol and not to the request; nil for none at all.
func protocolMeta(meta json.RawMessage) json.RawMessage {
	if meta == nil {
		return nil
	}
	out := json.RawMessage("{}")
	jsonrpc.Members(meta, func(name string, v json.RawMessage) bool {
		if strings.HasPrefix(name, "io.modelcontextprotocol/") {
			out = jsonrpc.Set(out, v, name)
		}
		return true
	})
	return out
}

// A lineCarrier carries an intercepted request under the client's own id.
type lineCarrier struct {
	r  *relay
	id json.RawMessage
}

func (c *lineCarrier) forward(ctx context.Context, raw []byte) mcpconn.Reply {
	return c.r.ask(ctx, c.id, "tools/call", raw, c.r.toServer)
}

func (c *lineCarrier) ask(ctx context.Context, call *mcpconn.ToolCall) mcpconn.Reply {
	return c.r.CallTool(ctx, call)
}
