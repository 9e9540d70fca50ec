package mcpproxy_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
	"github.com/justonce-dev/justonce/mcpproxy"
)

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// A visitor is a client with a session.
type visitor struct {
	*mounted
	c       *http.Client
	session string
}

func (m *mounted) visit(t testing.TB) *visitor {
	t.Helper()
	c := client(t)
	a := do(t, c, request(t, "POST", m.url, hello))
	v := &visitor{m, c, a.header.Get("Mcp-Session-Id")}
	if a.status != 200 || len(v.session) != 32 || jsonrpc.String(a.msg.Result, "protocolVersion") != "2025-11-25" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	if a := v.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != http.StatusAccepted || a.body != "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return v
}

func (v *visitor) request(t testing.TB, method, body string) *http.Request {
	return request(t, method, v.url, body, "Mcp-Session-Id", v.session, "Accept", "application/json, text/event-stream")
}

func (v *visitor) send(t testing.TB, body string) *reply {
	t.Helper()
	return do(t, v.c, v.request(t, "POST", body))
}

// A session has a server of its own, whose calls have one effect each.
func TestBridge_Session(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	s := set(t, up, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{Start: up.start})
	a, b := m.visit(t), m.visit(t)
	if a.session == b.session || up.starts != 2 {
		t.Errorf("%d servers", up.starts)
	}
	r := a.send(t, callBody("7", "send", `{"to":"a"}`))
	if r.status != 200 || words(r.msg) != "send 1" || state(r.msg) != "succeeded" || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	r = a.send(t, `{"jsonrpc":"2.0","id":"x","method":"ping","params":{"n":1.50}}`)
	if want := `{"jsonrpc":"2.0","id":"x", "result" : {"echo":{"jsonrpc":"2.0","id":"x","method":"ping","params":{"n":1.50}}}}`; r.body != want {
		t.Errorf("%s", r.body)
	}
	r = a.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if tools := jsonrpc.Elements(jsonrpc.Get(r.msg.Result, "tools")); len(tools) != 3 || string(jsonrpc.Get(tools[0], "x")) != "1.50" {
		t.Errorf("%s", r.body)
	}
	r = a.send(t, callBody("8", "justonce_status", `{"tool":"send","arguments":{"to":"z"}}`))
	if !strings.Contains(words(r.msg), "No such call") {
		t.Errorf("%s", r.body)
	}
	if r := do(t, a.c, a.request(t, "DELETE", "")); r.status != http.StatusNoContent {
		t.Errorf("%d", r.status)
	}
	if r = a.send(t, callBody("9", "send", `{}`)); r.status != http.StatusNotFound || r.msg.Error == nil {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r = b.send(t, callBody("9", "send", `{}`)); words(r.msg) != "send 2" {
		t.Errorf("%s", r.body)
	}
	if r = m.post(t, a.c, "send", `{}`); r.status != http.StatusBadRequest {
		t.Errorf("without a session: %d %s", r.status, r.body)
	}
}

// What the server says during a call goes to that call's client, and what it
// says on its own to the stream for such.
func TestBridge_Streams(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{})
	up := &upstream{}
	up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
		p.handle([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t1","progress":1}}`))
		p.handle([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`))
		p.handle([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
		go func() {
			<-answered
			p.handle(jsonrpc.Response(m.ID, text("done")))
		}()
		return nil
	}
	m := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start})
	v := m.visit(t)
	stream, err := v.c.Do(v.request(t, "GET", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	call, err := v.c.Do(v.request(t, "POST", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"send","arguments":{},"_meta":{"progressToken":"t1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer call.Body.Close()
	general, own := sse.NewReader(stream.Body), sse.NewReader(call.Body)
	next := func(r *sse.Reader, want string) {
		t.Helper()
		e, err := r.Next()
		if m, _ := jsonrpc.Parse(e.Data); err != nil || m == nil || m.Method != want {
			t.Fatalf("%v %q, want %s", err, e.Raw, want)
		}
	}
	next(own, "notifications/progress")
	next(own, "elicitation/create")
	next(general, "notifications/tools/list_changed")
	if a := v.send(t, `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`); a.status != http.StatusAccepted {
		t.Errorf("%d", a.status)
	}
	close(answered)
	e, err := own.Next()
	if got, _ := jsonrpc.Parse(e.Data); err != nil || got == nil || words(got) != "done" || got.IDKey() != "5" {
		t.Errorf("%v %s", err, e.Data)
	}
	if _, err := own.Next(); err != io.EOF {
		t.Errorf("after the answer: %v", err)
	}
	do(t, v.c, v.request(t, "DELETE", ""))
	if _, err := general.Next(); err != io.EOF {
		t.Errorf("after the session: %v", err)
	}
}

// A server that dies over a call leaves its outcome unknown, and ends its
// session; the one that is shared is started again.
func TestBridge_ServerDies(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
		if n <= 2 {
			p.die("killed")
			return nil
		}
		return jsonrpc.Response(m.ID, text(fmt.Sprint(n)))
	}
	m := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start})
	v := m.visit(t)
	if a := v.send(t, callBody("1", "send", `{"n":1}`)); state(a.msg) != "review" || !isError(a.msg) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := v.send(t, callBody("1", "send", `{"n":2}`)); a.status != http.StatusNotFound {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := do(t, client(t), modernCall(t, m.url, "1", `{"n":3}`, "")); state(a.msg) != "review" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := do(t, client(t), modernCall(t, m.url, "1", `{"n":4}`, "")); words(a.msg) != "3" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Sessions are bounded in number and end when nobody uses them, but not under a
// stream.
func TestBridge_Bounds(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	m := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start, MaxSessions: 1, SessionIdle: 30 * time.Millisecond})
	v := m.visit(t)
	resp, err := v.c.Do(v.request(t, "GET", ""))
	if err != nil {
		t.Fatal(err)
	}
	if a := do(t, v.c, request(t, "POST", m.url, hello)); a.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, callBody("2", "send", `{}`), callBody("3", "justonce_status", `{"tool":"send"}`)} {
		if a := v.send(t, body); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	resp.Body.Close()
	waitFor(t, func() bool {
		return do(t, client(t), request(t, "GET", m.url, "", "Mcp-Session-Id", "unknown", "Accept", "text/event-stream")).status == 404 &&
			m.handler.Sessions() == 0
	})
	m.visit(t)
}

// A server that cannot be started, or refuses the handshake, leaves no session.
func TestBridge_NoServer(t *testing.T) {
	t.Parallel()
	fails := true
	up := &upstream{}
	m := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: func(handle func([]byte)) (mcpproxy.Peer, error) {
		if fails {
			return nil, errors.New("no such program")
		}
		return up.start(handle)
	}})
	a := do(t, client(t), request(t, "POST", m.url, hello))
	if a.status != http.StatusBadGateway || a.msg.Error == nil || a.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	waitFor(t, func() bool { return m.handler.Sessions() == 0 })
	fails = false
	m.visit(t)
}

// A handler that is closed lets the calls that were sent end, and their answers
// are recorded.
func TestBridge_CloseWaits(t *testing.T) {
	t.Parallel()
	begun := make(chan func(), 1)
	up := &upstream{}
	up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
		begun <- func() { p.handle(jsonrpc.Response(m.ID, text("done"))) }
		return nil
	}
	s := set(t, up, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{Start: up.start})
	v := m.visit(t)
	answer := make(chan *reply, 1)
	go func() { answer <- v.send(t, callBody("1", "send", `{}`)) }()
	finish := <-begun
	closed := make(chan struct{})
	go func() {
		m.handler.Close()
		close(closed)
	}()
	if a := <-answer; a.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.status, a.body)
	}
	select {
	case <-closed:
		t.Error("it did not wait")
	default:
	}
	finish()
	<-closed
	waitFor(t, func() bool { ops := operations(t, s); return len(ops) == 1 && ops[0].State == justonce.Succeeded })
}

// The answer to initialize carries the session's name however long it takes.
func TestBridge_SlowStart(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	ready := make(chan struct{})
	m := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: func(handle func([]byte)) (mcpproxy.Peer, error) {
		<-ready
		return up.start(handle)
	}})
	m.handler.KeepAlive(time.Millisecond)
	time.AfterFunc(20*time.Millisecond, func() { close(ready) })
	m.visit(t)
}

// What a server that died had done is asked of a new one.
func TestBridge_LooksUp(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
		if jsonrpc.String(m.Params, "name") == "find" {
			return jsonrpc.Response(m.ID, []byte(`{"content":[],"structuredContent":{"id":"m1"}}`))
		}
		p.die("killed")
		return nil
	}
	s := set(t, up, mcpproxy.Options{}, func(late *lateCaller) []*justonce.Tool { return []*justonce.Tool{declared(t, late)} })
	m := mount(t, s, &mcpproxy.HTTPOptions{Start: up.start})
	v := m.visit(t)
	if a := v.send(t, callBody("1", "send", `{"id":"m1"}`)); state(a.msg) != "succeeded" || up.count("send") != 1 {
		t.Errorf("%d executions, %s", up.count("send"), a.body)
	}
}
