package mcpconn

import (
	"encoding/json"

	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

type answerVars = celexpr.Vars

// answerKinds adds the variables that an answer has.
func answerKinds(to map[string]celexpr.Kind) map[string]celexpr.Kind {
	for _, name := range []string{"arguments", "result", "structured", "json", "is_error", "error"} {
		to[name] = celexpr.Any
	}
	to["text"] = celexpr.Text
	return to
}

// addAnswer adds their values to those of the operation.
func addAnswer(v answerVars, r *Reply) error {
	v["arguments"] = v["args"]
	v["result"], v["structured"], v["json"], v["error"] = celexpr.Null, celexpr.Null, celexpr.Null, celexpr.Null
	v["text"], v["is_error"] = textOf(r.Result), isError(r.Result)
	var err error
	if r.Error != nil {
		v["error"], err = celexpr.Value(r.Error)
		return err
	}
	if v["result"], err = celexpr.Value(r.Result); err != nil {
		return err
	}
	if s := jsonrpc.Get(r.Result, "structuredContent"); s != nil {
		if v["structured"], err = celexpr.Value(s); err != nil {
			return err
		}
	}
	if j, err := celexpr.Value([]byte(textOf(r.Result))); err == nil {
		v["json"] = j
	}
	return nil
}

// textOf returns the text blocks of a result, joined by newlines.
func textOf(result json.RawMessage) string {
	text, some := "", false
	for _, block := range jsonrpc.Elements(jsonrpc.Get(result, "content")) {
		if jsonrpc.String(block, "type") != "text" {
			continue
		}
		if some {
			text += "\n"
		}
		text, some = text+jsonrpc.String(block, "text"), true
	}
	return text
}

func isError(result json.RawMessage) bool {
	return string(jsonrpc.Get(result, "isError")) == "true"
}

// A rpcError is the part of an error object that everybody understands.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func errorOf(object json.RawMessage) rpcError {
	var e rpcError
	_ = json.Unmarshal(object, &e) // what is odd stays zero
	return e
}
