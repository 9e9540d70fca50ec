package mcpconn_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

func TestEndpoint(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFakeEndpoint(t)
	e := f.client(t, func(o *mcpconn.EndpointOptions) {
		o.Header = func(context.Context) (http.Header, error) {
			return http.Header{"Authorization": {"Bearer t0ken-t0ken"}, "Idempotency-Key": {"k"}, "Connection": {"close"}}, nil
		}
	})
	got := e.CallTool(ctx, effect("echo"))
	params := jsonrpc.Get(got.Result, "structuredContent")
	if want := `{"name":"echo","arguments":{"n": 1.0},"_meta":{"dev.justonce/attempt":2,"dev.justonce/key":"op-1"}}`; string(params) != want || got.Status != 200 {
		t.Errorf("got %s %+v, want %s", params, got, want)
	}
	if !f.last.Close {
		t.Error("an attempt went over a connection that others use")
	}
	h := f.last.Header
	for name, want := range map[string]string{"Authorization": "Bearer t0ken-t0ken", "Idempotency-Key": "", "Mcp-Session-Id": "session-1",
		"Content-Type": "application/json", "User-Agent": "justonce", "Mcp-Method": "", "Mcp-Name": ""} {
		if h.Get(name) != want {
			t.Errorf("header %s: %q, want %q", name, h.Get(name), want)
		}
	}
	if tools, err := e.ListTools(ctx); len(tools) != 1 || err != nil {
		t.Errorf("%d tools, %v", len(tools), err)
	}
	e.Close()
	e.Close()
	want := "initialize\nnotifications/initialized\ntools/call echo\ntools/list\nDELETE session-1"
	if d := cmp.Diff(want, f.seen()); d != "" {
		t.Error(d)
	}
	if got := e.CallTool(ctx, effect("echo")); got.Stage != mcpconn.Unsent || got.Cause == nil {
		t.Errorf("after the end: %+v", got)
	}
}

func TestEndpointOfTheStatelessRevision(t *testing.T) {
	t.Parallel()
	for first, greeting := range map[string]string{"": "initialize\nserver/discover\n", mcpconn.Revision2026: "server/discover\n"} {
		f := newFakeEndpoint(t)
		f.modern = true
		e := f.client(t, func(o *mcpconn.EndpointOptions) { o.Revision = first })
		c := effect("echo")
		c.Arguments = json.RawMessage(`{"region":" Köln","deep":{"n":7},"x":true}`)
		if got := e.CallTool(context.Background(), c); !got.Answered() {
			t.Fatalf("got %+v", got)
		}
		h := f.last.Header
		for name, want := range map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "echo", "Mcp-Session-Id": "",
			"Mcp-Param-Region": "=?base64?IEvDtmxu?=", "Mcp-Param-N": "7"} {
			if h.Get(name) != want {
				t.Errorf("header %s: %q, want %q", name, h.Get(name), want)
			}
		}
		f.call = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32020, "header mismatch", nil)))
		}
		if got := e.CallTool(context.Background(), c); got.Stage != mcpconn.Unsent || got.Answered() {
			t.Errorf("got %+v", got)
		}
		f.call = nil
		if got := e.CallTool(context.Background(), c); !got.Answered() {
			t.Errorf("got %+v", got)
		}
		e.Close()
		want := greeting + "tools/list\ntools/call echo\ntools/call echo\ntools/list\ntools/call echo"
		if d := cmp.Diff(want, f.seen()); d != "" {
			t.Error(d)
		}
	}
}

