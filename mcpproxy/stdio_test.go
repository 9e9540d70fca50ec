package mcpproxy_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// What has no effect passes through byte for byte, in both directions.
func TestPassesThrough(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{NoExtras: true}, nil).open(t)
	line := `{ "jsonrpc":"2.0","x":{"a":1.0,"b":[ ]} , "id":"q\u0041", "method":"foo/bar","params":{"n":12345678901234567890}}`
	c.send(line)
	m := c.line()
	if got, want := string(m.Raw), `{"jsonrpc":"2.0","id":"q\u0041", "result" : {"echo":`+line+`}}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := string(c.request("tools/list", `{}`).Raw), `{"jsonrpc":"2.0", "id":2,"result":{"tools":[ {"name":"send","inputSchema":{"type":"object"},"x":1.50} ]}}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// Extras are added to the list and nothing else changes.
func TestListAdds(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{Tools: map[string]mcpproxy.ToolOptions{"send": {Repeat: true}}}, nil).open(t)
	raw := string(c.request("tools/list", `{}`).Raw)
	if !strings.HasPrefix(raw, `{"jsonrpc":"2.0", "id":2,"result":{"tools":[ {"name":"send","inputSchema":{"type":"object","properties":{"justonce_repeat":{`) ||
		!strings.Contains(raw, `}}},"x":1.50} ,{"name":"justonce_status"`) || !strings.Contains(raw, `{"name":"justonce_wait"`) || !strings.HasSuffix(raw, `}]}}`) {
		t.Error(raw)
	}
}

// Equal calls are the same until the answer was delivered; then the call is
// meant. This is what keeps a coding agent's second commit working.
func TestDeliveredCallRunsAgain(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	for i := 1; i <= 5; i++ {
		m := c.call("send", `{"to":"a"}`)
		if got, want := words(m), fmt.Sprintf("send %d", i); got != want || replayed(m) || state(m) != "succeeded" {
			t.Fatalf("call %d: %s", i, m.Raw)
		}
	}
}

func TestEqualCallsJoin(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		go func() {
			<-hold
			p.handle(jsonrpc.Response(m.ID, text(fmt.Sprint("run ", n))))
		}()
		return nil
	}}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	a := c.start("tools/call", `{"name":"send","arguments":{"to":"a","n":1}}`)
	b := c.start("tools/call", `{"arguments":{"n":1.0,"to":"a"},"name":"send","_meta":{"progressToken":7,"traceparent":"x"}}`)
	other := s.open(t) // another client of the same server
	d := other.start("tools/call", `{"name":"send","arguments":{"n":1,"to":"a"}}`)
	waitFor(t, func() bool { return up.count("send") == 1 && s.server.Waiting() == 3 })
	close(hold)
	for _, m := range []*jsonrpc.Message{c.result(a), c.result(b), other.result(d)} {
		if !strings.HasPrefix(words(m), "run 1") {
			t.Errorf("%s", m.Raw)
		}
	}
	if n := up.count("send"); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// waitFor polls for what other goroutines bring about.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come about")
		}
	}
}

