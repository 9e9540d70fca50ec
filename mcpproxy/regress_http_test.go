package mcpproxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

func accept(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }

// reached returns how many requests the server got.
func (u *web) reached() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

// within returns an answer that nothing may hold up.
func within(t testing.TB, r *http.Request) *reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	return do(t, client(t), r.WithContext(ctx))
}

// closes fails the test if the handler does not close soon.
func closes(t testing.TB, h *mcpproxy.Handler) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		h.Close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("it does not close")
	}
}

// lose makes calls that differ, each of which dies once its answer begins to
// arrive, until three did so before it counts as read. It returns their arguments.
func (m *mounted) lose(t testing.TB, announced bool) []string {
	t.Helper()
	var lost []string
	for n := 0; len(lost) < 3; n++ {
		if n == 50 {
			t.Skip("this machine is too slow to die in time")
		}
		conn, err := net.Dial("tcp", m.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		args := fmt.Sprintf(`{"n":%d}`, n)
		r := request(t, "POST", m.url, callBody("1", "send", args))
		r.Close = announced
		began := time.Now()
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
		if time.Since(began) < 50*time.Millisecond { // it would count after 100
			lost = append(lost, args)
		}
	}
	return lost
}

// A redirect does not lead a client past the proxy, whatever it asked for.
func TestRedirectIsNotHandedOn(t *testing.T) {
	t.Parallel()
	redirect := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "http://"+r.Host+"/mcp/", http.StatusTemporaryRedirect)
			return
		}
		t.Errorf("%s %s went past the proxy", r.Method, r.URL)
	}
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message, _ int) { redirect(w, r) }, other: redirect})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL + "/mcp"})
	for _, body := range []string{callBody("1", "send", `{}`), callBody("2", "send", `{}`), `{"jsonrpc":"2.0","id":1,"method":"ping"}`} {
		a := do(t, client(t), request(t, "POST", m.url, body))
		if a.status != http.StatusBadGateway || !strings.Contains(a.body, "redirects to "+up.URL+"/mcp/;") {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// Clients that the server tells apart by anything but Authorization are apart.
func TestOtherCredentialsAreApart(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ name, below, header, value string }{
		{"query", "?api_key=%s", "", ""},
		{"path", "/%s", "", ""},
		{"API key", "", "X-Api-Key", "%s"},
		{"cookie", "", "Cookie", "s=%s"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			begun, hold := make(chan struct{}, 2), make(chan struct{})
			up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
				begun <- struct{}{}
				<-hold
				w.Header().Set("Content-Type", "application/json")
				w.Write(jsonrpc.Response(m.ID, text("of "+r.URL.String()+r.Header.Get("X-Api-Key")+r.Header.Get("Cookie"))))
			}})
			m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
			as := func(form, who string) string { return strings.Replace(form, "%s", who, 1) }
			type got struct {
				who string
				*reply
			}
			answers := make(chan got, 2)
			for _, who := range []string{"alice", "bob"} {
				r := request(t, "POST", m.url+as(x.below, who), callBody("1", "get_my_invoices", `{}`))
				if x.header != "" {
					r.Header.Set(x.header, as(x.value, who))
				}
				go func() { answers <- got{who, do(t, client(t), r)} }()
			}
			for range 2 {
				select {
				case <-begun:
				case <-time.After(5 * time.Second):
					t.Error("one got into the other's call")
				}
			}
			close(hold)
			for range 2 {
				if a := <-answers; !strings.HasSuffix(words(a.msg), a.who) {
					t.Errorf("%s: %s", a.who, a.body)
				}
			}
		})
	}
}

// Without credentials nobody learns of a call that was made with some.
func TestStatusWithoutCredentials(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		if r.Header.Get("X-Api-Key") != "alice" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		events(w, "id: 1\ndata:\n\n")
		<-hold
		events(w, "id: 2\ndata: %s\n\n", jsonrpc.Response(m.ID, text("alice's")))
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	resp, err := client(t).Do(request(t, "POST", m.url, callBody("1", "send", `{}`), "X-Api-Key", "alice"))
	if err != nil {
		close(hold)
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, len("id: 1\n"))); err != nil {
		t.Error(err)
	}
	for _, x := range []struct {
		name string
		r    *http.Request
		want int
	}{
		{"its stream", request(t, "GET", m.url, "", "Accept", "text/event-stream", "Last-Event-ID", "1"), http.StatusNotFound},
		{"justonce_status", request(t, "POST", m.url, callBody("1", "justonce_status", `{"tool":"send","arguments":{}}`)), http.StatusOK},
		{"justonce_wait", request(t, "POST", m.url, callBody("1", "justonce_wait", `{"tool":"send","arguments":{}}`)), http.StatusOK},
		{"an equal call", request(t, "POST", m.url, callBody("1", "send", `{}`)), http.StatusUnauthorized},
	} {
		ctx, cancel := context.WithTimeout(x.r.Context(), 2*time.Second)
		resp, err := client(t).Do(x.r.WithContext(ctx))
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
		} else if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != x.want || strings.Contains(string(b), `"dev.justonce/key"`) {
			t.Errorf("%s: %d %v %s", x.name, resp.StatusCode, err, b)
		}
		cancel()
	}
	close(hold)
	if a := read(t, resp); words(a.msg) != "alice's" {
		t.Errorf("%s", a.body)
	}
}

