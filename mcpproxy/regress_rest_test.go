package mcpproxy_test

import (
	"testing"

	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// A tool whose name the ledger does not take can be called by a process that
// takes over what another one left open.
func TestHashedToolNameAfterAdopt(t *testing.T) {
	t.Parallel()
	store := inmem.New(nil)
	up, release := held()
	s := setOn(t, store, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	defer release()
	id := c.start("tools/call", `{"name":"send mail","arguments":{"a":1}}`)
	waitFor(t, func() bool { return up.count("send mail") == 1 })
	heir := setOn(t, store, &upstream{}, mcpproxy.Options{}, nil)
	if err := heir.server.Adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := heir.open(t).call("send mail", `{"a":2}`); words(m) != "send mail 1" {
		t.Errorf("%s", m.Raw)
	}
	release()
	if m := c.result(id); words(m) != "run 1" {
		t.Errorf("%s", m.Raw)
	}
}

// Servers in different folders never share a call to a tool that nobody
// described, whatever the scope.
func TestInstancesAreApartUnderOneScope(t *testing.T) {
	t.Parallel()
	store := inmem.New(nil)
	up, release := held()
	here := setOn(t, store, up, mcpproxy.Options{Scope: "team-1", Instance: "here"}, nil)
	there := setOn(t, store, &upstream{}, mcpproxy.Options{Scope: "team-1", Instance: "there"}, nil)
	c, d := here.open(t), there.open(t)
	defer release()
	a := c.start("tools/call", `{"name":"commit","arguments":{"m":"wip"}}`)
	waitFor(t, func() bool { return up.count("commit") == 1 })
	b := d.start("tools/call", `{"name":"commit","arguments":{"m":"wip"}}`)
	waitFor(t, func() bool { return there.server.Waiting() == 1 || there.up.count("commit") == 1 })
	release()
	if m := c.result(a); words(m) != "run 1" {
		t.Errorf("%s", m.Raw)
	}
	if m := d.result(b); words(m) != "commit 1" {
		t.Errorf("%s", m.Raw)
	}
}

// A plain call does not get the handle of a task, nor the other way round.
func TestTaskAndPlainCallAreApart(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		answer := jsonrpc.Response(m.ID, text("ok"))
		if jsonrpc.Get(m.Params, "task") != nil {
			answer = jsonrpc.Response(m.ID, []byte(`{"task":{"taskId":"t1","status":"working"}}`))
		}
		go func() {
			<-hold
			p.handle(answer)
		}()
		return nil
	}}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	a := c.start("tools/call", `{"name":"send","arguments":{},"task":{"ttl":1000}}`)
	waitFor(t, func() bool { return up.count("send") == 1 })
	b := c.start("tools/call", `{"name":"send","arguments":{}}`)
	waitFor(t, func() bool { return s.server.Waiting() == 2 })
	close(hold)
	if m := c.result(a); jsonrpc.String(m.Result, "task", "taskId") != "t1" {
		t.Errorf("the task: %s", m.Raw)
	}
	if m := c.result(b); words(m) != "ok" || jsonrpc.Get(m.Result, "task") != nil {
		t.Errorf("the plain call: %s", m.Raw)
	}
}
