package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const stateless = "2026-07-28"

func versions() []string { return []string{stateless, "2025-11-25", "2025-06-18", "2025-03-26"} }

func serverInfo() object { return object{"name": "flaky-server", "version": "1.0.0"} }

type object = map[string]any

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// handle answers one message: nil for a notification, errDropped where the
// answer is to be lost.
func (s *server) handle(ctx context.Context, message []byte) ([]byte, error) {
	var req request
	answer := object{"jsonrpc": "2.0"}
	if err := json.Unmarshal(message, &req); err != nil {
		answer["id"], answer["error"] = nil, rpcError{-32700, err.Error()}
		return json.Marshal(answer)
	}
	if req.ID == nil {
		return nil, nil
	}
	answer["id"] = req.ID
	result, failed, err := s.dispatch(ctx, &req)
	if err != nil {
		return nil, err
	}
	if failed != nil {
		answer["error"] = failed
		return json.Marshal(answer)
	}
	if req.stateless() {
		result["resultType"] = "complete"
		result["_meta"] = object{"io.modelcontextprotocol/serverInfo": serverInfo()}
		if req.Method != "tools/call" {
			result["ttlMs"], result["cacheScope"] = 0, "public"
		}
	}
	answer["result"] = result
	return json.Marshal(answer)
}

func (s *server) dispatch(ctx context.Context, req *request) (object, *rpcError, error) {
	capabilities := object{"tools": object{}}
	switch req.Method {
	case "initialize":
		version := req.Params.ProtocolVersion
		if version == stateless || !slices.Contains(versions(), version) {
			version = versions()[1]
		}
		return object{"protocolVersion": version, "capabilities": capabilities, "serverInfo": serverInfo()}, nil, nil
	case "server/discover":
		return object{"supportedVersions": versions(), "capabilities": capabilities}, nil, nil
	case "ping":
		return object{}, nil, nil
	case "tools/list":
		return object{"tools": tools()}, nil, nil
	case "tools/call":
		return s.call(ctx, req)
	}
	return nil, &rpcError{-32601, fmt.Sprintf("no method %q", req.Method)}, nil
}

func tools() []object {
	schema := func(fields ...string) object {
		properties := object{}
		for _, f := range fields {
			properties[f] = object{"type": "string"}
		}
		return object{"type": "object", "properties": properties, "required": fields, "additionalProperties": false}
	}
	return []object{
		{
			"name": "create_ticket", "description": "Opens a ticket for a case. Every call opens one more.",
			"inputSchema": schema("title", "case_id"),
			"outputSchema": object{"type": "object", "required": []string{"ticket"},
				"properties": object{"ticket": object{"type": "integer"}}},
			"annotations": object{"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false},
		},
		{
			"name": "find_ticket", "description": "Lists the tickets of a case.",
			"inputSchema": schema("case_id"),
			"outputSchema": object{"type": "object", "required": []string{"tickets"},
				"properties": object{"tickets": object{"type": "array", "items": object{
					"type": "object", "required": []string{"ticket", "title"},
					"properties": object{"ticket": object{"type": "integer"}, "title": object{"type": "string"}}}}}},
			"annotations": object{"readOnlyHint": true},
		},
		{
			"name": "append_note", "description": "Appends a note.",
			"inputSchema": schema("text"),
		},
	}
}

func failure(format string, args ...any) object {
	return object{"isError": true, "content": []object{{"type": "text", "text": fmt.Sprintf(format, args...)}}}
}

func success(text string, structured object) object {
	result := object{"content": []object{{"type": "text", "text": text}}}
	if structured != nil {
		result["structuredContent"] = structured
	}
	return result
}

func (s *server) call(ctx context.Context, req *request) (object, *rpcError, error) {
	p := req.Params
	var missing []string
	text := func(name string) string {
		v, ok := p.Arguments[name].(string)
		if !ok || v == "" {
			missing = append(missing, name)
		}
		return v
	}
	e := entry{Tool: p.Name, Meta: p.Meta}
	switch p.Name {
	case "create_ticket":
		e.Title, e.Case = text("title"), text("case_id")
	case "append_note":
		e.Text = text("text")
	case "find_ticket":
		e.Case = text("case_id")
	default:
		return nil, &rpcError{-32602, fmt.Sprintf("no tool %q", p.Name)}, nil
	}
	if missing != nil {
		return failure("give a text for %s", strings.Join(missing, ", ")), nil, nil
	}
	if p.Name == "find_ticket" {
		found, err := s.find(e.Case)
		if err != nil {
			return failure("%v", err), nil, nil
		}
		b, err := json.Marshal(found)
		return success(string(b), object{"tickets": found}), nil, err
	}
	return s.write(ctx, e)
}

// write does the work and meets the next fault.
func (s *server) write(ctx context.Context, e entry) (object, *rpcError, error) {
	fault, name, err := s.nextFault()
	if err != nil {
		return failure("%v", err), nil, nil
	}
	switch fault {
	case "lose":
		return nil, nil, errDropped
	case "fail":
		return failure("refused; nothing was done"), nil, nil
	}
	n, err := s.append(e)
	if err != nil {
		return failure("%v", err), nil, nil
	}
	if err := s.afterWork(ctx, fault, name); err != nil {
		return nil, nil, err
	}
	if e.Tool == "append_note" {
		return success("noted", nil), nil, nil
	}
	return success(fmt.Sprintf("ticket %d", n), object{"ticket": n}), nil, nil
}
