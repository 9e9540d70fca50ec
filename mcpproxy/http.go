package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// HTTPOptions say before what a [Handler] stands: exactly one of URL and Start.
// The zero value of each other field is its documented default.
type HTTPOptions struct {
	// URL is the address of a server that speaks Streamable HTTP. What a client
	// says at the level of HTTP passes through unchanged, in both directions.
	URL string
	// Headers returns headers that requests to URL get, in place of the client's
	// of the same names. An error fails the request before anything is sent.
	Headers func(ctx context.Context) (http.Header, error)
	// Client gives the transport to URL; redirects are the client's to follow.
	// It must repeat nothing by itself. Defaults to one of the handler's own.
	Client *http.Client

	// Start starts a server that speaks in lines, for each session of a client,
	// and once for all clients that have none; handle gets its messages.
	Start func(handle func(line []byte)) (Peer, error)
	// SessionIdle is how long a session lasts that nobody uses. Defaults to 30m.
	SessionIdle time.Duration
	// MaxSessions bounds the sessions. Defaults to 100.
	MaxSessions int

	// Hosts are names, without port, that the Host header may have beside
	// loopback addresses and localhost. "*": any.
	Hosts []string
	// Origins are the origins, such as https://agent.example, whose pages may
	// send requests beside those of this host and of loopback addresses.
	Origins []string
	// ScopeHeader is a header that a proxy in front, which nobody gets around,
	// sets to who the client is. Derived keys match within its value. Defaults to
	// all headers that look like credentials, such as Authorization and X-Api-Key: a
	// client that comes with another token is then another one, whose calls do not
	// meet those that it made before. The path below the mount and the query count
	// in any case.
	ScopeHeader string
	// Limit bounds a message in either direction, in bytes. Defaults to 64 MiB.
	Limit int64
}

// A Handler serves the clients of one MCP server over Streamable HTTP. It looks
// at the whole path that it is given: mount it with [http.StripPrefix]. It is
// safe for concurrent use. Close ends it.
//
// Streamable HTTP answers a call where it was made. The HTTP+SSE transport before
// it answers elsewhere: calls of tools through that end as unknown.
//
// Whether an answer has arrived is known better where the http.Server that it
// runs in has the hooks of [Connections].
type Handler struct {
	s     *Server
	o     HTTPOptions
	guard guard
	front front
	kept  flows
	// keepAlive is after how long of silence a client that waits gets a comment,
	// so that nothing in between takes its connection for dead.
	keepAlive time.Duration

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu      sync.Mutex
	closed  bool
	working sync.WaitGroup // requests, and what goes on after them
}

// A front is the handler's side towards one kind of server.
type front interface {
	// pass takes a POST that is not intercepted; m is nil for a batch and for
	// what only the server may judge.
	pass(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, body []byte)
	// other takes every other request.
	other(w http.ResponseWriter, r *http.Request)
	// carrier returns what carries an intercepted request; nil: the client was
	// answered.
	carrier(w http.ResponseWriter, r *http.Request, f *flow) carrier
	close()
}

// Handler returns a handler for clients of this server. The error tells which
// option is wrong.
func (s *Server) Handler(o *HTTPOptions) (*Handler, error) {
	if (o.URL == "") == (o.Start == nil) {
		return nil, errors.New("give the MCP server's URL, or how to start it, and not both")
	}
	h := &Handler{s: s, o: *o, guard: newGuard(o), keepAlive: 10 * time.Second}
	if h.o.Limit == 0 {
		h.o.Limit = jsonrpc.DefaultLimit
	}
	h.ctx, h.stop = context.WithCancel(context.Background())
	if o.Start != nil {
		h.front = newBridge(h)
		return h, nil
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		h.stop()
		return nil, errors.New("the MCP server's URL must be like https://host/path")
	}
	if u.User != nil || u.Fragment != "" {
		h.stop()
		return nil, errors.New("the MCP server's URL must have no user, password or fragment: give credentials as headers")
	}
	h.front = newProxy(h, u)
	return h, nil
}

// Close ends what the handler does: streams are closed, calls that were not sent
// are given up, and calls that were sent lose their client; servers that were
// started here get up to 30 s to answer those. It returns when no request is
// being served. Let the http.Server shut down before.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.front.close()
	h.working.Wait()
	h.kept.clear()
	return nil
}

// enter notes that something begins to work; false: the handler was closed.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.working.Add(1)
	}
	return !h.closed
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.enter() {
		refuse(w, http.StatusServiceUnavailable, nil, jsonrpc.CodeInternal, "the proxy is stopping; nothing was sent")
		return
	}
	defer h.working.Done()
	if why := h.guard.check(r); why != "" {
		refuse(w, http.StatusForbidden, nil, jsonrpc.CodeInvalidRequest, why)
		return
	}
	r, done := h.bound(w, r)
	defer done()
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r)
	case r.Method == http.MethodGet && h.resume(w, r):
	default:
		h.front.other(w, r)
	}
}

