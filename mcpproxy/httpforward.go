package mcpproxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
)

// An httpCarrier carries an intercepted request to a server that speaks HTTP,
// with its client's headers.
type httpCarrier struct {
	p      *proxy
	f      *flow
	url    *url.URL
	header http.Header
}

func (p *proxy) carrier(w http.ResponseWriter, r *http.Request, f *flow) carrier {
	u, err := p.target(r.URL)
	if err != nil {
		refuse(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, err.Error())
		return nil
	}
	header := endToEnd(r.Header)
	p.origin(r, header)
	header.Del("Content-Length")
	header.Set("Accept-Encoding", "identity")
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = nil
	}
	return &httpCarrier{p: p, f: f, url: u, header: header}
}

func (c *httpCarrier) forward(ctx context.Context, raw []byte) mcpconn.Reply {
	c.f.sending()
	x := &exchange{p: c.p, f: c.f, url: c.url, header: c.header, id: c.f.id}
	return x.run(ctx, raw)
}

func (c *httpCarrier) ask(ctx context.Context, call *mcpconn.ToolCall) mcpconn.Reply {
	params := struct {
		Meta      json.RawMessage `json:"_meta,omitempty"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{Name: call.Name, Arguments: call.Arguments}
	if c.f.meta != nil {
		params.Meta = protocolMeta(c.f.meta)
	}
	b, err := json.Marshal(params)
	if err != nil {
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: err}
	}
	header := c.header.Clone()
	for name := range header {
		if strings.HasPrefix(name, headerParam) {
			header.Del(name) // of another tool
		}
	}
	header.Del("Idempotency-Key")
	if header.Get(headerName) != "" {
		header.Set(headerName, encodeName(call.Name))
	}
	id := json.RawMessage(`"dev.justonce/lookup"`)
	x := &exchange{p: c.p, url: c.url, header: header, id: id}
	return x.run(ctx, jsonrpc.Request(id, "tools/call", b))
}

// An exchange is one request to the server, and all that comes of it.
type exchange struct {
	p      *proxy
	f      *flow // nil: only the answer is wanted
	url    *url.URL
	header http.Header
	id     json.RawMessage

	last  string // the last event with an id
	retry time.Duration
}

// run sends a tools/call, once, and waits for its answer.
func (x *exchange) run(ctx context.Context, raw []byte) mcpconn.Reply {
	resp, unsent, err := x.send(ctx, http.MethodPost, x.header, raw)
	switch {
	case err != nil && unsent && ctx.Err() == nil:
		why := "the MCP server cannot be reached; nothing was sent"
		x.heading(&head{status: http.StatusBadGateway, header: http.Header{"Content-Type": {"application/json"}},
			body: jsonrpc.ErrorResponse(x.id, jsonrpc.ErrorObject(jsonrpc.CodeInternal, why, nil))})
		return mcpconn.Reply{Status: http.StatusBadGateway, Stage: mcpconn.Withdrawn, Cause: fmt.Errorf("%s: %w", why, err)}
	case err != nil && unsent:
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: err}
	case err != nil:
		return mcpconn.Reply{Cause: fmt.Errorf("the MCP server did not answer: %w", err)}
	}
	if resp.StatusCode == http.StatusOK && mediaType(resp.Header) == "text/event-stream" {
		x.heading(&head{status: resp.StatusCode, header: answerHeader(resp.Header), stream: true})
		return x.follow(ctx, resp)
	}
	return x.whole(resp)
}

func (x *exchange) heading(h *head) {
	if x.f != nil {
		x.f.heading(h)
	}
}

func (x *exchange) answered(e *sse.Event) {
	if x.f != nil {
		x.f.answeredBy(e)
	}
}

// answerHeader returns the headers of an answer whose body may change.
func answerHeader(h http.Header) http.Header {
	h = endToEnd(h)
	h.Del("Content-Length")
	return h
}

// send sends one request. unsent: it certainly did not reach the server.
func (x *exchange) send(ctx context.Context, method string, header http.Header, body []byte) (resp *http.Response, unsent bool, err error) {
	header = header.Clone()
	if x.p.h.o.Headers != nil {
		more, err := x.p.h.o.Headers(ctx)
		if err != nil {
			return nil, true, fmt.Errorf("the credentials could not be had: %w", err)
		}
		copyHeader(header, more)
	}
	t := &sendTrace{}
	u := *x.url
	// No GetBody: with it net/http sends a POST a second time when a kept-alive
	// connection turns out dead and it has an Idempotency-Key.
	req := (&http.Request{Method: method, URL: &u, Host: u.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).
		WithContext(httptrace.WithClientTrace(ctx, t.hooks()))
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	if resp, err = x.p.transport.RoundTrip(req); err != nil {
		return nil, t.unsent(), err
	}
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.Body = &gunzip{body: resp.Body}
	}
	return resp, false, nil
}

// A sendTrace notes whether a request got a connection.
type sendTrace struct {
	mu         sync.Mutex
	asked, got bool
}

func (t *sendTrace) hooks() *httptrace.ClientTrace {
	note := func(b *bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		*b = true
	}
	return &httptrace.ClientTrace{
		GetConn: func(string) { note(&t.asked) },
		GotConn: func(httptrace.GotConnInfo) { note(&t.got) },
	}
}

// unsent reports whether the request never had a connection to go out on.
func (t *sendTrace) unsent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked && !t.got
}

// A gunzip unpacks a body that was packed though nobody asked for it.
type gunzip struct {
	body io.ReadCloser
	r    *gzip.Reader
}

func (g *gunzip) Read(b []byte) (int, error) {
	if g.r == nil {
		var err error
		if g.r, err = gzip.NewReader(g.body); err != nil {
			return 0, err
		}
	}
	return g.r.Read(b)
}

func (g *gunzip) Close() error { return g.body.Close() }

// whole reads an answer that comes in one piece.
func (x *exchange) whole(resp *http.Response) mcpconn.Reply {
	body, err := readAll(resp.Body, x.p.h.o.Limit)
	resp.Body.Close()
	h := &head{status: resp.StatusCode, header: answerHeader(resp.Header), body: body}
	if err != nil && resp.StatusCode < 300 {
		return mcpconn.Reply{Cause: fmt.Errorf("the MCP server's answer could not be read: %w", err)}
	}
	if told := x.p.astray(resp, x.id); told != nil {
		h.status, h.header, h.body = http.StatusBadGateway, http.Header{"Content-Type": {"application/json"}}, told
		x.heading(h)
		return mcpconn.Reply{Status: h.status, Stage: mcpconn.Withdrawn, Cause: errors.New("the MCP server redirects; its url has to be corrected")}
	}
	x.heading(h)
	m, bad := x.single(body)
	if err == nil && bad == nil && m.IsResponse() && x.ours(m, resp.StatusCode) {
		x.answered(nil)
		return mcpconn.Reply{Result: m.Result, Error: m.Error, Status: resp.StatusCode}
	}
	switch s := resp.StatusCode; {
	case s >= 500 || s == http.StatusRequestTimeout:
		return mcpconn.Reply{Status: s, Cause: fmt.Errorf("the MCP server answered %d %s", s, http.StatusText(s))}
	case s >= 300:
		return mcpconn.Reply{Status: s, Stage: mcpconn.Withdrawn, Cause: fmt.Errorf("the MCP server refused the call: %d %s", s, http.StatusText(s))}
	case s == http.StatusAccepted:
		return mcpconn.Reply{Cause: errors.New("the MCP server accepted the call and does not answer it here: it may speak the HTTP+SSE transport of 2024, which is not supported")}
	}
	return mcpconn.Reply{Cause: errors.New("the MCP server's answer is no answer to the call")}
}

// single reads a message, or the call's answer among several in one.
func (x *exchange) single(body []byte) (*jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(body)
	if !errors.Is(err, jsonrpc.ErrBatch) {
		return m, err
	}
	for _, e := range jsonrpc.Elements(body) {
		if m, bad := jsonrpc.Parse(e); bad == nil && m.IsResponse() && sameID(m.ID, x.id) {
			return m, nil
		}
	}
	return nil, err
}

// ours reports whether a response is about the call itself, and not about the
// request that it came with: credentials, the session, headers, the version.
// Such a request did nothing; the client has to come again with a better one.
func (x *exchange) ours(m *jsonrpc.Message, status int) bool {
	if status < 300 {
		return sameID(m.ID, x.id) || m.Error != nil && string(m.ID) == "null"
	}
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity && status < 500 || !sameID(m.ID, x.id) {
		return false
	}
	switch string(jsonrpc.Get(m.Error, "code")) {
	case "-32700", "-32600", "-32020", "-32021", "-32022":
		return status >= 500
	}
	return true
}
