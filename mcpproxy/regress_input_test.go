package mcpproxy_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// asking answers every call with a question, and a continuation with the
// arguments it came with.
func asking(_ *peer, m *jsonrpc.Message, _ int) []byte {
	if jsonrpc.String(m.Params, "requestState") == "" {
		return jsonrpc.Response(m.ID, json.RawMessage(`{"resultType":"input_required","requestState":"s1","inputRequests":{"q":{"secret":"of the first"}}}`))
	}
	return jsonrpc.Response(m.ID, text("did "+string(jsonrpc.Get(m.Params, "arguments"))))
}

// A call with other arguments under the same identity gets neither the first
// one's question nor its continuation.
func TestContinuationOfOtherArguments(t *testing.T) {
	t.Parallel()
	up := &upstream{on: asking}
	s := set(t, up, mcpproxy.Options{}, func(late *lateCaller) []*justonce.Tool {
		return []*justonce.Tool{{Name: "u/pay", Identity: []string{"/id"}, Connector: plain(t, "pay", late)}}
	})
	c := s.open(t)
	c.call("pay", `{"id":1,"amount":10}`)
	for _, more := range []string{``, `,"requestState":"s1","inputResponses":{}`} {
		m := c.request("tools/call", `{"name":"pay","arguments":{"id":1,"amount":1000}`+more+`}`)
		if !isError(m) || !strings.Contains(words(m), "/amount") || strings.Contains(string(m.Raw), "secret") {
			t.Errorf("%s: %s", more, m.Raw)
		}
	}
	if n := up.count("pay"); n != 1 {
		t.Errorf("the server got %d requests", n)
	}
	m := c.request("tools/call", `{"name":"pay","arguments":{"id":1,"amount":10},"requestState":"s1","inputResponses":{}}`)
	if words(m) != `did {"id":1,"amount":10}` {
		t.Errorf("the first goes on: %s", m.Raw)
	}
}

// Nor does a call of another tool under the same given key.
func TestContinuationOfOtherTool(t *testing.T) {
	t.Parallel()
	up := &upstream{on: asking}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	c.request("tools/call", `{"name":"send","arguments":{"a":1},"_meta":{"dev.justonce/operation_id":"K"}}`)
	m := c.request("tools/call", `{"name":"other","arguments":{"a":1},"requestState":"s1","_meta":{"dev.justonce/operation_id":"K"}}`)
	if !isError(m) || up.count("other") != 0 {
		t.Errorf("%s", m.Raw)
	}
}

// The patience for a call does not run out while its continuation is with the
// server.
func TestContinuationIsWaitedFor(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
			b := asking(p, m, n)
			if jsonrpc.String(m.Params, "requestState") == "" {
				return b
			}
			time.AfterFunc(time.Minute, func() { p.handle(b) })
			return nil
		}}
		s := set(t, up, mcpproxy.Options{Wait: time.Second}, nil)
		c := startBubbled(t, s.server, time.Second, true, up.start)
		c.greet()
		c.call("send", `{}`)
		if m := c.request("tools/call", `{"name":"send","arguments":{},"requestState":"s1"}`); words(m) != "did {}" {
			t.Errorf("%s", m.Raw)
		}
		c.lingered(time.Minute)
	})
}

// A slowReader is a store whose History waits once it was closed.
type slowReader struct {
	justonce.Store
	mu     sync.Mutex
	closed bool
	in     chan struct{} // told of whom waits
	open   chan struct{}
}

func (s *slowReader) History(ctx context.Context, ref justonce.Ref) ([]justonce.Entry, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.in <- struct{}{}
		<-s.open
	}
	return s.Store.History(ctx, ref)
}

