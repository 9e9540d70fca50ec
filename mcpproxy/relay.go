package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A relay carries messages between a client that speaks in lines and its
// server. Ids pass unchanged; requests of the relay's own have ids that no
// client makes up.
type relay struct {
	s     *Server
	o     *StdioOptions
	out   *jsonrpc.LineWriter
	acks  *receipts
	ctx   context.Context // ends once the client is gone for good
	leave context.CancelFunc
	// serving ends when the relay is to end; calls under way may outlive it.
	serving context.Context
	broken  chan struct{}   // closed when the client takes nothing any more
	lost    <-chan struct{} // the same, until that was seen
	once    sync.Once
	gone    chan struct{} // closed when the client will send nothing any more
	calls   sync.WaitGroup

	starting sync.Mutex // one start at a time
	tries    int
	next     time.Time // not before

	mu      sync.Mutex
	peer    Peer
	err     error // why there is none
	pending map[string]*pending
	turns   map[string]context.CancelFunc
	idle    chan struct{} // told when pending or turns may have become empty
	hello   []byte        // the client's initialize
	ready   []byte        // and notifications/initialized
	version string
	modern  json.RawMessage // _meta of a client whose requests carry the version
	seq     int
}

// pending is a request that the server has not answered.
type pending struct {
	id     json.RawMessage
	method string
	reply  chan mcpconn.Reply // of requests that are not the client's alone; holds one
}

func newRelay(ctx context.Context, s *Server, o *StdioOptions) *relay {
	r := &relay{s: s, serving: ctx, o: o, out: jsonrpc.NewLineWriter(o.Out), acks: &receipts{out: outlet{o.Out}},
		broken: make(chan struct{}), gone: make(chan struct{}), idle: make(chan struct{}, 1),
		pending: map[string]*pending{}, turns: map[string]context.CancelFunc{}}
	r.lost = r.broken
	r.ctx, r.leave = context.WithCancel(context.Background())
	return r
}

// toClient writes one message to the client.
func (r *relay) toClient(line []byte) { r.answerTo("", line, nil) }

