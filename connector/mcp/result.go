package mcpconn

import (
	"bytes"
	"encoding/json"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// What justonce adds to results, and to the calls that it makes itself.
const (
	metaError     = "dev.justonce/error"
	metaRecovered = "dev.justonce/recovered"
	metaKey       = "dev.justonce/key"
	metaAttempt   = "dev.justonce/attempt"
)

// ErrorOf returns the JSON-RPC error object that a recorded result stands for,
// as the server sent it, or nil where it stands for itself.
func ErrorOf(result json.RawMessage) json.RawMessage {
	if e := jsonrpc.Get(result, metaError); jsonrpc.IsObject(e) {
		return e
	}
	return nil
}

func wrapError(object json.RawMessage) json.RawMessage {
	return append(append([]byte(`{"`+metaError+`":`), object...), '}')
}

// IsInputRequired reports whether the server says that it cannot complete the
// call before the client has answered its questions.
func IsInputRequired(result json.RawMessage) bool {
	return jsonrpc.String(result, "resultType") == "input_required"
}

// TextResult returns a CallToolResult that is one block of text. Meta becomes its
// _meta; nil: it has none.
func TextResult(text string, isError bool, meta map[string]any) json.RawMessage {
	return callToolResult(text, nil, isError, meta)
}

func callToolResult(text string, structured json.RawMessage, isError bool, meta map[string]any) json.RawMessage {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	r := struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError,omitempty"`
		Meta       map[string]any  `json:"_meta,omitempty"`
	}{[]block{{"text", text}}, structured, isError, meta}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(r) != nil {
		r.Meta = nil
		b.Reset()
		_ = e.Encode(r) // nothing else can fail
	}
	return bytes.TrimSpace(b.Bytes())
}

// recovered returns the CallToolResult that is recorded for an effect which a
// lookup found: what itself if it is one, or else one that holds it as text.
func recovered(what json.RawMessage) json.RawMessage {
	if c := jsonrpc.Get(what, "content"); len(c) > 0 && c[0] == '[' {
		// The lookup's own isError is not the tool's.
		return jsonrpc.Set(jsonrpc.Delete(what, "isError"), json.RawMessage("true"), "_meta", metaRecovered)
	}
	var text string
	if json.Unmarshal(what, &text) != nil {
		text = string(what)
	}
	var structured json.RawMessage
	if jsonrpc.IsObject(what) {
		structured = what
	}
	return callToolResult(text, structured, false, map[string]any{metaRecovered: true})
}
