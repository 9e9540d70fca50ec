package mcpconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// The revisions of MCP that the transports begin with.
const (
	// Revision2025 has a handshake and, over HTTP, sessions.
	Revision2025 = "2025-11-25"
	// Revision2026 has neither: each request says what it needs.
	Revision2026 = "2026-07-28"
)

// A dialect is what a client and a server have agreed on.
type dialect struct {
	version string // the revision
	modern  bool   // requests carry it in their _meta
}

// A speaker sends one request in a dialect and returns the response to it. An
// error says that there was none.
type speaker interface {
	ask(ctx context.Context, d dialect, method string, params json.RawMessage) (*jsonrpc.Message, error)
	tell(ctx context.Context, d dialect, method string, params json.RawMessage) error
}

// negotiate finds the dialect of a server: that of initialize, or that of
// server/discover where the server refuses it; the other way round if first is
// Revision2026. The error tells of what was tried first.
func negotiate(ctx context.Context, s speaker, first string) (dialect, error) {
	ways := []func(context.Context, speaker) (dialect, error){initialize, discover}
	if first == Revision2026 {
		slices.Reverse(ways)
	}
	d, err := ways[0](ctx, s)
	if r := (*refusal)(nil); errors.As(err, &r) {
		if other, second := ways[1](ctx, s); second == nil {
			return other, nil
		}
	}
	return d, err
}

// A refusal is a server's no to the way it was spoken to.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

// result returns a response's result, or its error as a refusal.
func result(m *jsonrpc.Message, method string) (json.RawMessage, error) {
	if m.Error != nil {
		e := errorOf(m.Error)
		return nil, &refusal{fmt.Sprintf("the MCP server refused %s: %d %s", method, e.Code, httpask.Clip(e.Message, 200))}
	}
	return m.Result, nil
}

func initialize(ctx context.Context, s speaker) (dialect, error) {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":{},"clientInfo":%s}`, Revision2025, clientInfo())
	m, err := s.ask(ctx, dialect{}, "initialize", params)
	if err != nil {
		return dialect{}, err
	}
	r, err := result(m, "initialize")
	if err != nil {
		return dialect{}, err
	}
	d := dialect{version: jsonrpc.String(r, "protocolVersion")}
	if d.version == "" {
		return d, errors.New("the MCP server answered initialize without a protocolVersion")
	}
	return d, s.tell(ctx, d, "notifications/initialized", nil)
}

func discover(ctx context.Context, s speaker) (dialect, error) {
	d := dialect{version: Revision2026, modern: true}
	m, err := s.ask(ctx, d, "server/discover", d.params(json.RawMessage("{}")))
	if err != nil {
		return dialect{}, err
	}
	r, err := result(m, "server/discover")
	if err != nil {
		return dialect{}, err
	}
	var offered []string
	for _, v := range jsonrpc.Elements(jsonrpc.Get(r, "supportedVersions")) {
		offered = append(offered, strings.Trim(string(v), `"`))
	}
	if !slices.Contains(offered, Revision2026) {
		return dialect{}, &refusal{fmt.Sprintf("the MCP server speaks only %s", httpask.Clip(strings.Join(offered, ", "), 200))}
	}
	return d, nil
}

// params adds to a request's params what the dialect wants there.
func (d dialect) params(p json.RawMessage) json.RawMessage {
	if !d.modern {
		return p
	}
	for name, value := range map[string]json.RawMessage{
		"io.modelcontextprotocol/protocolVersion":    json.RawMessage(strconv.Quote(d.version)),
		"io.modelcontextprotocol/clientInfo":         clientInfo(),
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage("{}"),
	} {
		p = jsonrpc.Set(p, value, "_meta", name)
	}
	return p
}

func clientInfo() json.RawMessage {
	version := "devel"
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		version = b.Main.Version
	}
	return fmt.Appendf(nil, `{"name":"justonce","version":%q}`, version)
}

// callParams returns the params of a tools/call.
func callParams(c *ToolCall) json.RawMessage {
	name, _ := json.Marshal(c.Name) // of a string never fails
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	p := append([]byte(`{"name":`), name...)
	p = append(append(p, `,"arguments":`...), args...)
	p = append(p, '}')
	if a := c.Attempt; a != nil {
		meta, _ := json.Marshal(map[string]any{metaKey: a.Key, metaAttempt: a.Number})
		p = jsonrpc.Set(p, meta, "_meta")
		if a.TraceParent != "" {
			trace, _ := json.Marshal(a.TraceParent)
			p = jsonrpc.Set(p, trace, "_meta", "traceparent")
		}
	}
	return p
}

// serverRequest returns the response to what a server asks of its client.
func serverRequest(m *jsonrpc.Message) []byte {
	switch m.Method {
	case "ping":
		return jsonrpc.Response(m.ID, json.RawMessage("{}"))
	case "roots/list":
		return jsonrpc.Response(m.ID, json.RawMessage(`{"roots":[]}`))
	}
	return jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeMethodNotFound, "this client cannot do that", nil))
}

// maxPages bounds what a server may make of its list of tools.
const maxPages = 1000

// listTools returns all tools, as the server sent them.
func listTools(ctx context.Context, s speaker, d dialect) ([]json.RawMessage, error) {
	var all []json.RawMessage
	params := json.RawMessage("{}")
	for range maxPages {
		m, err := s.ask(ctx, d, "tools/list", d.params(params))
		if err != nil {
			return nil, err
		}
		r, err := result(m, "tools/list")
		if err != nil {
			return nil, err
		}
		all = append(all, jsonrpc.Elements(jsonrpc.Get(r, "tools"))...)
		cursor := jsonrpc.Get(r, "nextCursor")
		if len(cursor) == 0 || string(cursor) == "null" || string(cursor) == `""` {
			return all, nil
		}
		params = jsonrpc.Set(json.RawMessage("{}"), cursor, "cursor")
	}
	return nil, fmt.Errorf("the MCP server's list of tools has no end: more than %d pages", maxPages)
}

// messages splits what came in one piece: one message, or several in an array,
// as old servers send them.
func messages(raw []byte) ([]*jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(raw)
	if !errors.Is(err, jsonrpc.ErrBatch) {
		return []*jsonrpc.Message{m}, err
	}
	var all []*jsonrpc.Message
	for _, e := range jsonrpc.Elements(raw) {
		m, err := jsonrpc.Parse(e)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