// A client that gives up after the call was sent: the call goes on, and the next
// equal one gets its answer, as often as that does not arrive.
func TestCancelledAfterDispatch(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		go func() {
			<-hold
			p.handle(jsonrpc.Response(m.ID, json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":"run %d","annotations":{"p":1.0}}],"structuredContent":{"n":%d},"isError":true,"z":[1]}`, n, n))))
		}()
		return nil
	}}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	waitFor(t, func() bool { return up.count("send") == 1 })
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"timeout"}}`)
	c.request("ping", `{}`) // the cancel was seen
	close(hold)
	m := c.call("send", `{"to":"a"}`)
	if n := up.count("send"); n != 1 {
		t.Fatalf("%d executions", n)
	}
	want := `{"content":[{"type":"text","text":"run 1","annotations":{"p":1.0}}`
	if !strings.HasPrefix(string(m.Result), want) || !isError(m) || string(jsonrpc.Get(m.Result, "structuredContent")) != `{"n":1}` || string(jsonrpc.Get(m.Result, "z")) != "[1]" {
		t.Errorf("%s", m.Raw)
	}
	for _, l := range up.lines {
		if strings.Contains(l, "notifications/cancelled") {
			t.Errorf("the server was told: %s", l)
		}
	}
}

// The client dies without having read the answer; its successor calls again.
func TestUnreadAnswerIsReplayed(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	waitFor(t, func() bool { return up.count("send") == 1 && ended(t, s, "u/send") == 1 })
	c.in.Close()
	c.pipe.Close()
	c.wait()
	c = s.open(t)
	m := c.call("send", `{"to":"a"}`)
	if !replayed(m) || !strings.HasPrefix(words(m), "send 1\n[justonce] This was already done") || up.count("send") != 1 {
		t.Errorf("%s", m.Raw)
	}
	if m = c.call("send", `{"to":"a"}`); replayed(m) || words(m) != "send 2" {
		t.Errorf("after the replay was delivered: %s", m.Raw)
	}
}

func ended(t testing.TB, s *setup, tool string) int {
	page, err := s.runner.List(t.Context(), justonce.Filter{Tool: tool, States: []justonce.State{justonce.Succeeded, justonce.Failed}})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Operations)
}

// A server that dies over a call about which nothing can be known.
func TestServerDies(t *testing.T) {
	t.Parallel()
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		if jsonrpc.String(m.Params, "name") == "send" {
			p.die("killed")
			return nil
		}
		return jsonrpc.Response(m.ID, text("fine"))
	}}
	s := set(t, up, mcpproxy.Options{Decide: "justonce resolve %s"}, nil)
	c := s.open(t)
	for range 2 {
		m := c.call("send", `{"to":"a"}`)
		if !isError(m) || state(m) != "review" || !strings.Contains(words(m), "a person decides") || !strings.Contains(words(m), "justonce resolve op_") {
			t.Errorf("%s", m.Raw)
		}
	}
	if m := c.call("other", `{}`); words(m) != "fine" {
		t.Errorf("after the restart: %s", m.Raw)
	}
	if n := up.count("send"); n != 1 || up.starts != 2 {
		t.Errorf("%d executions, %d starts", n, up.starts)
	}
	hellos := 0
	for _, l := range up.lines {
		if strings.Contains(l, `"initialize"`) {
			hellos++
		}
	}
	if hellos != 2 {
		t.Errorf("%d handshakes with two servers", hellos)
	}
}

// With a lookup the truth comes out, and the agent gets it.
func TestLookupDecides(t *testing.T) {
	t.Parallel()
	for _, did := range []bool{true, false} {
		t.Run(fmt.Sprint(did), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			made := map[string]bool{}
			died := false
			up := &upstream{}
			up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
				mu.Lock()
				defer mu.Unlock()
				id := jsonrpc.String(m.Params, "arguments", "id")
				switch jsonrpc.String(m.Params, "name") {
				case "get":
					return jsonrpc.Response(m.ID, json.RawMessage(fmt.Sprintf(`{"content":[],"structuredContent":{"there":%v,"id":%q}}`, made[id], id)))
				default:
					if !died {
						died = true
						made[id] = did
						p.die("killed")
						return nil
					}
					made[id] = true
					return jsonrpc.Response(m.ID, text("made"))
				}
			}
			s := set(t, up, mcpproxy.Options{}, func(late *lateCaller) []*justonce.Tool {
				conn, err := mcpconn.New(mcpconn.Config{Server: "u", Tool: "make", Lookup: lookupOf(t, `{"tool":"get","arguments":{"id":"${args.id}"},"found":"structured.there","absent":"!structured.there","reference":"structured.id"}`)}, late)
				if err != nil {
					t.Fatal(err)
				}
				return []*justonce.Tool{{Name: "u/make", Identity: []string{"/id"}, Connector: conn,
					Policy: justonce.Policy{Capability: justonce.ByReference, Settle: -1, BackoffBase: time.Millisecond}}}
			})
			c := s.open(t)
			m := c.call("make", `{"id":"r1"}`)
			if isError(m) || state(m) != "succeeded" {
				t.Fatalf("%s", m.Raw)
			}
			want := 1
			if !did {
				want = 2 // the first certainly did nothing
			}
			if n := up.count("make"); n != want {
				t.Errorf("%d executions, want %d", n, want)
			}
			if m = c.call("make", `{"id":"r1"}`); !replayed(m) || up.count("make") != want {
				t.Errorf("strict call again: %s", m.Raw)
			}
			m = c.call("make", `{"id":"r1","other":1}`)
			if !isError(m) || !strings.Contains(words(m), "/other") || up.count("make") != want {
				t.Errorf("conflict: %s", m.Raw)
			}
		})
	}
}

func lookupOf(t testing.TB, s string) *mcpconn.Lookup {
	t.Helper()
	l := new(mcpconn.Lookup)
	if err := json.Unmarshal([]byte(s), l); err != nil {
		t.Fatal(err)
	}
	return l
}

// The client gives up just when the answer comes: it takes it off the pipe and
// throws it away.
func TestCancelCrossesAnswer(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	c.result(id)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	if m := c.call("send", `{"to":"a"}`); !replayed(m) || up.count("send") != 1 {
		t.Errorf("%d executions: %s", up.count("send"), m.Raw)
	}
}

// A declaration that fits no tool of the server is told of.
func TestDeclaredToolIsMissing(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	s := set(t, &upstream{}, mcpproxy.Options{Logger: log}, func(late *lateCaller) []*justonce.Tool {
		return []*justonce.Tool{{Name: "u/sned", Connector: plain(t, "sned", late)}, {Name: "u/send", Connector: plain(t, "send", late)}}
	})
	s.open(t).request("tools/list", `{}`)
	if got := out.String(); strings.Count(got, "does not have") != 1 || !strings.Contains(got, "tool=sned it_has=[send]") {
		t.Error(got)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
