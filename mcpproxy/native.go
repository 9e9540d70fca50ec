package mcpproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// NativeOptions configure [NewNative]. Nil is the same as the zero value.
type NativeOptions struct {
	Options
	// Offer says which of the runner's tools are offered. Nil: all.
	Offer func(justonce.ToolInfo) bool
	// Version of the program, as clients are told. Defaults to "0".
	Version string
}

// NewNative returns a Server that offers a runner's own tools to MCP clients,
// and the start of the server behind it, for [StdioOptions] and [HTTPOptions].
// Options.Name, which defaults to justonce, is not part of the tools' names.
func NewNative(runner *justonce.Runner, o *NativeOptions) (*Server, func(handle func([]byte)) (Peer, error), error) {
	var c NativeOptions
	if o != nil {
		c = *o
	}
	if c.Name == "" {
		c.Name = "justonce"
	}
	if c.Version == "" {
		c.Version = "0"
	}
	s := &Server{o: c.Options.withDefaults(), runner: runner, native: true}
	s.log = s.o.Logger.With("server", c.Name)
	infos, err := runner.Tools(context.Background())
	if err != nil {
		return nil, nil, err
	}
	n := &native{s: s, version: c.Version}
	for _, info := range infos {
		if c.Offer != nil && !c.Offer(info) {
			continue
		}
		n.tools = append(n.tools, info)
		s.tools.put(&spec{tool: info.Name, name: info.Name, effect: info.Effect, declared: true,
			dedupe: info.Dedupe, mode: Enforce, repeat: s.o.Tools[info.Name].Repeat})
	}
	return s, func(handle func([]byte)) (Peer, error) {
		return &nativePeer{native: n, handle: handle, done: make(chan struct{})}, nil
	}, nil
}

// native is an MCP server with a runner's tools. Their calls never reach it:
// [Server.effect] takes them.
type native struct {
	s       *Server
	version string
	tools   []justonce.ToolInfo
}

// versions of the protocol that native speaks; the first is the newest that
// still has a handshake.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// answer returns the response to a request.
func (n *native) answer(m *jsonrpc.Message) []byte {
	modern := jsonrpc.String(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion") >= stateless
	result := map[string]any{}
	info := map[string]string{"name": "justonce", "title": "justonce", "version": n.version}
	capabilities := map[string]any{"tools": map[string]any{}}
	const instructions = "Every tool of this server runs once for one intent: a call that is repeated gets the recorded result. Where an answer is missing, ask justonce_status instead of calling again."
	switch m.Method {
	case "initialize":
		v := jsonrpc.String(m.Params, "protocolVersion")
		if !slices.Contains(versions, v) {
			v = versions[0]
		}
		result["protocolVersion"], result["serverInfo"] = v, info
		result["capabilities"], result["instructions"] = capabilities, instructions
	case "server/discover":
		result["supportedVersions"] = append([]string{stateless}, versions...)
		result["capabilities"], result["instructions"] = capabilities, instructions
		result["_meta"] = map[string]any{"io.modelcontextprotocol/serverInfo": info}
		result["ttlMs"], result["cacheScope"] = 0, "private"
	case "ping":
	case "tools/list":
		result["tools"] = n.list()
		if modern {
			result["ttlMs"], result["cacheScope"] = 0, "private"
		}
	case "tools/call":
		return jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInvalidParams,
			fmt.Sprintf("there is no tool %q", jsonrpc.String(m.Params, "name")), nil))
	default:
		return jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeMethodNotFound, "there is no method "+m.Method, nil))
	}
	if modern || m.Method == "server/discover" {
		result["resultType"] = "complete"
	}
	b, err := json.Marshal(result)
	if err != nil { // a tool's schema that is not JSON
		return jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInternal, err.Error(), nil))
	}
	return jsonrpc.Response(m.ID, b)
}

func (n *native) list() []any {
	list := []any{} // none is [], too
	for _, info := range n.tools {
		t := map[string]any{"name": info.Name, "inputSchema": json.RawMessage(`{"type":"object"}`)}
		if info.Description != "" {
			t["description"] = info.Description
		}
		if info.Schema != nil {
			t["inputSchema"] = info.Schema
		}
		// Every call goes through the ledger: repeating one is harmless.
		t["annotations"] = map[string]bool{"readOnlyHint": info.Effect == justonce.Read, "idempotentHint": info.Effect != justonce.Read}
		list = append(list, t)
	}
	return list
}

// nativePeer is the server as a front sees it.
type nativePeer struct {
	*native
	handle func([]byte)
	done   chan struct{}
}

// Write implements [Peer].
func (p *nativePeer) Write(line []byte) error {
	m, err := jsonrpc.Parse(line)
	if err == nil && m.IsRequest() {
		go p.handle(p.answer(m))
	}
	return nil
}

func (p *nativePeer) Done() <-chan struct{} { return p.done }
func (p *nativePeer) Err() error            { return nil }
func (p *nativePeer) Close()                { close(p.done) }

// wrapped returns a connector's result as one of tools/call.
func wrapped(result json.RawMessage) json.RawMessage {
	if isResult(result) {
		return result
	}
	text := string(result)
	if s := jsonrpc.String(jsonrpc.Set(nil, result, "v"), "v"); s != "" {
		text = s
	}
	out := mcpconn.TextResult(text, false, nil)
	if jsonrpc.IsObject(result) {
		out = jsonrpc.Set(out, result, "structuredContent")
	}
	return out
}
