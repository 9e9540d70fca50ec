package mcpproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
	"github.com/justonce-dev/justonce/mcpproxy"
)

func events(w http.ResponseWriter, format string, a ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, format, a...)
	http.NewResponseController(w).Flush()
}

// Events pass one by one while the call runs, byte for byte; the answer keeps its
// own event's lines.
func TestHTTP_Events(t *testing.T) {
	t.Parallel()
	const before = ": hi\r\n\r\nid: 1\r\ndata:\r\n\r\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata:  \"method\":\"notifications/progress\"}\n\n" +
		"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\"}\n\n"
	seen := make(chan struct{})
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		w.Header().Set("X-Up", "yes")
		events(w, "%s", before)
		<-seen
		events(w, "id: 9\nevent: message\nx-odd: 1\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"content\":[],\"n\":1.50}}\n\n")
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{NoExtras: true}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	resp, err := client(t).Do(request(t, "POST", m.url, callBody("1", "send", `{}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Up") != "yes" {
		t.Errorf("%v", resp.Header)
	}
	got := make([]byte, len(before))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != before {
		t.Fatalf("%v %q", err, got)
	}
	close(seen)
	rest, err := io.ReadAll(resp.Body)
	want := "id: 9\nevent: message\nx-odd: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[],\"n\":1.50}}\n\n"
	if diff := cmp.Diff(want, string(rest)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// work makes a server that does its work and cuts the connection.
func work(w http.ResponseWriter, stream bool) {
	if stream {
		events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
	}
	panic(http.ErrAbortHandler)
}

// A cut after the work leaves the outcome unknown, and nothing is sent again.
func TestHTTP_Cut(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) { work(w, stream) }})
		m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
		for range 2 {
			if a := m.post(t, client(t), "send", `{}`); state(a.msg) != "review" || !isError(a.msg) || a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		if n := up.count("send"); n != 1 {
			t.Errorf("%d executions", n)
		}
	}
}

// With a tool that tells, the true result is found, with the client's own
// credentials.
func TestHTTP_CutLooksUp(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		if jsonrpc.String(m.Params, "name") == "send" {
			work(w, true)
		}
		if r.Header.Get("Authorization") != "Bearer a" || r.Header.Get("Mcp-Session-Id") != "s" || r.Header.Get("Mcp-Name") != "find" {
			t.Errorf("the lookup came with %v", r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"found"}],"structuredContent":{"id":"m1"}}}`, m.ID)
	}})
	s := set(t, &upstream{}, mcpproxy.Options{}, func(late *lateCaller) []*justonce.Tool {
		return []*justonce.Tool{declared(t, late)}
	})
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
	a := m.post(t, client(t), "send", `{"id":"m1"}`, "Authorization", "Bearer a", "Mcp-Session-Id", "s", "Mcp-Method", "tools/call", "Mcp-Name", "send")
	if state(a.msg) != "succeeded" || up.count("send") != 1 || up.count("find") != 1 {
		t.Errorf("%s; %d sent, %d looked up", a.body, up.count("send"), up.count("find"))
	}
}

// declared is a tool whose effects another one finds.
func declared(t testing.TB, late *lateCaller) *justonce.Tool {
	t.Helper()
	c, err := mcpconn.New(mcpconn.Config{Server: "u", Tool: "send", Lookup: lookupOf(t, `{"tool":"find","arguments":{"id":"${args.id}"},"found":"structured.id == args.id","reference":"structured.id"}`)}, late)
	if err != nil {
		t.Fatal(err)
	}
	return &justonce.Tool{Name: "u/send", Connector: c, Policy: justonce.Policy{Capability: justonce.ByReference, Settle: -1, BackoffBase: time.Millisecond}}
}

// An answer that its client did not take is there for an equal call; one that it
// took is not.
func TestHTTP_ClientGone(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	big := strings.Repeat("x", 900<<10)
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		<-hold
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.Response(m.ID, text(fmt.Sprint(n, big))))
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	conn, err := net.Dial("tcp", m.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := request(t, "POST", m.url, callBody("1", "send", `{}`)).Write(conn); err != nil {
		t.Fatal(err)
	}
	close(hold)
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // the answer has begun
		t.Fatal(err)
	}
	conn.Close()
	c := client(t)
	a := m.post(t, c, "send", `{}`)
	if !replayed(a.msg) || !strings.HasPrefix(words(a.msg), "1x") || up.count("send") != 1 {
		t.Fatalf("%.300s", a.body)
	}
	if a = m.post(t, c, "send", `{}`); replayed(a.msg) || !strings.HasPrefix(words(a.msg), "2x") {
		t.Fatalf("%.300s", a.body)
	}
}