// A call that is to be refused is not what an equal-looking one is carried out
// with.
func TestConflictingCallLendsNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	died := false
	var executed []string
	looking, goOn := make(chan struct{}, 10), make(chan struct{})
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		if jsonrpc.String(m.Params, "name") == "get" {
			looking <- struct{}{}
			go func() {
				<-goOn
				p.handle(jsonrpc.Response(m.ID, json.RawMessage(`{"content":[],"structuredContent":{"there":false}}`)))
			}()
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if !died {
			died = true
			p.die("killed")
			return nil
		}
		executed = append(executed, string(jsonrpc.Get(m.Params, "arguments")))
		return jsonrpc.Response(m.ID, text("made"))
	}}
	store := &slowReader{Store: inmem.New(nil), in: make(chan struct{}, 10), open: make(chan struct{})}
	s := setOn(t, store, up, mcpproxy.Options{}, func(late *lateCaller) []*justonce.Tool {
		conn, err := mcpconn.New(mcpconn.Config{Server: "u", Tool: "make", Lookup: lookupOf(t, `{"tool":"get","arguments":{"id":"${args.id}"},"found":"structured.there","absent":"!structured.there","reference":"structured.id"}`)}, late)
		if err != nil {
			t.Fatal(err)
		}
		return []*justonce.Tool{{Name: "u/make", Identity: []string{"/id"}, Connector: conn,
			Policy: justonce.Policy{Capability: justonce.ByReference, Settle: -1, BackoffBase: time.Millisecond}}}
	})
	c := s.open(t)
	a := c.start("tools/call", `{"name":"make","arguments":{"id":"r1","amount":10}}`)
	<-looking
	store.mu.Lock()
	store.closed = true
	store.mu.Unlock()
	b := c.start("tools/call", `{"name":"make","arguments":{"id":"r1","amount":1000}}`)
	waitFor(t, func() bool { return s.server.Waiting() == 2 })
	<-store.in // it met the first, and is about to learn of the conflict
	close(goOn)
	waitFor(t, func() bool { return up.count("make") == 2 })
	close(store.open)
	if m := c.result(a); state(m) != "succeeded" {
		t.Errorf("%s", m.Raw)
	}
	if m := c.result(b); !isError(m) || !strings.Contains(words(m), "/amount") {
		t.Errorf("%s", m.Raw)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(executed) != 1 || !strings.Contains(executed[0], `"amount":10}`) {
		t.Errorf("executed %q", executed)
	}
}

// The server may escape an id otherwise than the client.
func TestEscapedID(t *testing.T) {
	t.Parallel()
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		return jsonrpc.Response(json.RawMessage(`"a/b"`), text("ok"))
	}}
	c := set(t, up, mcpproxy.Options{Timeout: time.Second}, nil).open(t)
	c.send(`{"jsonrpc":"2.0","id":"a\/b","method":"tools/call","params":{"name":"send","arguments":{}}}`)
	if m := c.line(); state(m) != "succeeded" || m.IDKey() != `"a/b"` {
		t.Errorf("%s", m.Raw)
	}
}

// A result beside an error of null is a result.
func TestResultBesideNullError(t *testing.T) {
	t.Parallel()
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		return []byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[]},"error":null}`)
	}}
	c := set(t, up, mcpproxy.Options{Timeout: time.Second}, nil).open(t)
	if m := c.call("send", `{}`); state(m) != "succeeded" {
		t.Errorf("%s", m.Raw)
	}
}

// A call that nobody can be told the outcome of is not sent.
func TestCallWithoutIDIsNotSent(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	c.send(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"send","arguments":{}}}`)
	c.passed(up)
	if n := up.heard("tools/call"); n != 0 {
		t.Errorf("the server got it %d times", n)
	}
}

// A ledger that does not answer in time leaves no caller without a word, whether
// it began the operation or met it.
func TestSlowLedgerLeavesNobodyUnanswered(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		up := &upstream{}
		store := newGate(inmem.New(nil))
		s := setOn(t, store, up, mcpproxy.Options{Wait: time.Second}, nil)
		c := startBubbled(t, s.server, time.Second, true, up.start)
		c.greet()
		missing := map[string]bool{}
		for range 2 {
			missing[c.start("tools/call", `{"name":"send","arguments":{}}`)] = true
		}
		time.AfterFunc(10*time.Second, func() { close(store.open) })
		late := time.After(time.Minute)
		for len(missing) > 0 {
			select {
			case m := <-c.lines:
				delete(missing, m.IDKey())
			case <-late:
				t.Errorf("not answered: %v", missing)
				clear(missing)
			}
		}
		c.lingered(time.Minute)
	})
}
