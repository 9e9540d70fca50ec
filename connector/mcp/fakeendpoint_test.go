package mcpconn_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A fakeEndpoint is an MCP server over Streamable HTTP. It speaks revision
// 2025-11-25 with sessions, or 2026-07-28 alone.
type fakeEndpoint struct {
	*httptest.Server
	modern bool
	// call answers a tools/call; nil: with the params.
	call func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message)
	// get answers a GET; nil: 405.
	get http.HandlerFunc

	mu       sync.Mutex
	sessions int    // made so far
	session  string // the one that is known
	log      []string
	last     *http.Request // tools/call
}

func newFakeEndpoint(t *testing.T) *fakeEndpoint {
	f := &fakeEndpoint{}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

func (f *fakeEndpoint) client(t *testing.T, change func(*mcpconn.EndpointOptions)) *mcpconn.Endpoint {
	t.Helper()
	o := &mcpconn.EndpointOptions{URL: f.URL + "/mcp"}
	if change != nil {
		change(o)
	}
	e, err := mcpconn.NewEndpoint(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// forget makes the server forget the session.
func (f *fakeEndpoint) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.session = "none"
}

func (f *fakeEndpoint) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, "\n")
}

func (f *fakeEndpoint) note(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, line)
}

func (f *fakeEndpoint) known(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.modern || r.Header.Get("Mcp-Session-Id") == f.session
}

// ServeHTTP implements http.Handler.
func (f *fakeEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && f.get != nil {
		f.note("GET after " + r.Header.Get("Last-Event-ID"))
		f.get(w, r)
		return
	}
	if r.Method != http.MethodPost {
		f.note(r.Method + " " + r.Header.Get("Mcp-Session-Id"))
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body)
	if err != nil || r.Header.Get("Accept") != "application/json, text/event-stream" {
		f.note("malformed: " + string(body))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	tool := jsonrpc.String(m.Params, "name")
	switch {
	case m.IsResponse():
		f.note("response to " + m.IDKey() + ": " + string(m.Result))
	default:
		f.note(strings.TrimSpace(m.Method + " " + tool))
	}
	answer := func(format string, a ...any) { reply(w, m, fmt.Sprintf(format, a...)) }
	version := jsonrpc.String(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion")
	switch {
	case f.modern && (version != "2026-07-28" || r.Header.Get("MCP-Protocol-Version") != version || r.Header.Get("Mcp-Method") != m.Method):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32022, "unsupported", map[string]any{"supported": []string{"2026-07-28"}})))
	case f.modern && m.Method == "server/discover":
		answer(`{"supportedVersions":["2026-07-28"]}`)
	case !f.modern && m.Method == "initialize":
		f.mu.Lock()
		f.sessions++
		f.session = fmt.Sprintf("session-%d", f.sessions)
		w.Header().Set("Mcp-Session-Id", f.session)
		f.mu.Unlock()
		answer(`{"protocolVersion":"2025-11-25"}`)
	case !f.modern && (!f.known(r) || r.Header.Get("MCP-Protocol-Version") != "2025-11-25"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
	case !m.IsRequest():
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/list":
		answer(`{"tools":[{"name":"echo","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"deep":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}}]}`)
	case m.Method == "tools/call":
		f.mu.Lock()
		f.last = r.Clone(context.WithoutCancel(r.Context()))
		f.mu.Unlock()
		if f.call == nil {
			answer(`{"content":[],"structuredContent":%s}`, m.Params)
			return
		}
		f.call(w, r, m)
	}
}

func reply(w http.ResponseWriter, m *jsonrpc.Message, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.Response(m.ID, []byte(result)))
}

// stream starts an answer that is a stream, and sends each event at once.
func stream(w http.ResponseWriter) func(event string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return func(event string) {
		_, _ = io.WriteString(w, event+"\n\n")
		w.(http.Flusher).Flush()
	}
}

func cut(w http.ResponseWriter, before string) {
	c, b, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = b.WriteString(before)
	_ = b.Flush()
	_ = c.Close()
}