// answerTo writes the answer to a request.
func (r *relay) answerTo(id string, line []byte, d *delivery) {
	if err := r.out.Write(line); err != nil {
		d.report(false)
		r.once.Do(func() { close(r.broken) })
		return
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
	case err == nil:
	case errors.Is(err, jsonrpc.ErrBatch):
		r.batch(line)
		return
	default:
		r.refuse(err)
		return
	}
	if m.Method != "notifications/cancelled" {
		r.acks.check(false, 0)
	}
	switch {
	case m.IsRequest():
		r.request(m)
	case m.Method == "notifications/cancelled":
		r.cancelled(m)
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

func (r *relay) refuse(err error) {
	e := &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: err.Error()}
	errors.As(err, &e)
	r.toClient(jsonrpc.ErrorResponse(e.ID, jsonrpc.ErrorObject(e.Code, e.Message+"; nothing was sent", nil)))
}

// batch passes on several messages in one line, as the version 2025-03-26 of the
// protocol had them, unless one of them has an effect.
func (r *relay) batch(line []byte) {
	for _, e := range jsonrpc.Elements(line) {
		m, err := jsonrpc.Parse(e)
		if err != nil {
			r.refuse(err)
			return
		}
		if m.Method == "tools/call" {
			r.refuse(&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, ID: m.ID, Message: "calls of tools are not taken in batches: send each by itself"})
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
	in := &inbound{msg: m, version: r.spoken(), gone: r.gone, unseen: r.acks.refuse}
	if m.Method == "tools/call" && r.s.has(jsonrpc.String(m.Params, "name")) {
		r.answer(m, func(ctx context.Context) *response { return &response{raw: r.s.own(ctx, in)} })
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	t, e := r.s.effect(ctx, in, &lineCarrier{r, m.ID})
	switch {
	case e != nil:
		cancel()
		r.toClient(jsonrpc.ErrorResponse(m.ID, e))
	case t != nil:
		if !r.begin(m, cancel) {
			cancel()
			return
		}
		go r.end(m, func() *response { return r.s.serve(t) })
	default:
		cancel()
		if m.Method == "initialize" {
			r.mu.Lock()
			r.hello = m.Raw
			r.mu.Unlock()
		}
		r.pass(m)
	}
}

// answer answers a request of the client without the server.
func (r *relay) answer(m *jsonrpc.Message, f func(ctx context.Context) *response) {
	ctx, cancel := context.WithCancel(r.ctx)
	if !r.begin(m, cancel) {
		cancel()
		return
	}
	go r.end(m, func() *response { return f(ctx) })
}

// begin notes a request that the relay answers itself.
func (r *relay) begin(m *jsonrpc.Message, cancel context.CancelFunc) bool {
	r.mu.Lock()
	_, a := r.turns[m.IDKey()]
	_, b := r.pending[m.IDKey()]
	if !a && !b {
		r.turns[m.IDKey()] = cancel
	}
	r.mu.Unlock()
	if a || b {
		r.toClient(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInvalidRequest, "the id is in use by a request under way; nothing was sent", nil)))
		return false
	}
	r.calls.Add(1)
	return true
}

func (r *relay) end(m *jsonrpc.Message, f func() *response) {
	defer r.calls.Done()
	res := f()
	if res.raw != nil {
		r.answerTo(m.IDKey(), res.raw, res.delivery)
	}
	r.mu.Lock()
	cancel := r.turns[m.IDKey()]
	delete(r.turns, m.IDKey())
	r.mu.Unlock()
	cancel()
	r.maybeIdle()
}

// cancelled takes the client's word that it does not want an answer any more.
// Before a call was sent that releases it; afterwards nothing stops it.
func (r *relay) cancelled(m *jsonrpc.Message) {
	id := string(jsonrpc.Get(m.Params, "requestId"))
	r.acks.unwanted(id)
	r.mu.Lock()
	cancel, ours := r.turns[id]
	r.mu.Unlock()
	if ours {
		cancel()
		return
	}
	r.take(id) // the server need not answer any more
	_ = r.toServer(m.Raw)
}

// pass hands a request to the server as it is.
func (r *relay) pass(m *jsonrpc.Message) {
	p := &pending{id: m.ID, method: m.Method}
	r.mu.Lock()
	_, taken := r.turns[m.IDKey()]
	if !taken {
		r.pending[m.IDKey()] = p
	}
	r.mu.Unlock()
	if taken {
		r.toClient(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInvalidRequest, "the id is in use by a request under way; nothing was sent", nil)))
		return
	}
	if err := r.toServer(m.Raw); err != nil && r.take(m.IDKey()) != nil {
		r.toClient(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInternal, err.Error(), nil)))
	}
}

// take removes a pending request.
func (r *relay) take(id string) *pending {
	r.mu.Lock()
	p := r.pending[id]
	delete(r.pending, id)
	r.mu.Unlock()
	r.maybeIdle()
	return p
}

func (r *relay) maybeIdle() {
	select {
	case r.idle <- struct{}{}:
	default:
	}
}

func (r *relay) quiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending) == 0 && len(r.turns) == 0
}

func (r *relay) spoken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// fromServer takes one message of the server.
func (r *relay) fromServer(line []byte) {
	m, err := jsonrpc.Parse(line)
	if errors.Is(err, jsonrpc.ErrBatch) {
		r.toClient(line)
		return
	}
	if err != nil {
		r.s.log.Warn("a message of the server was dropped", "why", err)
		return
	}
	if !m.IsResponse() {
		r.toClient(line)
		return
	}
	p := r.take(m.IDKey())
	switch {
	case p == nil:
		r.toClient(line) // the client knows what to think of it
		return
	case p.reply != nil:
		p.reply <- mcpconn.Reply{Result: m.Result, Error: m.Error}
		return
	case p.method == "initialize" && m.Result != nil:
		r.mu.Lock()
		r.version = jsonrpc.String(m.Result, "protocolVersion")
		r.mu.Unlock()
	case p.method == "tools/list" && m.Result != nil:
		line = jsonrpc.Replace(line, m.Result, r.s.amend(m.Result))
	}
	r.toClient(line)
}

