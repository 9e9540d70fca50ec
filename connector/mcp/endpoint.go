package mcpconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/secret"
)

// EndpointOptions say what an [Endpoint] speaks to.
type EndpointOptions struct {
	URL string // absolute, http or https
	// Header gives further header fields, such as Authorization; it is asked for
	// each request, so that a rotated secret is taken up. Its values appear in no
	// error and no log; where an answer echoes a credential, which is told by the
	// field's name, it is replaced. Nil: none.
	Header func(ctx context.Context) (http.Header, error)
	// Client gives transport settings: TLS, proxy, DialContext. It is copied: its
	// redirect policy, timeout, cookies and HTTP/2 do not apply. Its transport
	// must be an *http.Transport, or one that never repeats a request. Defaults
	// to http.DefaultTransport's settings.
	Client *http.Client
	// Revision of MCP that is tried first, Revision2025 or Revision2026. Defaults
	// to Revision2025.
	Revision string
	Logger   *slog.Logger // defaults to discarding
}

const (
	connectTimeout = 10 * time.Second
	greetTimeout   = time.Minute
	// bodyLimit bounds an answer, and each event of one.
	bodyLimit = jsonrpc.DefaultLimit
	// linger is how long an attempt's answer is read on after nobody waits for
	// it: closing the stream would tell the server to stop halfway.
	linger = 10 * time.Minute
)

// An Endpoint is an MCP client over Streamable HTTP. It greets the server when
// it is first needed, and again when the server has forgotten its session. It is
// safe for concurrent use.
type Endpoint struct {
	o      EndpointOptions
	url    *url.URL
	client *httpask.Client
	log    *slog.Logger
	ids    atomic.Int64
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	wg     sync.WaitGroup
	params paramHeaders

	mu      sync.Mutex
	current *greeting
}

// A greeting is a session with the server, or the start of one.
type greeting struct {
	done    chan struct{} // the fields below are set
	d       dialect
	session string // "": the server has none
	err     error
}

var _ Caller = (*Endpoint)(nil)

// NewEndpoint returns an endpoint. Nothing is sent yet.
func NewEndpoint(o *EndpointOptions) (*Endpoint, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL of the MCP server cannot be read") // and may hold what must not be repeated
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the URL of the MCP server must begin with http:// or https:// and have a host")
	case u.User != nil:
		return nil, errors.New("the URL of the MCP server must hold no credentials: give them as a header")
	}
	u.Fragment = ""
	e := &Endpoint{o: *o, url: u, client: httpask.NewClient(o.Client, connectTimeout), log: o.Logger}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.ctx, e.end = context.WithCancel(context.Background())
	return e, nil
}

// ready returns the greeting of the server, which may be a new one.
func (e *Endpoint) ready(ctx context.Context) (*greeting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g, err := e.greeting()
	if err != nil {
		return nil, err
	}
	select {
	case <-g.done:
		return g, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *Endpoint) greeting() (*greeting, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return nil, errClosed
	}
	if e.current != nil {
		return e.current, nil
	}
	g := &greeting{done: make(chan struct{})}
	e.current = g
	e.wg.Go(func() { // Close cannot have begun: it takes the lock
		ctx, cancel := context.WithTimeout(e.ctx, greetTimeout)
		defer cancel()
		g.d, g.err = negotiate(ctx, &greeter{e, g}, e.o.Revision)
		if g.err != nil {
			e.forget(g) // the next call tries again
			e.log.Warn("the MCP server is not ready", "error", g.err)
		}
		close(g.done)
	})
	return g, nil
}

// spawn runs f, and Close waits for it; false: it is too late.
func (e *Endpoint) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return false
	}
	e.wg.Go(f)
	return true
}

// forget drops a session that the server does not know any more.
func (e *Endpoint) forget(g *greeting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == g {
		e.current = nil
	}
}

var errForgotten = errors.New("the MCP server has forgotten the session; the next call makes a new one")

// A greeter asks within a session, also one that is only being made.
type greeter struct {
	e *Endpoint
	g *greeting
}

// ask implements speaker.
func (s *greeter) ask(ctx context.Context, d dialect, method string, params json.RawMessage) (*jsonrpc.Message, error) {
	x := s.e.exchange(s.g, d, method, params)
	r := x.do(ctx)
	switch {
	case r.Answered():
		if method == "initialize" && x.session != "" {
			s.g.session = x.session
		}
		return &jsonrpc.Message{Result: r.Result, Error: r.Error}, nil
	case r.Cause != nil:
		return nil, r.Cause
	case s.g.session != "" && (r.Status == http.StatusNotFound || r.Status == http.StatusBadRequest):
		s.e.forget(s.g)
		return nil, errForgotten
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		return nil, fmt.Errorf("the MCP server answered %d: check the credentials", r.Status)
	case r.Status >= 400 && r.Status < 500:
		return nil, &refusal{fmt.Sprintf("the MCP server answered %s with %d", method, r.Status)}
	}
	return nil, fmt.Errorf("the MCP server answered %s with %d", method, r.Status)
}

// tell implements speaker.
func (s *greeter) tell(ctx context.Context, d dialect, method string, params json.RawMessage) error {
	return s.e.post(ctx, s.g.session, d, jsonrpc.Request(nil, method, params))
}

