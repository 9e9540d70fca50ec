package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// The tools with which an agent asks instead of calling again.
const (
	toolStatus = "justonce_status"
	toolWait   = "justonce_wait"
)

var ownTools = map[string]json.RawMessage{
	toolStatus: json.RawMessage(`{"name":"justonce_status","title":"Status of a call","description":"Tells what became of a tool call that was made before, without making it again: whether it was done, with its result, or is still open. Use it instead of repeating a call whose answer is missing.","inputSchema":{"type":"object","properties":{"key":{"type":"string","description":"The operation's key, as an earlier answer gave it."},"tool":{"type":"string","description":"Without a key: the tool that was called."},"arguments":{"type":"object","description":"Without a key: the arguments it was called with."}}},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`),
	toolWait:   json.RawMessage(`{"name":"justonce_wait","title":"Wait for a call","description":"Waits for the end of a tool call that was made before, without making it again, and returns its result, or how it stands when the time is up.","inputSchema":{"type":"object","properties":{"key":{"type":"string","description":"The operation's key, as an earlier answer gave it."},"tool":{"type":"string","description":"Without a key: the tool that was called."},"arguments":{"type":"object","description":"Without a key: the arguments it was called with."},"seconds":{"type":"integer","minimum":1,"maximum":300,"description":"How long to wait; 30 if not given."}}},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`),
}

// extras reports whether the server's list of tools gets additions.
func (s *Server) extras() bool { return !s.o.NoExtras }

// has reports whether name is a tool of ours that the server itself does not
// have.
func (s *Server) has(name string) bool {
	if s.o.NoExtras || s.o.NoTools || ownTools[name] == nil {
		return false
	}
	s.tools.mu.RLock()
	defer s.tools.mu.RUnlock()
	return !s.tools.own[name]
}

// amend returns the result of a tools/list with what is added on purpose, and
// learns from it. Every other byte stays.
func (s *Server) amend(result json.RawMessage) json.RawMessage {
	list := jsonrpc.Get(result, "tools")
	tools := jsonrpc.Elements(list)
	if tools == nil && (len(list) == 0 || list[0] != '[') {
		return result
	}
	s.learn(tools)
	next := jsonrpc.Get(result, "nextCursor")
	last := next == nil || string(next) == "null"
	if last {
		s.compare()
	}
	if s.o.NoExtras {
		return result
	}
	for i, t := range tools {
		if !s.o.Tools[jsonrpc.String(t, "name")].Repeat || jsonrpc.Get(t, "inputSchema", "properties", argRepeat) != nil {
			continue
		}
		list = jsonrpc.Replace(list, jsonrpc.Elements(list)[i], jsonrpc.Set(t, repeatSchema, "inputSchema", "properties", argRepeat))
	}
	for _, name := range []string{toolStatus, toolWait} {
		if last && s.has(name) { // once, on the last page
			list = jsonrpc.Append(list, ownTools[name])
		}
	}
	return jsonrpc.Set(result, list, "tools")
}

var repeatSchema = json.RawMessage(`{"type":"integer","minimum":1,"description":"Leave it out. Only to do the very same thing on purpose once more: 2 for the second time, 3 for the third."}`)

// own carries out a call of one of our tools.
func (s *Server) own(ctx context.Context, in *inbound) []byte {
	m := in.msg
	t := &turn{ctx: ctx, asking: true, msg: m, version: in.version, spec: &spec{tool: jsonrpc.String(m.Params, "name")}}
	if v := jsonrpc.String(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion"); v != "" {
		t.version = v
	}
	args := jsonrpc.Get(m.Params, "arguments")
	a, sp, err := s.asked(ctx, in, args)
	if err == nil && t.spec.tool == toolWait && a.Operation.State.Open() {
		seconds := 30
		if v := jsonrpc.Get(args, "seconds"); v != nil {
			if json.Unmarshal(v, &seconds) != nil || seconds < 1 || seconds > 300 {
				err = &justonce.InvalidError{Field: "seconds", Detail: "want 1 to 300"}
			}
		}
		if err == nil {
			wctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
			a, err = s.runner.Wait(wctx, a.Operation.Ref)
			cancel()
		}
	}
	if err != nil {
		text := fmt.Sprintf("[justonce] %s", err)
		if errors.Is(err, justonce.ErrNotFound) {
			text = "[justonce] No such call is known: it was not made here, or its answer was delivered long ago. Nothing was sent."
		}
		return jsonrpc.Response(m.ID, s.typed(t, mcpconn.TextResult(text, true, nil)))
	}
	t.spec = sp
	a.Joined = false
	if a.Operation.State.Ended() && isResult(a.Operation.Result) {
		r := s.recorded(t, a)
		return r.raw // asking is no delivery
	}
	return asked(t, s.told(t, a).raw)
}

// asked makes an answer about a call a good one: the question was answered.
func asked(t *turn, raw []byte) []byte {
	return jsonrpc.Set(raw, json.RawMessage("false"), "result", "isError")
}

// asked finds the operation that a status call means.
func (s *Server) asked(ctx context.Context, in *inbound, args json.RawMessage) (*justonce.Answer, *spec, error) {
	key, tool := jsonrpc.String(args, "key"), jsonrpc.String(args, "tool")
	if key == "" && tool == "" {
		return nil, nil, &justonce.InvalidError{Field: "key", Detail: "give the key of the call, or its tool and arguments"}
	}
	if key == "" {
		if s.native && s.tools.get(tool) == nil {
			return nil, nil, justonce.ErrUnknownTool
		}
		sp, err := s.spec(tool)
		if err != nil {
			return nil, nil, err
		}
		intent, err := s.runner.Identify(ctx, justonce.Call{Tenant: s.o.Tenant, Tool: sp.name, Scope: s.scope(sp, in.scope), Arguments: jsonrpc.Get(args, "arguments")})
		if err != nil {
			return nil, nil, err
		}
		key = intent.Key
	}
	a, err := s.runner.Get(ctx, justonce.Ref{Tenant: s.o.Tenant, Key: key})
	if err != nil {
		return nil, nil, err
	}
	name, ok := a.Operation.Tool, s.native
	if !ok {
		name, ok = strings.CutPrefix(name, s.o.Name+"/")
	}
	if !ok {
		return nil, nil, justonce.ErrNotFound
	}
	sp := s.tools.get(name)
	if sp == nil {
		sp = &spec{tool: name, name: a.Operation.Tool}
	}
	if scope := s.scope(sp, in.scope); a.Operation.Scope != scope && a.Operation.Scope != scope+taskScope {
		return nil, nil, justonce.ErrNotFound // another's; see guarantee G7
	}
	return a, sp, nil
}
