package mcpproxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// A poller is a server that closes its stream before the answer, and gives the
// rest to who comes back.
type poller struct {
	*web
	mu    sync.Mutex
	back  []string      // the ids with which somebody came back
	ready chan struct{} // closed when the answer is there
}

func newPoller(t testing.TB) *poller {
	p := &poller{ready: make(chan struct{})}
	p.web = newWeb(t, &web{
		on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
			events(w, "id: a1\nretry: 5\ndata:\n\nid: a2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
		},
		other: func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			p.back = append(p.back, r.Method+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Last-Event-ID"))
			p.mu.Unlock()
			select {
			case <-p.ready:
				events(w, "id: a3\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\nid: a4\ndata: %s\n\n", jsonrpc.Response([]byte("1"), text("late")))
			default:
				events(w, ": not yet\n\n")
			}
		},
	})
	return p
}

// Where the server wants to be polled, the client is, and gets what is missing;
// the proxy learns the outcome by itself.
func TestHTTP_Polling(t *testing.T) {
	t.Parallel()
	up := newPoller(t)
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
	c := client(t)
	a := m.post(t, c, "send", `{}`, "Mcp-Session-Id", "s1", "Mcp-Protocol-Version", "2025-11-25")
	if len(a.events) != 2 || a.events[1].ID != "a2" {
		t.Fatalf("%q", a.body)
	}
	get := func(session, last string) *http.Response {
		t.Helper()
		resp, err := c.Do(request(t, "GET", m.url, "", "Mcp-Session-Id", session, "Last-Event-ID", last, "Accept", "text/event-stream"))
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	// It comes back while there is nothing yet: the stream ends with the server's.
	resp := get("s1", "a1")
	first := make([]byte, 20)
	if _, err := io.ReadFull(resp.Body, first); err != nil || !strings.HasPrefix(string(first), "id: a2") {
		t.Fatalf("%v %q", err, first)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	close(up.ready)
	var last *reply
	for last == nil || last.msg.Result == nil {
		last = read(t, get("s1", "a2"))
	}
	ids := []string{}
	for _, e := range last.events {
		if e.HasID {
			ids = append(ids, e.ID)
		}
	}
	if fmt.Sprint(ids) != "[a3 a4]" || words(last.msg) != "late" || state(last.msg) != "succeeded" {
		t.Errorf("%v %q", ids, last.body)
	}
	// Another session's client is the server's to judge, whatever it asks for.
	read(t, get("s2", "a2"))
	up.mu.Lock()
	if got := up.back[len(up.back)-1]; got != "GET s2 a2" {
		t.Errorf("the server saw %q", got)
	}
	up.mu.Unlock()
	if n := up.count("send"); n != 1 {
		t.Errorf("%d executions", n)
	}
	// The answer was read as a whole, on a connection that lasts: it arrived.
	up.web.mu.Lock()
	up.web.on = nil
	up.web.mu.Unlock()
	if a := m.post(t, c, "send", `{}`, "Mcp-Session-Id", "s1"); replayed(a.msg) || up.count("send") != 2 {
		t.Errorf("%s", a.body)
	}
	waitFor(t, func() bool { return m.handler.Kept() == 0 })
}

// A client that does not come back: its equal call gets the answer.
func TestHTTP_PollingAlone(t *testing.T) {
	t.Parallel()
	up := newPoller(t)
	close(up.ready)
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	m.post(t, client(t), "send", `{}`, "Mcp-Session-Id", "s1")
	a := m.post(t, client(t), "send", `{}`, "Mcp-Session-Id", "s2")
	if !strings.HasPrefix(words(a.msg), "late") || up.count("send") != 1 {
		t.Errorf("%d executions, %s", up.count("send"), a.body)
	}
}

// A stream that cannot be taken up again leaves the outcome unknown.
func TestHTTP_PollingRefused(t *testing.T) {
	t.Parallel()
	up := newPoller(t)
	up.web.other = http.NotFound
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
	m.post(t, client(t), "send", `{}`, "Mcp-Session-Id", "s1")
	if a := m.post(t, client(t), "send", `{}`, "Mcp-Session-Id", "s1"); state(a.msg) != "review" || up.count("send") != 1 {
		t.Errorf("%d executions, %s", up.count("send"), a.body)
	}
}

// A server that tells its client to come back, but not to what, gets its way: the
// client's stream ends without an answer. The outcome stays unknown.
func TestHTTP_PollingWithoutIDs(t *testing.T) {
	t.Parallel()
	const closing = "event: close\nretry: 10\ndata:\n\n"
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) { events(w, closing) }})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	if a := m.post(t, client(t), "send", `{}`); a.body != closing {
		t.Errorf("%q", a.body)
	}
	if a := m.post(t, client(t), "send", `{}`); state(a.msg) != "review" || up.count("send") != 1 {
		t.Errorf("%d executions, %s", up.count("send"), a.body)
	}
}

// A client whose connection breaks under a stream with ids comes back for the
// rest, and the call is still one.
func TestHTTP_Resumes(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		events(w, "id: a1\ndata:\n\n")
		<-hold
		events(w, "id: a2\ndata: %s\n\n", jsonrpc.Response(m.ID, text("whole")))
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	ctx, cut := context.WithCancel(context.Background())
	resp, err := client(t).Do(request(t, "POST", m.url, callBody("1", "send", `{}`), "Mcp-Session-Id", "s").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	cut()
	resp.Body.Close()
	close(hold)
	c := client(t)
	a := do(t, c, request(t, "GET", m.url, "", "Mcp-Session-Id", "s", "Last-Event-ID", "a1", "Accept", "text/event-stream"))
	if words(a.msg) != "whole" || len(a.events) != 1 || a.events[0].ID != "a2" || state(a.msg) != "succeeded" {
		t.Errorf("%q", a.body)
	}
	if n := up.count("send"); n != 1 {
		t.Errorf("%d executions", n)
	}
	waitFor(t, func() bool { return m.handler.Kept() == 0 }) // it arrived
}

// Observing changes nothing: equal calls are each made, and statuses pass.
func TestHTTP_Observes(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, "oops")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s, "result":{"content":[],"n":%d}}`, m.ID, n)
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{Mode: mcpproxy.Observe}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	c := client(t)
	if a := m.post(t, c, "send", `{}`); a.status != http.StatusInternalServerError || a.body != "oops" {
		t.Errorf("%d %q", a.status, a.body)
	}
	for n := 2; n < 4; n++ {
		if a := m.post(t, c, "send", `{}`); string(jsonrpc.Get(a.msg.Result, "n")) != fmt.Sprint(n) {
			t.Errorf("%d %q", a.status, a.body)
		}
	}
}