// ask sends a request of the relay's own, or an intercepted one, and waits for
// the answer.
func (r *relay) ask(ctx context.Context, id json.RawMessage, method string, raw []byte, write func([]byte) error) mcpconn.Reply {
	p := &pending{id: id, method: method, reply: make(chan mcpconn.Reply, 1)}
	r.mu.Lock()
	r.pending[string(id)] = p
	r.mu.Unlock()
	if err := write(raw); err != nil {
		reply := mcpconn.Reply{Cause: err}
		if errors.Is(err, mcpconn.ErrNotSent) {
			reply.Stage = mcpconn.Unsent
		}
		if r.take(string(id)) == nil { // the server ended meanwhile
			<-p.reply
		}
		return reply
	}
	select {
	case reply := <-p.reply:
		return reply
	case <-ctx.Done():
		// It stays pending: a late answer is not for the client.
		return mcpconn.Reply{Cause: ctx.Err()}
	}
}

func (r *relay) ownID() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	return json.RawMessage(`"dev.justonce/` + strconv.Itoa(r.seq) + `"`)
}

// CallTool implements [mcpconn.Caller] for calls that no client makes.
func (r *relay) CallTool(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	params := struct {
		Meta      json.RawMessage `json:"_meta,omitempty"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{Name: c.Name, Arguments: c.Arguments}
	r.mu.Lock()
	params.Meta = r.modern
	r.mu.Unlock()
	if a := c.Attempt; a != nil {
		key, _ := json.Marshal(a.Key)
		params.Meta = jsonrpc.Set(params.Meta, key, metaKey)
	}
	b, err := json.Marshal(params)
	if err != nil {
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: err}
	}
	id := r.ownID()
	return r.ask(ctx, id, "tools/call", jsonrpc.Request(id, "tools/call", b), r.toServer)
}

// protocolMeta returns the members of a request's _meta that belong to the
// protocol and not to the request.
func protocolMeta(meta json.RawMessage) json.RawMessage {
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

// lingerOthers bounds the waiting for what has no effect.
const lingerOthers = 30 * time.Second

// linger ends the conversation: what is under way is waited for.
func (r *relay) linger() {
	limit := r.o.Linger
	if limit == 0 {
		limit = 5 * time.Minute
	}
	close(r.gone)
	all, some := time.NewTimer(min(limit, lingerOthers)), time.NewTimer(limit)
	defer all.Stop()
	defer some.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	read := true // somebody may still read answers
	for read && !r.quiet() || r.sending() {
		select {
		case <-r.idle:
		case <-look.C:
			if _, _, gone, _ := r.acks.out.unread(); gone {
				read = false
			}
		case <-r.lost:
			read = false
			r.lost = nil // once is enough
		case <-all.C:
			read = false
		case <-some.C:
			r.close()
			return
		}
	}
	r.close()
}

// sending reports whether an intercepted request is with the server.
func (r *relay) sending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pending {
		if p.reply != nil {
			return true
		}
	}
	return false
}

func (r *relay) close() {
	r.leave()
	r.mu.Lock()
	p := r.peer
	r.peer, r.err = nil, io.EOF
	r.mu.Unlock()
	if p != nil {
		p.Close()
	}
	r.calls.Wait()
	r.acks.stop()
}

var errEnded = errors.New("the conversation is over")

// toServer hands a message to the server, which is started again if it has
// ended.
func (r *relay) toServer(line []byte) error {
	r.mu.Lock()
	p, err := r.peer, r.err
	r.mu.Unlock()
	if p == nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %w", mcpconn.ErrNotSent, errEnded)
		}
		if err := r.connect(r.serving); err != nil {
			return fmt.Errorf("%w: %w", mcpconn.ErrNotSent, err)
		}
		r.mu.Lock()
		p = r.peer
		r.mu.Unlock()
		if p == nil {
			return fmt.Errorf("%w: the server ended at once", mcpconn.ErrNotSent)
		}
	}
	return p.Write(line)
}