// bound ends a request with the handler, also where its client does not read.
// done must be called before the request's handler returns.
func (h *Handler) bound(w http.ResponseWriter, r *http.Request) (bound *http.Request, done func()) {
	ctx, cancel := context.WithCancel(r.Context())
	var mu sync.Mutex
	over := false
	stop := context.AfterFunc(h.ctx, func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		if !over {
			soon, rc := time.Now().Add(time.Second), http.NewResponseController(w)
			_, _ = rc.SetWriteDeadline(soon), rc.SetReadDeadline(soon) // not every writer has them
		}
	})
	return r.WithContext(ctx), func() {
		stop()
		cancel()
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

// post takes a message of a client.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		refuse(w, http.StatusUnsupportedMediaType, nil, jsonrpc.CodeInvalidRequest, "the body has a Content-Encoding: send it as it is")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.Limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the message is over %d bytes; nothing was sent", h.o.Limit))
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeParse, "the body could not be read to its end; nothing was sent")
		return
	}
	if len(bytes.TrimSpace(body)) == 0 {
		h.front.pass(w, r, nil, body)
		return
	}
	m, err := jsonrpc.Parse(body)
	switch e := (*jsonrpc.Error)(nil); {
	case errors.Is(err, jsonrpc.ErrBatch):
		h.batch(w, r, body)
	case errors.As(err, &e):
		if e.Code == jsonrpc.CodeParse || jsonrpc.Duplicate(body) != "" || callsTool(body) {
			refuse(w, http.StatusBadRequest, e.ID, e.Code, e.Message+"; nothing was sent")
			return
		}
		h.front.pass(w, r, nil, body) // the server says what it thinks
	case m.Method == "notifications/cancelled" && h.cancelled(r, m):
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/call" && !m.IsRequest():
		refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, "a tools/call needs an id: nobody would learn what became of it; nothing was sent")
	case m.Method != "tools/call":
		h.front.pass(w, r, m, body)
	default:
		h.call(w, r, m)
	}
}

// callsTool reports whether a lenient reader could take what is no message for
// a call of a tool.
func callsTool(body []byte) bool {
	found := false
	jsonrpc.Members(body, func(name string, v json.RawMessage) bool {
		var method string
		found = strings.EqualFold(name, "method") && json.Unmarshal(v, &method) == nil && strings.EqualFold(method, "tools/call")
		return !found
	})
	return found
}

// batch passes several messages on, unless one of them has an effect.
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, body []byte) {
	for _, e := range jsonrpc.Elements(body) {
		m, err := jsonrpc.Parse(e)
		switch bad := (*jsonrpc.Error)(nil); {
		case errors.As(err, &bad):
			refuse(w, http.StatusBadRequest, bad.ID, bad.Code, bad.Message+"; nothing was sent")
			return
		case err != nil:
			refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, "a batch within a batch; nothing was sent")
			return
		case m.Method == "tools/call" || m.Method == "notifications/cancelled":
			refuse(w, http.StatusBadRequest, m.ID, jsonrpc.CodeInvalidRequest, "calls of tools, and cancellations, are not taken in batches: send each by itself; nothing was sent")
			return
		}
	}
	h.front.pass(w, r, nil, body)
}

// call takes a tools/call.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	f := newFlow(h, r, m)
	c := h.front.carrier(w, r, f)
	if c == nil {
		f.cancel()
		return
	}
	in := &inbound{msg: m, version: f.version, scope: h.scope(r), gone: f.gone, unseen: h.kept.unseen}
	if h.s.has(jsonrpc.String(m.Params, "name")) {
		h.run(w, r, f, func() *response { return &response{raw: h.s.own(f.ctx, in)} })
		return
	}
	t, e := h.s.effect(f.ctx, in, &heldCarrier{c, f})
	switch {
	case e != nil:
		f.cancel()
		refuseObject(w, http.StatusBadRequest, m.ID, e)
	case t == nil:
		f.cancel()
		h.front.pass(w, r, m, m.Raw)
	default:
		if why := contradiction(r.Header, m, "name"); why != "" {
			f.cancel()
			refuse(w, http.StatusBadRequest, m.ID, codeHeaderMismatch, why)
			return
		}
		h.kept.begin(f)
		h.run(w, r, f, func() *response { return h.s.serve(t) })
	}
}

// cancelled takes a client's word that it does not want an answer any more.
// Before a call was sent that releases it; afterwards nothing stops it, and the
// server is not told. An answer that is on its way, as another connection is, is
// not believed to be read. false: the call is none that is intercepted.
func (h *Handler) cancelled(r *http.Request, m *jsonrpc.Message) bool {
	f := h.kept.call(h.owner(r), jsonrpc.Get(m.Params, "requestId"))
	if f == nil {
		return false
	}
	f.unwanted.Store(true)
	// Without a session it could be a call of somebody else with the same id: its
	// answer goes out.
	if r.Header.Get(headerSession) != "" && !f.over() {
		f.cancel()
	}
	return true
}

// run answers a request by serve, which may outlast the client's connection.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, f *flow, serve func() *response) {
	at := f.attach(0) // before there is something to be missed
	h.working.Go(func() { f.finish(serve()) })
	h.stream(w, r, f, at, false)
}
