package mcpproxy_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// A client that cancels a call which was sent does not stop it: the server is
// not told, and an equal call gets the answer.
func TestHTTP_Cancelled(t *testing.T) {
	t.Parallel()
	begun, hold := make(chan struct{}), make(chan struct{})
	up := newWeb(t, &web{
		on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
			close(begun)
			<-hold
			w.Header().Set("Content-Type", "application/json")
			w.Write(jsonrpc.Response(m.ID, text("one")))
		},
		other: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) },
	})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	c := client(t)
	first := make(chan *reply, 1)
	go func() {
		first <- do(t, c, request(t, "POST", m.url, callBody(`"x"`, "send", `{}`), "Mcp-Session-Id", "s"))
	}()
	<-begun
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`
	for _, session := range []string{"t", "s"} { // another one's is passed on
		if a := do(t, c, request(t, "POST", m.url, cancel, "Mcp-Session-Id", session)); a.status != http.StatusAccepted {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if a := <-first; a.status != 200 || a.body != "" {
		t.Errorf("%d %q", a.status, a.body)
	}
	up.mu.Lock()
	if n := len(up.seen); n != 2 {
		t.Errorf("the server got %d requests, want the call and the other session's", n)
	}
	up.mu.Unlock()
	close(hold)
	if a := m.post(t, c, "send", `{}`); !strings.HasPrefix(words(a.msg), "one") || up.count("send") != 1 {
		t.Errorf("%d executions, %s", up.count("send"), a.body)
	}
}

// A client that does not read does not keep the handler from closing.
func TestHTTP_CloseStalled(t *testing.T) {
	t.Parallel()
	answer := jsonrpc.Response([]byte("1"), text(strings.Repeat("x", 30<<20)))
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	conn, err := net.Dial("tcp", m.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := request(t, "POST", m.url, callBody("1", "send", `{}`)).Write(conn); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	m.handler.Close()
}

// Who takes events alone gets one; an error's status shows all the same.
func TestHTTP_EventsOnly(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		w.Header().Set("Content-Type", "application/json")
		if n == 2 {
			w.WriteHeader(http.StatusBadRequest)
			w.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32602, "arguments", nil)))
			return
		}
		w.Write(jsonrpc.Response(m.ID, text("one")))
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	c := client(t)
	a := m.post(t, c, "send", `{}`, "Accept", "text/event-stream")
	if len(a.events) != 1 || words(a.msg) != "one" {
		t.Errorf("%v %q", a.header, a.body)
	}
	if a = m.post(t, c, "send", `{}`, "Accept", "text/event-stream"); a.status != http.StatusBadRequest || a.msg.Error == nil {
		t.Errorf("%d %q", a.status, a.body)
	}
}
