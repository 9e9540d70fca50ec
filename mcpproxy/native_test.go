package mcpproxy_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

func plain(t testing.TB, tool string, caller mcpconn.Caller) justonce.Connector {
	t.Helper()
	c, err := mcpconn.New(mcpconn.Config{Server: "u", Tool: tool}, caller)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A runner's own tools, offered over MCP: the same operation whoever calls.
func TestNative(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	runner, err := justonce.New(inmem.New(nil), &justonce.RunnerOptions{Tools: []*justonce.Tool{
		{Name: "charge", Description: "Charges.", Identity: []string{"/id"}, Schema: json.RawMessage(`{"type":"object","required":["id"]}`),
			Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
				return map[string]int64{"n": ran.Add(1)}, nil
			})},
		{Name: "refuse", Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
			return nil, justonce.RejectedError(context.Canceled)
		})},
		{Name: "time", Effect: justonce.Read, Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) { return "noon", nil })},
	}})
	if err != nil {
		t.Fatal(err)
	}
	server, start, err := mcpproxy.NewNative(runner, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := openWith(t, server, start)
	list := c.request("tools/list", `{}`)
	if tools := jsonrpc.Elements(jsonrpc.Get(list.Result, "tools")); len(tools) != 5 || jsonrpc.String(tools[0], "name") != "charge" ||
		string(jsonrpc.Get(tools[0], "inputSchema", "required")) != `["id"]` || string(jsonrpc.Get(tools[2], "annotations", "readOnlyHint")) != "true" {
		t.Errorf("%s", list.Raw)
	}
	if _, err := runner.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"id":"1"}`)}); err != nil {
		t.Fatal(err)
	}
	m := c.call("charge", `{"id":"1"}`)
	if !replayed(m) || string(jsonrpc.Get(m.Result, "structuredContent")) != `{"n":1}` || isError(m) || ran.Load() != 1 {
		t.Errorf("%s", m.Raw)
	}
	if m = c.call("refuse", `{}`); !isError(m) || state(m) != "failed" {
		t.Errorf("%s", m.Raw)
	}
	for range 2 {
		if m = c.call("time", `{}`); words(m) != "noon" || isError(m) || replayed(m) {
			t.Errorf("%s", m.Raw)
		}
	}
	if m = c.call("nothing", `{}`); string(jsonrpc.Get(m.Error, "code")) != "-32602" {
		t.Errorf("%s", m.Raw)
	}
	m = c.request("server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)
	if string(jsonrpc.Get(m.Result, "supportedVersions")) == "" || jsonrpc.String(m.Result, "resultType") != "complete" {
		t.Errorf("%s", m.Raw)
	}
}