// A call that nobody can be told the outcome of is not sent.
func TestHTTPCallWithoutIDIsNotSent(t *testing.T) {
	t.Parallel()
	const body = `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"send","arguments":{}}}`
	web := newWeb(t, &web{other: accept})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: web.URL})
	if a := do(t, client(t), request(t, "POST", m.url, body)); a.status != http.StatusBadRequest || web.reached() != 0 {
		t.Errorf("HTTP: %d %s; the server got %d requests", a.status, a.body, web.reached())
	}
	up := &upstream{}
	v := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start}).visit(t)
	if a := v.send(t, body); a.status != http.StatusBadRequest {
		t.Errorf("lines: %d %s", a.status, a.body)
	}
	v.send(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`) // comes after it
	if n := up.heard("tools/call"); n != 0 {
		t.Errorf("lines: the server got it %d times", n)
	}
}

// A client that announced to close, and died over the answer, did not read it.
func TestAnnouncedCloseIsNoDelivery(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	up := newWeb(t, &web{})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	for _, args := range m.lose(t, true) {
		if a := m.post(t, client(t), "send", args); !replayed(a.msg) {
			t.Errorf("%s: %s", args, a.body)
		}
	}
}

// A server that cannot be started is told of, however the client writes its id,
// and the handler can close.
func TestEscapedIDWithoutServer(t *testing.T) {
	t.Parallel()
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: func(func([]byte)) (mcpproxy.Peer, error) {
		return nil, errors.New("no such program")
	}})
	a := within(t, request(t, "POST", m.url, strings.Replace(hello, `"id":0`, `"id":"\u0061"`, 1)))
	if a.status != http.StatusBadGateway || a.msg.Error == nil || a.msg.IDKey() != `"a"` {
		t.Errorf("%d %s", a.status, a.body)
	}
	closes(t, m.handler)
}

// An error that the server gives after it began is its answer, whatever the
// status of HTTP, and is kept for a client that did not get it.
func TestErrorStatusIsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 422, 500} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				w.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32603, "charged, but the receipt failed", nil)))
			}})
			m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
			for _, args := range m.lose(t, false) {
				before := up.count("send")
				if a := m.post(t, client(t), "send", args); up.count("send") != before || !strings.Contains(a.body, "the receipt failed") {
					t.Errorf("%s: %d more executions, %s", args, up.count("send")-before, a.body)
				}
			}
		})
	}
}

// The server is not told to cancel a call that it has, also when the client hung
// up before it said so.
func TestCancelAfterHangingUp(t *testing.T) {
	t.Parallel()
	begun, hold := make(chan struct{}), make(chan struct{})
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		close(begun)
		<-hold
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.Response(m.ID, text("one")))
	}, other: accept})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	left := make(chan struct{}, 2)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.Config.Handler.ServeHTTP(w, r)
		left <- struct{}{}
	}))
	defer front.Close()
	defer close(hold)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	call := request(t, "POST", front.URL+"/mcp/u", callBody(`"x"`, "send", `{}`), "Mcp-Session-Id", "s").WithContext(ctx)
	go func() {
		_, err := client(t).Do(call)
		gone <- err
	}()
	<-begun
	cancel()
	<-gone
	<-left // the proxy knows
	a := do(t, client(t), request(t, "POST", front.URL+"/mcp/u", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`, "Mcp-Session-Id", "s"))
	if n := up.reached(); n != 1 || a.status != http.StatusAccepted {
		t.Errorf("%d %s; the server got %d requests, want the call alone", a.status, a.body, n)
	}
}

// A cancellation does not slip past in a batch.
func TestHTTPCancelInBatchIsRefused(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{other: accept})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	a := do(t, client(t), request(t, "POST", m.url, `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}]`))
	if a.status != http.StatusBadRequest || up.reached() != 0 {
		t.Errorf("%d %s; the server got %d requests", a.status, a.body, up.reached())
	}
}