// A client that closes in good order has read what came before; one that died
// over it resets the connection.
func TestHTTP_Evidence(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name    string
		read    bool // all of it
		close   bool // it announced that it would
		arrived bool
	}{{"closed at once", true, false, true}, {"closed as announced", true, true, true}, {"died over it", false, false, false}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			if !x.arrived && runtime.GOOS != "linux" {
				t.Skip("only Linux resets a connection whose owner left something unread")
			}
			up := newWeb(t, &web{})
			m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
			conn, err := net.Dial("tcp", m.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			r := request(t, "POST", m.url, callBody("1", "send", `{}`))
			r.Close = x.close
			if err := r.Write(conn); err != nil {
				t.Fatal(err)
			}
			if x.read {
				resp, err := http.ReadResponse(bufio.NewReader(conn), r)
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
			} else if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if a := m.post(t, client(t), "send", `{}`); replayed(a.msg) == x.arrived {
				t.Errorf("%s", a.body)
			}
		})
	}
}

// Equal calls at once share one execution, and each gets the result.
func TestHTTP_Joins(t *testing.T) {
	t.Parallel()
	begun, hold := make(chan struct{}), make(chan struct{})
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		close(begun)
		<-hold
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.Response(m.ID, text("one")))
	}})
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
	m.handler.KeepAlive(10 * time.Millisecond)
	var wg sync.WaitGroup
	c := client(t)
	first := make(chan *reply, 1)
	wg.Go(func() { first <- m.post(t, c, "send", `{}`) })
	<-begun
	// One that waits for another's call is kept alive with comments.
	resp, err := c.Do(request(t, "POST", m.url, callBody(`"b"`, "send", `{}`)))
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(io.LimitReader(resp.Body, 11)).ReadString('\n')
	if resp.Header.Get("Content-Type") != "text/event-stream" || line != ": waiting\n" {
		t.Errorf("%v %q", resp.Header, line)
	}
	plain := make(chan *reply, 1)
	wg.Go(func() { plain <- m.post(t, c, "send", `{}`, "Accept", "application/json") })
	waitFor(t, func() bool { return s.server.Waiting() == 3 })
	close(hold)
	joined := read(t, resp)
	wg.Wait()
	if a := <-first; words(a.msg) != "one" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s", a.body)
	}
	if a := <-plain; !strings.HasPrefix(words(a.msg), "one") || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s", a.body)
	}
	if !strings.HasPrefix(words(joined.msg), "one") || joined.msg.IDKey() != `"b"` {
		t.Errorf("%s", joined.body)
	}
}

// A client that leaves before its call is sent releases it; afterwards the call
// goes on.
func TestHTTP_LeavesEarly(t *testing.T) {
	t.Parallel()
	begun, hold := make(chan struct{}), make(chan struct{})
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		close(begun)
		select {
		case <-hold:
		case <-r.Context().Done():
			t.Error("the server's request was ended")
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(jsonrpc.Response(m.ID, text("one")))
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := client(t).Do(request(t, "POST", m.url, callBody("1", "send", `{}`)).WithContext(ctx))
		done <- err
	}()
	<-begun
	cancel()
	<-done
	close(hold)
	if a := m.post(t, client(t), "send", `{}`); !strings.HasPrefix(words(a.msg), "one") || up.count("send") != 1 {
		t.Errorf("%d executions, %s", up.count("send"), a.body)
	}
}

// A connection that was kept alive and turns out dead gets no second call, also
// where a client's header invites net/http to send one.
func TestHTTP_NoSecondSend(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var mu sync.Mutex
	calls := 0
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(req.Body)
					if strings.Contains(string(body), "tools/call") || strings.Contains(string(body), "other") {
						mu.Lock()
						calls++
						mu.Unlock()
						return // does it, and dies without an answer
					}
					io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: "http://" + ln.Addr().String()})
	for i, body := range []string{callBody("1", "send", `{}`), `{"jsonrpc":"2.0","id":1,"method":"other"}`} {
		do(t, client(t), request(t, "POST", m.url, `{"jsonrpc":"2.0","method":"notifications/x"}`)) // keeps a connection
		do(t, client(t), request(t, "POST", m.url, body, "Idempotency-Key", "k"))
		mu.Lock()
		if calls != i+1 {
			t.Errorf("%d calls after %d", calls, i+1)
		}
		mu.Unlock()
	}
}

// Closing the handler ends streams that would last.
func TestHTTP_CloseEndsStreams(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{other: func(w http.ResponseWriter, r *http.Request) {
		events(w, ": ok\n\n")
		<-r.Context().Done()
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	resp, err := client(t).Do(request(t, "GET", m.url, "", "Accept", "text/event-stream"))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := sse.NewReader(resp.Body).Next(); err != nil || string(e.Raw) != ": ok\n\n" {
		t.Fatalf("%v %q", err, e.Raw)
	}
	m.handler.Close()
	io.ReadAll(resp.Body) // ends
	if a := m.post(t, client(t), "send", `{}`); a.status != http.StatusServiceUnavailable {
		t.Errorf("%d", a.status)
	}
}
