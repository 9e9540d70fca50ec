package mcpproxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// A continuation belongs to the operation whose question it answers; the
// question is never recorded as the result.
func TestInputRequired(t *testing.T) {
	t.Parallel()
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		switch jsonrpc.String(m.Params, "requestState") {
		case "":
			return jsonrpc.Response(m.ID, json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create"}},"requestState":"s1"}`))
		case "s1":
			return jsonrpc.Response(m.ID, json.RawMessage(`{"resultType":"input_required","inputRequests":{"r":{}},"requestState":"s2"}`))
		}
		return jsonrpc.Response(m.ID, json.RawMessage(`{"resultType":"complete","content":[{"type":"text","text":"sent"}]}`))
	}}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	ask := func(want string) {
		t.Helper()
		m := c.call("send", `{"to":"a"}`)
		if got := jsonrpc.String(m.Result, "requestState"); got != want {
			t.Fatalf("%s", m.Raw)
		}
	}
	next := func(state string) *jsonrpc.Message {
		t.Helper()
		return c.request("tools/call", `{"name":"send","arguments":{"to":"a"},"requestState":"`+state+`","inputResponses":{"q":{"action":"accept"}}}`)
	}
	ask("s1")
	ask("s1") // the question got lost: it is put again, and the server not asked
	if n := up.count("send"); n != 1 {
		t.Fatalf("%d requests", n)
	}
	if m := next("s1"); jsonrpc.String(m.Result, "requestState") != "s2" {
		t.Fatalf("%s", m.Raw)
	}
	m := next("s2")
	if words(m) != "sent" || state(m) != "succeeded" || replayed(m) {
		t.Fatalf("%s", m.Raw)
	}
	page, err := s.runner.List(t.Context(), justonce.Filter{})
	if err != nil || len(page.Operations) != 1 {
		t.Errorf("%d operations, %v", len(page.Operations), err)
	}
	ask("s1") // delivered: a new intent
}

// A client that never answers the question takes its call back.
func TestInputNeverComes(t *testing.T) {
	t.Parallel()
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		return jsonrpc.Response(m.ID, json.RawMessage(`{"resultType":"input_required","requestState":"s"}`))
	}}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	c.call("send", `{}`)
	c.wait()
	waitFor(t, func() bool { return ended(t, s, "u/send") == 1 })
	page, err := s.runner.List(t.Context(), justonce.Filter{})
	if err != nil || page.Operations[0].Reason != justonce.ReasonCancelled {
		t.Errorf("%+v, %v", page.Operations[0], err)
	}
	s.open(t).call("send", `{}`)
	if n := up.count("send"); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A client's own mark of a call holds over a delivered answer.
func TestIntentKey(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{IntentKeys: []string{"claudecode/toolUseId"}}, nil).open(t)
	call := func(use, args string) *jsonrpc.Message {
		return c.request("tools/call", `{"name":"send","arguments":`+args+`,"_meta":{"claudecode/toolUseId":"`+use+`"}}`)
	}
	call("t1", `{"to":"a"}`)
	if m := call("t1", `{"to":"a"}`); !replayed(m) || !strings.HasPrefix(words(m), "send 1\n") {
		t.Errorf("%s", m.Raw)
	}
	if m := call("t2", `{"to":"a"}`); words(m) != "send 2" {
		t.Errorf("%s", m.Raw)
	}
	if m := call("t1", `{"to":"a"}`); !replayed(m) || !strings.HasPrefix(words(m), "send 1\n") {
		t.Errorf("the first once more, after a second: %s", m.Raw)
	}
	if m := call("t1", `{"to":"b"}`); words(m) != "send 3" {
		t.Errorf("a mark that was used for another call: %s", m.Raw)
	}
}