// An event that is larger than what is kept for those who come back reaches who
// is there, and so does the answer.
func TestEventBeyondWhatIsKept(t *testing.T) {
	t.Parallel()
	big := "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"" + strings.Repeat("x", 5<<20) + "\"}}\n\n"
	seen := make(chan struct{})
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		events(w, "%s", big)
		select {
		case <-seen:
			events(w, "id: 2\ndata: %s\n\n", jsonrpc.Response(m.ID, text("done")))
		case <-r.Context().Done():
		}
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	resp, err := client(t).Do(request(t, "POST", m.url, callBody("1", "send", `{}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, len(big))
	if n, err := io.ReadFull(resp.Body, got); err != nil || string(got) != big {
		t.Fatalf("%d of %d bytes: %v", n, len(big), err)
	}
	close(seen)
	if a := read(t, resp); words(a.msg) != "done" {
		t.Errorf("%s", a.body)
	}
}

// The answer to a call may come as a batch of one.
func TestHTTPServerAnswersInBatch(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"JSON", "events"} {
		up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
			batch := "[" + string(jsonrpc.Response(m.ID, text("done"))) + "]"
			if form == "events" {
				events(w, "data: %s\n\n", batch)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, batch)
		}})
		s := set(t, &upstream{}, mcpproxy.Options{}, nil)
		m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
		if a := m.post(t, client(t), "send", `{}`); words(a.msg) != "done" || state(a.msg) != "succeeded" {
			t.Errorf("%s: %s", form, a.body)
		}
		if ops := operations(t, s); len(ops) != 1 || ops[0].State != justonce.Succeeded {
			t.Errorf("%s: %v", form, ops)
		}
	}
}

// What a shared server says of one client's call once that is over does not go to
// another.
func TestLateWordGoesToNobodyElse(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	servers := make(chan *peer, 1)
	begun, hold := make(chan struct{}), make(chan struct{})
	up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
		if jsonrpc.String(m.Params, "arguments", "to") == "a" {
			servers <- p
			return jsonrpc.Response(m.ID, text("a"))
		}
		go func() {
			close(begun)
			<-hold
			p.handle(jsonrpc.Response(m.ID, text("b")))
		}()
		return nil
	}
	m := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start})
	do(t, client(t), modernCall(t, m.url, "1", `{"to":"a"}`, "", "Authorization", "Bearer a"))
	out := make(chan *reply, 1)
	b := modernCall(t, m.url, "1", `{"to":"b"}`, "", "Authorization", "Bearer b")
	go func() { out <- do(t, client(t), b) }()
	<-begun
	(<-servers).handle([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"receipt of a"}}`))
	close(hold)
	if a := <-out; words(a.msg) != "b" || strings.Contains(a.body, "receipt") {
		t.Errorf("%s", a.body)
	}
}

// What a lenient server could take for a call of a tool is refused.
func TestLookalikesOfCallsAreRefused(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"send","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","Name":"pay","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","Arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","Params":{"name":"send","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send"},"param\u017f":{"name":"pay"}}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"send"}}`,
		`{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call","params":{"name":"send"}}`,
		"\ufeff" + callBody("1", "send", "{}"),
	} {
		if a := do(t, client(t), request(t, "POST", m.url, body)); a.status != http.StatusBadRequest || a.msg.Error == nil {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if n := up.reached(); n != 0 {
		t.Errorf("the server got %d requests", n)
	}
}

// A call that was to run as a task is found by the key that its answer gave.
func TestStatusOfTaskCall(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{on: func(http.ResponseWriter, *http.Request, *jsonrpc.Message, int) { panic(http.ErrAbortHandler) }})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	a := do(t, client(t), request(t, "POST", m.url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":{},"task":{"ttl":1}}}`))
	key := jsonrpc.String(a.msg.Result, "_meta", "dev.justonce/key")
	if a = m.post(t, client(t), "justonce_status", `{"key":"`+key+`"}`); key == "" || state(a.msg) != "review" {
		t.Errorf("key %q: %s", key, a.body)
	}
}

// A body that does not end does not keep the handler from closing.
func TestUnfinishedBodyDoesNotHoldClose(t *testing.T) {
	t.Parallel()
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: newWeb(t, &web{}).URL})
	conn, err := net.Dial("tcp", m.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /mcp/u HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") { // the body is being read
		t.Fatalf("%v %q", err, line)
	}
	fmt.Fprint(conn, "{")
	closes(t, m.handler)
}