func TestAnswersInAStream(t *testing.T) {
	t.Parallel()
	f := newFakeEndpoint(t)
	f.call = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		send := stream(w)
		send(": hello")
		send("event: other\ndata: " + string(jsonrpc.Response(m.ID, []byte(`{"wrong":1}`))))
		send(`data: {"jsonrpc":"2.0","method":"notifications/progress"}`)
		send(`data: {"jsonrpc":"2.0","id":"s1","method":"ping"}`)
		send("event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":" + m.IDKey() + `,"result":{ "x":1.0}}`)
	}
	e := f.client(t, nil)
	if got := e.CallTool(context.Background(), effect("echo")); string(got.Result) != `{ "x":1.0}` {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(f.seen(), `response to "s1": {}`) {
		t.Errorf("the server saw\n%s", f.seen())
	}
}

func TestAStreamIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	f := newFakeEndpoint(t)
	id := make(chan string, 1)
	f.call = func(w http.ResponseWriter, _ *http.Request, m *jsonrpc.Message) {
		id <- m.IDKey()
		stream(w)("id: 1\nretry: 1\ndata:")
	}
	step := 0
	f.get = func(w http.ResponseWriter, r *http.Request) {
		if step++; r.Header.Get("Mcp-Session-Id") != "session-1" || r.Header.Get("Accept") != "text/event-stream" {
			t.Errorf("asked with %v", r.Header)
		}
		switch step {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			stream(w)("id: 2\ndata:")
		case 3:
			cut(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 3\n\ndata: {")
		default:
			stream(w)(`data: {"jsonrpc":"2.0","id":` + <-id + `,"result":{}}`)
		}
	}
	if got := f.client(t, nil).CallTool(context.Background(), effect("echo")); string(got.Result) != "{}" {
		t.Errorf("got %+v", got)
	}
	if want := "tools/call echo\nGET after 1\nGET after 1\nGET after 2\nGET after 3"; !strings.HasSuffix(f.seen(), want) {
		t.Errorf("the server saw\n%s", f.seen())
	}
}

func TestAnswersThatDoNotCome(t *testing.T) {
	t.Parallel()
	type answer = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message)
	status := func(n int) answer {
		return func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "no", n)
		}
	}
	lastID := func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) { stream(w)("id: 1\nretry: 1\ndata:") }
	for name, c := range map[string]struct {
		modern bool
		call   answer
		get    http.HandlerFunc
		status int
		stage  mcpconn.Stage
		cause  string // "": none
	}{
		"cut before the answer": {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) { cut(w, "") }, cause: "EOF"},
		"cut within the answer": {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
			cut(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
		}, status: 200, cause: "the answer was cut"},
		"half an answer": {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
			cut(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
		}, status: 200, cause: "without an answer"},
		"another's answer": {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":99,"result":{}}`))
		}, status: 200, cause: "without an answer"},
		"a page": {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<p>`))
		}, status: 200, cause: "without an answer"},
		"202":                        {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) { w.WriteHeader(202) }, status: 202, cause: "without an answer"},
		"429":                        {call: status(429), status: 429},
		"503":                        {call: status(503), status: 503},
		"a stream without ids":       {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) { stream(w)("data:") }, status: 200, cause: "the stream ended"},
		"a stream that is not known": {call: lastID, get: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, status: 200, cause: "answered 404"},
		"a stream without progress":  {call: lastID, get: func(w http.ResponseWriter, _ *http.Request) { stream(w)("id: 1\nretry: 1\ndata:") }, status: 200, cause: "could not be taken up"},
		"a stream, stateless":        {modern: true, call: lastID, get: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, status: 200, cause: "the stream ended"},
		"a session that is forgotten": {call: func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) { w.WriteHeader(404) },
			status: 404, stage: mcpconn.Unsent, cause: "forgotten the session"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEndpoint(t)
			f.modern, f.call, f.get = c.modern, c.call, c.get
			got := f.client(t, nil).CallTool(context.Background(), effect("echo"))
			if got.Answered() || got.Status != c.status || got.Stage != c.stage {
				t.Errorf("got %+v", got)
			}
			if (got.Cause == nil) != (c.cause == "") || got.Cause != nil && !strings.Contains(got.Cause.Error(), c.cause) {
				t.Errorf("cause %v, want %q", got.Cause, c.cause)
			}
			if retry := c.status == 429 || c.status == 503; (got.RetryAfter != 0) != retry {
				t.Errorf("retry after %s", got.RetryAfter)
			}
			if n := strings.Count(f.seen(), "tools/call"); n != 1 {
				t.Errorf("%d calls", n)
			}
			if asked := strings.Contains(f.seen(), "GET"); asked != (c.get != nil && !c.modern) {
				t.Errorf("the server saw\n%s", f.seen())
			}
		})
	}
}

func TestAServerThatForgotTheSession(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFakeEndpoint(t)
	e := f.client(t, nil)
	if got := e.CallTool(ctx, effect("echo")); !got.Answered() {
		t.Fatalf("got %+v", got)
	}
	f.forget()
	if got := e.CallTool(ctx, effect("echo")); got.Stage != mcpconn.Unsent || got.Status != 404 {
		t.Errorf("an attempt: %+v", got)
	}
	if got := e.CallTool(ctx, effect("echo")); !got.Answered() {
		t.Errorf("the next one: %+v", got)
	}
	f.forget()
	if got := e.CallTool(ctx, lookup("echo")); !got.Answered() {
		t.Errorf("a lookup: %+v", got)
	}
	f.forget()
	if tools, err := e.ListTools(ctx); len(tools) != 1 || err != nil {
		t.Errorf("the tools: %d, %v", len(tools), err)
	}
	f.call = func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Message) { w.WriteHeader(404) }
	if got := e.CallTool(ctx, lookup("echo")); got.Answered() {
		t.Errorf("a server that forgets at once: %+v", got)
	}
	if n := strings.Count(f.seen(), "tools/call"); n != 7 {
		t.Errorf("%d calls\n%s", n, f.seen())
	}
}

func TestWhenTimeIsUpOverHTTP(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		f := newFakeEndpoint(t)
		f.modern = modern
		began, over := make(chan struct{}), make(chan struct{})
		f.call = func(w http.ResponseWriter, r *http.Request, _ *jsonrpc.Message) {
			stream(w)(": working")
			began <- struct{}{}
			<-r.Context().Done()
			over <- struct{}{}
		}
		e := f.client(t, nil)
		for _, c := range []*mcpconn.ToolCall{lookup("echo"), effect("echo")} {
			ctx, cancel := context.WithCancel(context.Background())
			reply := make(chan mcpconn.Reply)
			go func() { reply <- e.CallTool(ctx, c) }()
			<-began
			cancel()
			if got := <-reply; got.Stage != mcpconn.Sent || !errors.Is(got.Cause, context.Canceled) {
				t.Errorf("got %+v", got)
			}
			if c.Attempt == nil {
				<-over // the server is told at once
				continue
			}
			_, _ = e.ListTools(context.Background()) // time for the server to notice
			select {
			case <-over:
				t.Error("the server was told to stop halfway")
			default:
			}
		}
		go e.Close()
		<-over
		want := map[bool]int{false: 1, true: 0}[modern] // with the latter, the end of the stream says it
		if n := strings.Count(f.seen(), "notifications/cancelled"); n != want {
			t.Errorf("modern %v: %d cancelled", modern, n)
		}
	}
}

func TestWhoCannotBeReached(t *testing.T) {
	t.Parallel()
	f := newFakeEndpoint(t)
	gone := f.client(t, nil)
	f.Server.Close()
	if got := gone.CallTool(context.Background(), effect("echo")); got.Stage != mcpconn.Unsent || got.Cause == nil {
		t.Errorf("got %+v", got)
	}
	f = newFakeEndpoint(t)
	known := f.client(t, nil)
	if got := known.CallTool(context.Background(), lookup("echo")); !got.Answered() {
		t.Fatalf("got %+v", got)
	}
	f.Server.Close()
	if got := known.CallTool(context.Background(), effect("echo")); got.Stage != mcpconn.Unsent || got.Cause == nil {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := known.CallTool(ctx, effect("echo")); got.Stage != mcpconn.Unsent {
		t.Errorf("got %+v", got)
	}
}

func TestCredentialsAreNotRepeated(t *testing.T) {
	t.Parallel()
	const token = "hunter2-hunter2"
	f := newFakeEndpoint(t)
	f.call = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
		reply(w, m, `{"content":[],"echo":"`+r.Header.Get("Authorization")+` `+r.Header.Get("X-Team")+`"}`)
	}
	var log lockedBuffer
	var failing error
	e := f.client(t, func(o *mcpconn.EndpointOptions) {
		o.Logger = logTo(&log)
		o.Header = func(context.Context) (http.Header, error) {
			return http.Header{"Authorization": {"Bearer " + token}, "X-Team": {"platform"}}, failing
		}
	})
	if got := e.CallTool(context.Background(), effect("echo")); string(got.Result) != `{"content":[],"echo":"[redacted] platform"}` {
		t.Errorf("got %s", got.Result)
	}
	failing = errors.New("no " + token)
	if got := e.CallTool(context.Background(), effect("echo")); got.Stage != mcpconn.Unsent || strings.Contains(got.Cause.Error(), token) {
		t.Errorf("got %+v", got)
	}
	if strings.Contains(log.String(), token) {
		t.Error(log.String())
	}
}

func TestARefusedGreeting(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{401: "check the credentials", 404: "initialize with 404", 500: "initialize with 500", 302: "initialize with 302"} {
		f := newFakeEndpoint(t)
		f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		got := f.client(t, nil).CallTool(context.Background(), effect("echo"))
		if got.Stage != mcpconn.Unsent || got.Cause == nil || !strings.Contains(got.Cause.Error(), want) {
			t.Errorf("%d: got %+v", status, got)
		}
	}
}

func TestNewEndpointRefuses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"": "must begin with", "ftp://x/": "must begin with", "http:///x": "have a host",
		"https://user:hunter2@x/": "no credentials", "http://x:hunter2\x7f/": "cannot be read"} {
		_, err := mcpconn.NewEndpoint(&mcpconn.EndpointOptions{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}