// CallTool implements [Caller]. An attempt goes over a connection of its own.
// When ctx ends, a lookup is cancelled at the server; an attempt that was sent
// never is: its answer is read on, for up to 10 minutes.
func (e *Endpoint) CallTool(ctx context.Context, c *ToolCall) Reply {
	r, gone := e.callTool(ctx, c)
	if gone && c.Attempt == nil && ctx.Err() == nil {
		r, _ = e.callTool(ctx, c)
	}
	return r
}

// callTool is CallTool; it also returns whether the server had forgotten the
// session, which there will then be a new one of.
func (e *Endpoint) callTool(ctx context.Context, c *ToolCall) (Reply, bool) {
	g, err := e.ready(ctx)
	if err != nil {
		return Reply{Stage: Unsent, Cause: err}, false
	}
	s := &greeter{e, g}
	x := e.exchange(g, g.d, "tools/call", g.d.params(callParams(c)))
	if g.d.modern {
		x.name = c.Name
		if x.more, err = e.params.of(ctx, s, g.d, c); err != nil {
			return Reply{Stage: Unsent, Cause: err}, false
		}
	}
	x.attempt = c.Attempt != nil
	r := x.run(ctx)
	switch {
	case r.Error != nil && errorOf(r.Error).Code == codeHeaderMismatch:
		// The server's tools have changed. It has not looked at the call.
		e.params.forget()
		return Reply{Status: r.Status, Stage: Unsent, Cause: errors.New("the MCP server wants other header fields than its list of tools said")}, false
	case !r.Answered() && g.session != "" && r.Status == http.StatusNotFound:
		e.forget(g)
		return Reply{Status: r.Status, Stage: Unsent, Cause: errForgotten}, true
	case !r.Answered() && g.session != "" && r.Status == http.StatusBadRequest:
		e.forget(g) // what some servers say instead
		return r, true
	case !r.Answered() && c.Attempt == nil && ctx.Err() != nil && r.Stage == Sent && !g.d.modern:
		ctx, cancel := context.WithTimeout(e.ctx, closeTimeout)
		defer cancel()
		_ = s.tell(ctx, g.d, "notifications/cancelled", cancelled(x.id)) // it does no harm if it goes on
	}
	return r, false
}

// ListTools returns the server's tools as it sent them, all pages.
func (e *Endpoint) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	for again := false; ; again = true {
		g, err := e.ready(ctx)
		if err != nil {
			return nil, err
		}
		tools, err := listTools(ctx, &greeter{e, g}, g.d)
		if again || !errors.Is(err, errForgotten) {
			return tools, err
		}
	}
}

// closeTimeout bounds what is said at the end of something, in vain perhaps.
const closeTimeout = 2 * time.Second

// Close ends the session at the server, if it answers within 2 s, and returns
// when nothing is left. Calls under way end without an answer.
func (e *Endpoint) Close() {
	e.mu.Lock()
	g := e.current
	e.current = nil
	first := e.ctx.Err() == nil
	e.end()
	e.mu.Unlock()
	e.wg.Wait()
	if first && g != nil && g.err == nil && g.session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if b, err := e.built(ctx, http.MethodDelete, g.session, g.d, nil); err == nil {
			if resp, _ := e.client.Open(ctx, b, false); resp != nil {
				_ = resp.Body.Close()
			}
		}
	}
	e.client.Close()
}

// built returns a request with the header fields that all have.
func (e *Endpoint) built(ctx context.Context, method, session string, d dialect, body []byte) (*httpask.Built, error) {
	b := &httpask.Built{Method: method, URL: e.url, Header: http.Header{}, Body: body}
	if e.o.Header != nil {
		h, err := e.o.Header(ctx)
		if err != nil {
			return nil, errors.New("the header fields for the MCP server could not be had") // whose error may hold them
		}
		for name, values := range h {
			name = http.CanonicalHeaderKey(name)
			if !httpask.Settable(name) || strings.HasSuffix(name, "Idempotency-Key") {
				continue // net/http repeats what has such a key
			}
			b.Header[name] = values
			hide(&b.Redact, values)
		}
	}
	b.Header.Set("User-Agent", "justonce")
	if body != nil {
		b.Header.Set("Content-Type", "application/json")
		b.Header.Set("Accept", "application/json, text/event-stream")
	}
	if d.version != "" {
		b.Header.Set("MCP-Protocol-Version", d.version)
	}
	if session != "" {
		b.Header.Set("Mcp-Session-Id", session)
		b.Redact.Hide(session)
	}
	return b, nil
}

// hide hides header values, also without a scheme before them.
func hide(r *secret.Redactor, values []string) {
	for _, v := range values {
		_, credentials, _ := strings.Cut(v, " ")
		r.Hide(v, credentials)
	}
}

// secrets returns what hides the credentials among header fields. Others may
// have values that answers have by themselves.
func secrets(h http.Header) secret.Redactor {
	var r secret.Redactor
	for name, values := range h {
		name = strings.ToLower(name)
		for _, part := range []string{"auth", "key", "token", "secret", "cookie", "password"} {
			if strings.Contains(name, part) {
				hide(&r, values)
				break
			}
		}
	}
	return r
}

// post sends a message that has no answer.
func (e *Endpoint) post(ctx context.Context, session string, d dialect, message []byte) error {
	b, err := e.built(ctx, http.MethodPost, session, d, message)
	if err != nil {
		return err
	}
	resp, x := e.client.Open(ctx, b, true)
	if resp == nil {
		return x.Err
	}
	drain(resp)
	if resp.StatusCode >= 300 {
		return fmt.Errorf("the MCP server answered a notification with %d", resp.StatusCode)
	}
	return nil
}
