package mcpproxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// A web is an MCP server over HTTP that counts, and does what a test wants.
type web struct {
	*httptest.Server

	mu   sync.Mutex
	ran  map[string]int
	seen []*http.Request
	body []string

	// on answers a tools/call, the nth of its tool; nil: with its name and n, as
	// JSON.
	on func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int)
	// other answers every other request; nil: 404.
	other http.HandlerFunc
}

func newWeb(t testing.TB, u *web) *web {
	t.Helper()
	u.ran = map[string]int{}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	m, err := jsonrpc.Parse(body)
	call := err == nil && m.Method == "tools/call"
	n := 0
	u.mu.Lock()
	u.seen, u.body = append(u.seen, r), append(u.body, string(body))
	if call {
		u.ran[jsonrpc.String(m.Params, "name")]++
		n = u.ran[jsonrpc.String(m.Params, "name")]
	}
	u.mu.Unlock()
	switch {
	case call && u.on != nil:
		u.on(w, r, m, n)
	case call:
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.Response(m.ID, text(fmt.Sprintf("%s %d", jsonrpc.String(m.Params, "name"), n))))
	case u.other != nil:
		u.other(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (u *web) count(tool string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ran[tool]
}

// last returns the last request and its body.
func (u *web) last() (*http.Request, string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[len(u.seen)-1], u.body[len(u.body)-1]
}

// A mounted is a handler in a server of its own, under /mcp/u.
type mounted struct {
	*httptest.Server
	handler *mcpproxy.Handler
	url     string
}

func mount(t testing.TB, s *setup, o *mcpproxy.HTTPOptions) *mounted {
	t.Helper()
	h, err := s.server.Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	var c mcpproxy.Connections
	mux := http.NewServeMux()
	mux.Handle("/mcp/u", http.StripPrefix("/mcp/u", h))
	mux.Handle("/mcp/u/", http.StripPrefix("/mcp/u", h))
	mux.Handle("/.well-known/", h.WellKnown())
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.ConnContext, srv.Config.ConnState = c.ConnContext, c.ConnState
	srv.Listener = c.Listener(srv.Listener)
	srv.Start()
	m := &mounted{srv, h, srv.URL + "/mcp/u"}
	t.Cleanup(func() {
		h.Close()
		srv.Close()
	})
	return m
}

// A reply is an HTTP answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	events []sse.Event
	msg    *jsonrpc.Message // the last message
}

// client returns an HTTP client with connections of its own.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func request(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// do sends a request and reads the whole answer.
func do(t testing.TB, c *http.Client, r *http.Request) *reply {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, resp)
}

func read(t testing.TB, resp *http.Response) *reply {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading an answer: %v", err)
	}
	a := &reply{status: resp.StatusCode, header: resp.Header, body: string(b)}
	last := b
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		events := sse.NewReader(bytes.NewReader(b))
		for e, err := events.Next(); err == nil; e, err = events.Next() {
			a.events = append(a.events, e)
			if len(e.Data) > 0 {
				last = e.Data
			}
		}
	}
	if a.msg, err = jsonrpc.Parse(last); err != nil {
		a.msg = &jsonrpc.Message{Raw: b}
	}
	return a
}

func callBody(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

// post calls a tool.
func (m *mounted) post(t testing.TB, c *http.Client, tool, args string, headers ...string) *reply {
	t.Helper()
	return do(t, c, request(t, http.MethodPost, m.url, callBody("1", tool, args), headers...))
}

// operations returns what the ledger has.
func operations(t testing.TB, s *setup) []*justonce.Operation {
	t.Helper()
	page, err := s.runner.List(t.Context(), justonce.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Operations
}