func TestGivenKey(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	call := func(meta, args string) *jsonrpc.Message {
		return c.request("tools/call", `{"name":"send","arguments":`+args+`,"_meta":`+meta+`}`)
	}
	for i := range 3 {
		m := call(`{"dev.justonce/operation_id":"shop:1"}`, `{"to":"a"}`)
		if replayed(m) != (i > 0) || jsonrpc.String(m.Result, "_meta", "dev.justonce/key") != "shop:1" {
			t.Errorf("%d: %s", i, m.Raw)
		}
	}
	m := call(`{"dev.justonce/operation_id":"shop:1"}`, `{"to":"b"}`)
	if m.Result == nil || !isError(m) || !strings.Contains(words(m), "/to") {
		t.Errorf("a conflict is a result that a model can act on: %s", m.Raw)
	}
	for _, bad := range []string{`{"dev.justonce/operation_id":"ä"}`, `{"dev.justonce/intent_seq":0}`, `{"dev.justonce/intent_seq":"x"}`} {
		if m := call(bad, `{"to":"z"}`); !isError(m) || !strings.Contains(words(m), "Nothing was sent") {
			t.Errorf("%s: %s", bad, m.Raw)
		}
	}
	if n := up.count("send"); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// A model says that it means an equal call of a strict tool.
func TestRepeat(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	s := set(t, up, mcpproxy.Options{Tools: map[string]mcpproxy.ToolOptions{"pay": {Repeat: true}}}, func(late *lateCaller) []*justonce.Tool {
		return []*justonce.Tool{{Name: "u/pay", Identity: []string{"/id"}, Connector: plain(t, "pay", late)}}
	})
	c := s.open(t)
	if m := c.call("pay", `{"id":1}`); words(m) != "pay 1" {
		t.Fatalf("%s", m.Raw)
	}
	if m := c.call("pay", `{"id":1}`); !replayed(m) || !strings.Contains(words(m), "justonce_repeat: 2") {
		t.Errorf("%s", m.Raw)
	}
	if m := c.call("pay", `{"id":1,"justonce_repeat":2}`); words(m) != "pay 2" {
		t.Errorf("%s", m.Raw)
	}
	if m := c.call("pay", `{"justonce_repeat":2,"id":1}`); !replayed(m) || !strings.HasPrefix(words(m), "pay 2\n") {
		t.Errorf("a retry of the repetition: %s", m.Raw)
	}
	for _, l := range up.lines {
		if strings.Contains(l, "justonce_repeat") {
			t.Errorf("the server got %s", l)
		}
	}
}

func TestStatusAndWait(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		go func() {
			<-hold
			p.handle(jsonrpc.Response(m.ID, text("done")))
		}()
		return nil
	}}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	if m := c.call("justonce_status", `{"tool":"send","arguments":{"a":1}}`); !isError(m) || !strings.Contains(words(m), "No such call") {
		t.Errorf("%s", m.Raw)
	}
	if m := c.call("justonce_status", `{}`); !isError(m) {
		t.Errorf("%s", m.Raw)
	}
	id := c.start("tools/call", `{"name":"send","arguments":{"a":1}}`)
	waitFor(t, func() bool { return up.count("send") == 1 })
	m := c.call("justonce_status", `{"tool":"send","arguments":{"a":1}}`)
	if isError(m) || state(m) != "running" || !strings.Contains(words(m), "do not start it again") {
		t.Errorf("%s", m.Raw)
	}
	wait := c.start("tools/call", `{"name":"justonce_wait","arguments":{"key":"`+jsonrpc.String(m.Result, "_meta", "dev.justonce/key")+`"}}`)
	close(hold)
	if m = c.result(wait); isError(m) || !strings.HasPrefix(words(m), "done") {
		t.Errorf("%s", m.Raw)
	}
	if m = c.result(id); words(m) != "done" {
		t.Errorf("%s", m.Raw)
	}
	if n := up.count("justonce_status") + up.count("justonce_wait"); n != 0 {
		t.Errorf("the server got %d of our calls", n)
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var held atomic.Bool
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		answer := jsonrpc.Response(m.ID, text(fmt.Sprint("run ", n)))
		if !held.Load() {
			return answer
		}
		go func() {
			<-hold
			p.handle(answer)
		}()
		return nil
	}}
	s := set(t, up, mcpproxy.Options{Mode: mcpproxy.Observe}, nil)
	c := s.open(t)
	for i := 1; i <= 2; i++ { // delivered: two intents
		if m := c.call("send", `{"to":"a"}`); string(m.Result) != string(text(fmt.Sprint("run ", i))) {
			t.Errorf("%s", m.Raw)
		}
	}
	held.Store(true)
	a := c.start("tools/call", `{"name":"send","arguments":{"to":"b"}}`)
	b := c.start("tools/call", `{"name":"send","arguments":{"to":"b"}}`)
	waitFor(t, func() bool { return up.count("send") == 4 }) // nothing is held back
	close(hold)
	c.result(a)
	c.result(b)
	r, err := s.runner.Report(t.Context(), nil)
	if err != nil || len(r.Tools) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	got, _ := json.Marshal(r.Tools[0])
	if tool := r.Tools[0]; tool.Calls != 4 || tool.Would[justonce.CallJoined] != 1 {
		t.Errorf("%s", got)
	}
	page, err := s.runner.List(t.Context(), justonce.Filter{})
	if err != nil || len(page.Operations) != 0 {
		t.Errorf("observed calls among the operations: %v, %v", page, err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	for _, x := range []struct{ line, code, id string }{
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call"`, "-32700", "null"},
		{`nonsense`, "-32700", "null"},
		{`"a"`, "-32600", "null"},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/list","method":"tools/call","params":{}}`, "-32600", "9"},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read","name":"send","arguments":{}}}`, "-32602", "9"},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"send","_meta":{"a":1,"a":2}}}`, "-32602", "9"},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read","Name":"send","arguments":{}}}`, "-32602", "9"},
		{`{"jsonrpc":"2.0","id":9,"method":"ping","Method":"tools/call","params":{"name":"send"}}`, "-32600", "9"},
		{`[{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"send"}}]`, "-32600", "9"},
		{`{"jsonrpc":"2.0","id":9}`, "-32600", "9"},
	} {
		c.send(x.line)
		m := c.line()
		if string(jsonrpc.Get(m.Error, "code")) != x.code || string(m.ID) != x.id {
			t.Errorf("%s: %s", x.line, m.Raw)
		}
	}
	for _, args := range []string{`{"a":1,"a":2}`, `[1]`, `"x"`} {
		if m := c.call("send", args); !isError(m) || !strings.Contains(words(m), "Nothing was sent") {
			t.Errorf("%s: %s", args, m.Raw)
		}
	}
	c.send("")                                                     // blank lines are nothing
	c.send(`{"jsonrpc":"2.0","id":77,"result":{}}`)                // an answer to nothing
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`) // of nothing
	if m := c.call("send", `{}`); words(m) != "send 1" {
		t.Errorf("%s", m.Raw)
	}
	if n := up.count("send"); n != 1 {
		t.Errorf("%d executions", n)
	}
}
