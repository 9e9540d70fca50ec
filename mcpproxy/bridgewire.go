package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A wire is a server that speaks in lines, and the requests that it has not
// answered. With remap, requests of several clients share it under ids and
// progress tokens of the wire's own.
type wire struct {
	h     *Handler
	remap bool
	stray func(*jsonrpc.Message) // takes what belongs to no request
	ended func()                 // told when the server has ended; nil: it is started again

	starting sync.Mutex // one start at a time
	pace     pace

	mu      sync.Mutex
	several bool // clients have sent requests
	seen    bool // one has: client
	client  owner
	peer    Peer
	err     error // why there is none
	over    bool  // there will be none
	pending map[string]*request
	order   []*request // the oldest first
	seq     int
	quiet   chan struct{} // told when calls with effects may be over

	watching sync.WaitGroup
}

// A request is one that the server has not answered.
type request struct {
	id     json.RawMessage // as the server knows it
	f      *flow           // of its client; nil: it has none
	token  json.RawMessage // for progress, as the client knows it; nil: none
	effect bool
	answer chan *answer // holds one
}

// An answer is what came of a request.
type answer struct {
	mcpconn.Reply
	id   json.RawMessage
	line []byte // the response; nil: none
}

func newWire(h *Handler, remap bool) *wire {
	return &wire{h: h, remap: remap, pending: map[string]*request{}, quiet: make(chan struct{}, 1)}
}

