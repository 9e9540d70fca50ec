package mcpproxy_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
	"github.com/justonce-dev/justonce/mcpproxy"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

func modernCall(t testing.TB, url, id, args, more string, headers ...string) *http.Request {
	return request(t, "POST", url, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"send","arguments":`+args+`,`+modernMeta+more+`}}}`,
		append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "send"}, headers...)...)
}

// Requests without sessions share a server; ids and progress tokens of their
// clients never meet.
func TestBridge_Stateless(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var held []func()
	both := make(chan struct{})
	up := &upstream{}
	up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
		token := jsonrpc.Get(m.Params, "_meta", "progressToken")
		p.handle([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":` + fmt.Sprint(n) + `}}`))
		p.handle([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"of one of them"}}`))
		mu.Lock()
		defer mu.Unlock()
		held = append(held, func() { p.handle(jsonrpc.Response(m.ID, text("to "+jsonrpc.String(m.Params, "arguments", "to")))) })
		if len(held) == 2 {
			close(both)
		}
		return nil
	}
	m := mount(t, set(t, up, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start})
	type got struct {
		to string
		a  *reply
	}
	answers := make(chan got, 2)
	for _, to := range []string{"a", "b"} {
		go func() {
			r := modernCall(t, m.url, "1", `{"to":"`+to+`"}`, `,"progressToken":1`, "Authorization", "Bearer "+to)
			answers <- got{to, do(t, client(t), r)}
		}()
	}
	<-both
	for _, f := range held {
		f()
	}
	for range 2 {
		g := <-answers
		if words(g.a.msg) != "to "+g.to || g.a.msg.IDKey() != "1" || jsonrpc.String(g.a.msg.Result, "resultType") != "" {
			t.Errorf("%s: %s", g.to, g.a.body)
		}
		progress, _ := jsonrpc.Parse(g.a.events[0].Data)
		if string(jsonrpc.Get(progress.Params, "progressToken")) != "1" {
			t.Errorf("%s", g.a.events[0].Data)
		}
	}
	if up.starts != 1 {
		t.Errorf("%d servers", up.starts)
	}
	for _, x := range []struct {
		name   string
		r      *http.Request
		status int
		code   string
	}{
		{"another name", modernCall(t, m.url, "1", `{}`, "", "Mcp-Name", "other"), 400, "-32020"},
		{"another version", modernCall(t, m.url, "1", `{}`, "", "Mcp-Protocol-Version", "2027-01-01"), 400, "-32020"},
		{"no method", modernCall(t, m.url, "1", `{}`, "", "Mcp-Method", ""), 400, "-32020"},
		{"not initialized", request(t, "POST", m.url, callBody("1", "send", `{}`)), 400, "-32600"},
		{"a batch", request(t, "POST", m.url, `[{"jsonrpc":"2.0","method":"x"}]`), 400, "-32600"},
	} {
		a := do(t, client(t), x.r)
		if code := string(jsonrpc.Get(a.msg.Error, "code")); a.status != x.status || code != x.code {
			t.Errorf("%s: %d %s", x.name, a.status, a.body)
		}
	}
}

// A client that closes a stream which stands for itself has cancelled it.
func TestBridge_StreamClosed(t *testing.T) {
	t.Parallel()
	up := &listening{cancelled: make(chan string, 1)}
	m := mount(t, set(t, &up.upstream, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start})
	resp, err := client(t).Do(request(t, "POST", m.url, `{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{`+modernMeta+`}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := sse.NewReader(resp.Body).Next()
	n, _ := jsonrpc.Parse(e.Data)
	if err != nil || n == nil || jsonrpc.String(n.Params, "_meta", "io.modelcontextprotocol/subscriptionId") != "s" {
		t.Fatalf("%v %s", err, e.Raw)
	}
	resp.Body.Close()
	if id := <-up.cancelled; id != up.id {
		t.Errorf("cancelled %s, want %s", id, up.id)
	}
}

// A listening is a server that answers a subscription with a notification.
type listening struct {
	upstream
	id        string
	cancelled chan string
	handle    func([]byte)
}

func (l *listening) start(handle func([]byte)) (mcpproxy.Peer, error) {
	l.handle = handle
	return &listeningPeer{l: l, done: make(chan struct{})}, nil
}

type listeningPeer struct {
	l    *listening
	done chan struct{}
	once sync.Once
}

func (p *listeningPeer) Write(line []byte) error {
	m, err := jsonrpc.Parse(line)
	switch {
	case err != nil:
	case m.Method == "subscriptions/listen":
		p.l.id = m.IDKey()
		go p.l.handle([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + m.IDKey() + `}}}`))
	case m.Method == "notifications/cancelled":
		p.l.cancelled <- string(jsonrpc.Get(m.Params, "requestId"))
	}
	return nil
}
func (p *listeningPeer) Done() <-chan struct{} { return p.done }
func (p *listeningPeer) Err() error            { return nil }
func (p *listeningPeer) Close()                { p.once.Do(func() { close(p.done) }) }

// Arguments that a tool wants in headers are compared with them.
func TestBridge_ParamHeaders(t *testing.T) {
	t.Parallel()
	list := `{"tools":[{"name":"send","inputSchema":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"To"},"o":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}}}}]}`
	up := &listing{list: list}
	m := mount(t, set(t, &up.upstream, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{Start: up.start})
	do(t, client(t), request(t, "POST", m.url, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"))
	for _, x := range []struct {
		args    string
		headers []string
		status  int
	}{
		{`{"to":"a"}`, []string{"Mcp-Param-To", "a"}, 200},
		{`{"to":"ä","o":{"n":1.0}}`, []string{"Mcp-Param-To", "=?base64?w6Q=?=", "Mcp-Param-N", "1"}, 200},
		{`{"to":null}`, nil, 200},
		{`{"to":"a"}`, nil, 400},
		{`{"to":"a"}`, []string{"Mcp-Param-To", "b"}, 400},
		{`{"to":"Hello"}`, []string{"Mcp-Param-To", "=?base64?SGVsbG8?="}, 400},
		{`{}`, []string{"Mcp-Param-To", "b"}, 400},
		{`{"o":{"n":9007199254740993}}`, []string{"Mcp-Param-N", "9007199254740992"}, 400},
		{`{"o":{"n":[1]}}`, []string{"Mcp-Param-N", "1"}, 400},
	} {
		a := do(t, client(t), modernCall(t, m.url, "1", x.args, "", x.headers...))
		if code := string(jsonrpc.Get(a.msg.Error, "code")); a.status != x.status || x.status == 400 && code != "-32020" {
			t.Errorf("%s %q: %d %s", x.args, x.headers, a.status, a.body)
		}
	}
}

// A listing is a server with a list of its own.
type listing struct {
	upstream
	list string
}

func (l *listing) start(handle func([]byte)) (mcpproxy.Peer, error) {
	return l.upstream.start(func(line []byte) {
		if m, err := jsonrpc.Parse(line); err == nil && jsonrpc.Get(m.Result, "tools") != nil {
			line = jsonrpc.Response(m.ID, []byte(l.list))
		}
		handle(line)
	})
}
