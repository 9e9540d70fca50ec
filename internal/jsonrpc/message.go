// Package jsonrpc reads JSON-RPC 2.0 messages and changes members of them
// without touching any other byte, so that what passes through justonce stays
// what its sender wrote.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Error codes of the specification.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// A Message is a request, a notification or a response. Its parts are views of
// Raw.
type Message struct {
	Raw    []byte
	ID     json.RawMessage // nil: a notification; also null where an error answers what could not be read
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// IsRequest reports whether m wants an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether m is a message that nobody answers.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether m answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" }

// IDKey returns a form of the id that can be compared: see [Key].
func (m *Message) IDKey() string { return Key(m.ID) }

// Key returns a form of an id that can be compared, however it is escaped: 1 and
// "1" differ.
func Key(id json.RawMessage) string {
	if len(id) > 1 && id[0] == '"' && bytes.IndexByte(id, '\\') >= 0 {
		b, _ := json.Marshal(unquote(id)) // of a string never fails
		return string(b)
	}
	return string(id)
}

// An Error is why bytes are no message, with the code to answer.
type Error struct {
	Code    int
	Message string
	// ID of the request, if it could be read.
	ID json.RawMessage
}

func (e *Error) Error() string { return e.Message }

// ErrBatch is returned for a JSON array: several messages in one.
var ErrBatch = errors.New("a batch of messages")

// Parse reads one message. It refuses what two readers could understand
// differently: members that are there twice, also in another case, or an
// envelope that is neither request nor response. The error is an *[Error], or ErrBatch.
func Parse(raw []byte) (*Message, error) {
	if !json.Valid(raw) {
		return nil, &Error{Code: CodeParse, Message: "the message is not valid JSON"}
	}
	start := skipSpace(raw, 0)
	if raw[start] == '[' {
		return nil, ErrBatch
	}
	if raw[start] != '{' {
		return nil, &Error{Code: CodeInvalidRequest, Message: "a message must be a JSON object"}
	}
	m := &Message{Raw: raw}
	var version, method json.RawMessage
	dup := ""
	seen := map[string]bool{}
	members(raw, start, func(name string, value []byte) bool {
		if folded := strings.ToLower(name); seen[folded] {
			dup = name // to a reader who ignores case, as encoding/json does
		} else {
			seen[folded] = true
		}
		switch name {
		case "jsonrpc":
			version = value
		case "id":
			m.ID = value
		case "method":
			method = value
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Error = value
		}
		return true
	})
	// Some write both, one of them empty.
	switch null := func(v json.RawMessage) bool { return string(v) == "null" }; {
	case m.Result != nil && null(m.Error):
		m.Error = nil
	case m.Error != nil && null(m.Result):
		m.Result = nil
	}
	bad := func(format string, a ...any) (*Message, error) {
		e := &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf(format, a...)}
		if validID(m.ID) {
			e.ID = m.ID
		}
		return nil, e
	}
	switch {
	case dup != "":
		return bad("the message has the member %q twice", clip(dup))
	case string(version) != `"2.0"`:
		return bad(`the message must have "jsonrpc": "2.0"`)
	case method != nil && json.Unmarshal(method, &m.Method) != nil, method != nil && m.Method == "":
		return bad("the method must be a string")
	case method != nil && (m.Result != nil || m.Error != nil):
		return bad("the message is a request and a response at once")
	case method == nil && m.Result == nil && m.Error == nil:
		return bad("the message has neither method nor result nor error")
	case method == nil && m.Result != nil && m.Error != nil:
		return bad("the response has a result and an error")
	case method != nil && m.ID != nil && !validID(m.ID):
		return bad("the id must be a string or a number")
	case method == nil && m.ID != nil && !validID(m.ID) && string(m.ID) != "null":
		return bad("the id must be a string or a number")
	case method == nil && m.ID == nil:
		return bad("the response has no id")
	}
	return m, nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

func validID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// Response returns the bytes of a response with a result.
func Response(id, result json.RawMessage) []byte {
	b := make([]byte, 0, len(id)+len(result)+40)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, orNull(id)...)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	return append(b, '}')
}

// ErrorResponse returns the bytes of a response with an error object.
func ErrorResponse(id, object json.RawMessage) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), orNull(id)...)
	b = append(b, `,"error":`...)
	b = append(b, object...)
	return append(b, '}')
}

// ErrorObject returns an error object; data may be nil.
func ErrorObject(code int, message string, data any) json.RawMessage {
	o := struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{code, message, data}
	b, err := json.Marshal(o)
	if err != nil {
		o.Data = nil
		b, _ = json.Marshal(o)
	}
	return b
}

// Request returns the bytes of a request, or of a notification if id is nil.
func Request(id json.RawMessage, method string, params json.RawMessage) []byte {
	b := []byte(`{"jsonrpc":"2.0"`)
	if id != nil {
		b = append(append(b, `,"id":`...), id...)
	}
	name, _ := json.Marshal(method) // of a string never fails
	b = append(append(b, `,"method":`...), name...)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

func orNull(id json.RawMessage) json.RawMessage {
	if id == nil {
		return json.RawMessage("null")
	}
	return id
}