// status is that of HTTP for an answer, as the versions without sessions want
// it.
func (w *wire) status(e json.RawMessage) int {
	if !w.remap {
		return http.StatusOK
	}
	switch string(jsonrpc.Get(e, "code")) {
	case "-32601":
		return http.StatusNotFound
	case "-32700", "-32600", "-32020", "-32021", "-32022":
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// ask sends a request, once, and waits for its answer or the end of ctx.
func (w *wire) ask(ctx context.Context, f *flow, raw []byte, effect bool) *answer {
	a := &request{id: jsonrpc.Get(raw, "id"), f: f, effect: effect, answer: make(chan *answer, 1)}
	a.token = jsonrpc.Get(raw, "params", "_meta", "progressToken")
	w.mu.Lock()
	if w.remap {
		w.seq++
		a.id = json.RawMessage(`"justonce/` + strconv.Itoa(w.seq) + `"`)
		raw = jsonrpc.Set(raw, a.id, "id")
		if a.token != nil {
			raw = jsonrpc.Set(raw, a.id, "params", "_meta", "progressToken")
		}
	}
	if a.f != nil {
		w.several = w.several || w.seen && w.client != a.f.owner
		w.seen, w.client = true, a.f.owner
	}
	_, taken := w.pending[jsonrpc.Key(a.id)]
	if !taken {
		w.pending[jsonrpc.Key(a.id)] = a
		w.order = append(w.order, a)
	}
	w.mu.Unlock()
	if taken {
		// The other one gets the answer. Nothing was sent.
		e := jsonrpc.ErrorObject(jsonrpc.CodeInvalidRequest, "the id is in use by a request under way; nothing was sent", nil)
		return &answer{Reply: mcpconn.Reply{Error: e}, line: jsonrpc.ErrorResponse(a.id, e)}
	}
	if err := w.write(raw); err != nil {
		reply := mcpconn.Reply{Cause: err}
		if errors.Is(err, mcpconn.ErrNotSent) {
			reply.Stage = mcpconn.Unsent
		}
		w.take(jsonrpc.Key(a.id))
		return &answer{Reply: reply, id: a.id}
	}
	select {
	case r := <-a.answer:
		return r
	case <-ctx.Done():
		// It stays pending: a late answer is for nobody.
		return &answer{Reply: mcpconn.Reply{Cause: ctx.Err()}, id: a.id}
	}
}

// callTool makes a call of the proxy's own, with what belongs to the protocol in
// the meta of a client's.
func (w *wire) callTool(ctx context.Context, c *mcpconn.ToolCall, meta json.RawMessage) mcpconn.Reply {
	params := toolParams(c, protocolMeta(meta))
	w.mu.Lock()
	w.seq++
	id := json.RawMessage(ownIDs + strconv.Itoa(w.seq) + `"`)
	w.mu.Unlock()
	return w.ask(ctx, nil, jsonrpc.Request(id, "tools/call", params), false).Reply
}

// take removes a request.
func (w *wire) take(id string) *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.pending[id]
	if a == nil {
		return nil
	}
	delete(w.pending, id)
	for i := range w.order {
		if w.order[i] == a {
			w.order = append(w.order[:i:i], w.order[i+1:]...)
			break
		}
	}
	w.maybeQuiet()
	return a
}

func (w *wire) maybeQuiet() {
	select {
	case w.quiet <- struct{}{}:
	default:
	}
}

// tell passes on a notification or a response of a client.
func (w *wire) tell(m *jsonrpc.Message) error {
	if w.remap && (m.Method == "notifications/cancelled" || m.IsResponse()) {
		// A client's ids mean nothing to this server. To cancel, one closes the
		// stream; and the server's requests are not the clients' to answer.
		return nil
	}
	return w.write(m.Raw)
}

// cancel tells the server that nobody wants an answer any more.
func (w *wire) cancel(id json.RawMessage) {
	if id == nil || w.take(jsonrpc.Key(id)) == nil {
		return
	}
	params := append(append([]byte(`{"requestId":`), id...), '}')
	w.mu.Lock()
	p := w.peer
	w.mu.Unlock()
	if p != nil {
		_ = p.Write(jsonrpc.Request(nil, "notifications/cancelled", params)) // it need not know
	}
}

var errOver = fmt.Errorf("%w: the session is over", mcpconn.ErrNotSent)

// write hands a message to the server, which is started if it does not run.
func (w *wire) write(raw []byte) error {
	w.mu.Lock()
	p, over := w.peer, w.over
	w.mu.Unlock()
	if over && p == nil {
		return errOver
	}
	if p == nil {
		var err error
		if p, err = w.start(); err != nil {
			return fmt.Errorf("%w: %w", mcpconn.ErrNotSent, err)
		}
	}
	return p.Write(raw)
}

// start starts the server unless it runs.
func (w *wire) start() (Peer, error) {
	w.starting.Lock()
	defer w.starting.Unlock()
	w.mu.Lock()
	p, over, err := w.peer, w.over, w.err
	w.mu.Unlock()
	switch {
	case p != nil:
		return p, nil
	case over:
		return nil, errOver
	}
	if err := w.pace.wait(err); err != nil {
		return nil, err
	}
	p, err = w.h.o.Start(w.fromServer)
	if err != nil {
		w.later(err, 0)
		return nil, err
	}
	w.mu.Lock()
	if over = w.over; !over {
		w.peer, w.err = p, nil
		began := time.Now()
		w.watching.Go(func() { w.watch(p, began) })
	}
	w.mu.Unlock()
	if over {
		p.Close()
		return nil, errOver
	}
	return p, nil
}

// later puts off the next start of a server that ended, or did not start, after
// it had lived. starting is locked.
func (w *wire) later(err error, lived time.Duration) {
	w.pace.failed(lived)
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
}

// watch waits for the server's end and tells everybody who waits for it.
func (w *wire) watch(p Peer, began time.Time) {
	<-p.Done()
	err := p.Err()
	if err == nil {
		err = errors.New("the server has ended")
	}
	w.starting.Lock()
	w.later(err, time.Since(began))
	w.starting.Unlock()
	w.mu.Lock()
	w.peer = nil
	lost := w.order
	w.pending, w.order = map[string]*request{}, nil
	w.over = w.over || w.ended != nil
	w.maybeQuiet()
	w.mu.Unlock()
	for _, a := range lost {
		a.answer <- &answer{Reply: mcpconn.Reply{Cause: err}, id: a.id}
	}
	if w.ended != nil {
		w.ended()
	}
}

// linger is how long calls under way may take to end when their session does.
const linger = 30 * time.Second

// finish ends the server, once the calls that were sent are answered, or time is
// up.
func (w *wire) finish() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for w.sending() {
		select {
		case <-w.quiet:
		case <-timer.C:
			w.stop()
			return
		}
	}
	w.stop()
}

func (w *wire) sending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.order {
		if a.effect {
			return true
		}
	}
	return false
}

func (w *wire) stop() {
	w.mu.Lock()
	p := w.peer
	w.mu.Unlock()
	if p != nil {
		p.Close()
	}
	w.watching.Wait()
}
