package mcpproxy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/bubble"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// What no client waits for is not sent before a client shook hands: the server
// would refuse it.
func TestNothingIsSentBeforeHandshake(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		up := &upstream{}
		up.on = func(p *peer, m *jsonrpc.Message, n int) []byte {
			if up.heard("notifications/initialized") == 0 {
				return jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32602, "not initialized", nil))
			}
			return jsonrpc.Response(m.ID, text("made"))
		}
		s := set(t, up, mcpproxy.Options{}, func(late *lateCaller) []*justonce.Tool {
			return []*justonce.Tool{{Name: "u/make", Identity: []string{"/id"}, Connector: plain(t, "make", late),
				Policy: justonce.Policy{BackoffBase: time.Millisecond, BackoffCap: 2 * time.Millisecond, MaxAttempts: 100_000}}}
		})
		a, err := s.runner.Do(t.Context(), justonce.Call{Tool: "u/make", Arguments: json.RawMessage(`{"id":1}`), NoWait: true})
		if err != nil {
			t.Fatal(err)
		}
		now := func() *justonce.Operation {
			a, err := s.runner.Get(t.Context(), a.Operation.Ref)
			if err != nil {
				t.Fatal(err)
			}
			return a.Operation
		}
		c := startBubbled(t, s.server, time.Second, true, up.start)
		synctest.Wait()
		was := now().Attempts
		waitFor(t, func() bool { op := now(); return op.Attempts > was+3 || op.State.Ended() })
		if op := now(); op.State.Ended() || up.count("make") != 0 {
			t.Errorf("before: %s, the server got %d calls", op.State, up.count("make"))
		}
		c.greet()
		waitFor(t, func() bool { return now().State.Ended() })
		if op := now(); op.State != justonce.Succeeded {
			t.Errorf("after: %s %v", op.State, op.Failure)
		}
		c.lingered(time.Minute)
	})
}

// A server that was started again and dies over the handshake is under way with
// nothing that the end of the conversation waits for.
func TestFailedHandshakeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		up := &upstream{}
		s := set(t, up, mcpproxy.Options{}, nil)
		var first *peer
		c := startBubbled(t, s.server, time.Minute, true, func(h func([]byte)) (mcpproxy.Peer, error) {
			if first == nil {
				p, err := up.start(h)
				first = p.(*peer)
				return p, err
			}
			p := &peer{u: up, handle: h, in: make(chan []byte), done: make(chan struct{})}
			go func() {
				<-p.in
				p.die("over initialize")
			}()
			return p, nil
		})
		c.greet()
		first.die("crash")
		synctest.Wait()
		if m := c.request("ping", `{}`); m.Error == nil {
			t.Errorf("%s", m.Raw)
		}
		if d := c.lingered(time.Hour); d > time.Second {
			t.Errorf("it went on for %s", d)
		}
	})
}

// The client's answer to a question of a server that has ended is not its
// successor's, which may ask something else under the same id.
func TestAnswerToDeadServersQuestion(t *testing.T) {
	t.Parallel()
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		if n == 1 {
			p.handle([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"delete A?"}}`))
			p.die("crash")
			return nil
		}
		return jsonrpc.Response(m.ID, text("fine"))
	}}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	id := c.start("tools/call", `{"name":"del","arguments":{"f":"A"}}`)
	if m := c.line(); m.Method != "elicitation/create" {
		t.Fatalf("%s", m.Raw)
	}
	var told []string
	for {
		m := c.line()
		if m.IDKey() == id {
			break
		}
		told = append(told, string(m.Raw))
	}
	if len(told) != 1 || !strings.Contains(told[0], "notifications/cancelled") || !strings.Contains(told[0], `"requestId":1`) {
		t.Errorf("of the question's end the client was told %q", told)
	}
	if m := c.call("del", `{"f":"B"}`); words(m) != "fine" { // a new server runs
		t.Errorf("%s", m.Raw)
	}
	c.send(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
	c.passed(up)
	if n := up.heard("accept"); n != 0 {
		t.Error("the new server got the answer to the old one's question")
	}
}

// A server that ends before the client's handshake is started again, and gets
// that handshake once.
func TestServerEndsBeforeHandshake(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		up := &upstream{}
		s := set(t, up, mcpproxy.Options{}, nil)
		c := startBubbled(t, s.server, time.Second, true, func(h func([]byte)) (mcpproxy.Peer, error) {
			p, err := up.start(h)
			if up.starts == 1 {
				p.Close()
			}
			return p, err
		})
		synctest.Wait()
		c.greet()
		if n := up.heard(`"initialize"`); n != 1 || up.starts != 2 {
			t.Errorf("%d handshakes, %d starts", n, up.starts)
		}
		c.lingered(time.Minute)
	})
}

// The answer to a call may come as a batch of one.
func TestServerAnswersInBatch(t *testing.T) {
	t.Parallel()
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		return append(append([]byte{'['}, jsonrpc.Response(m.ID, text("ok"))...), ']')
	}}
	c := set(t, up, mcpproxy.Options{Timeout: time.Second}, nil).open(t)
	if m := c.call("send", `{}`); state(m) != "succeeded" || words(m) != "ok" {
		t.Errorf("%s", m.Raw)
	}
}

// A cursor of null is none: the page is the last one.
func TestNullCursor(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := openWith(t, s.server, func(h func([]byte)) (mcpproxy.Peer, error) {
		return up.start(func(line []byte) {
			m, err := jsonrpc.Parse(line)
			if err == nil && jsonrpc.Get(m.Result, "tools") != nil {
				line = jsonrpc.Set(line, json.RawMessage("null"), "result", "nextCursor")
			}
			h(line)
		})
	})
	if m := c.request("tools/list", `{}`); !strings.Contains(string(m.Raw), "justonce_status") {
		t.Errorf("%s", m.Raw)
	}
}

// A client that does not read, and closes its side, does not keep the proxy:
// neither by the answer to a call nor by what passes.
func TestEndsThoughClientDoesNotRead(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"call":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":{}}}`,
		"passes": `{"jsonrpc":"2.0","id":1,"method":"foo/bar","params":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				up := &upstream{}
				s := set(t, up, mcpproxy.Options{}, nil)
				c := startBubbled(t, s.server, 2*time.Second, false, up.process)
				c.send(request)
				synctest.Wait() // the answer is being written
				if d := c.lingered(time.Minute); d > 10*time.Second {
					t.Errorf("it went on for %s", d)
				}
			})
		})
	}
}
