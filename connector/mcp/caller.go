// Package mcpconn runs tools of MCP servers as justonce operations: it judges
// what a tools/call proved, and asks another tool of the same server what became
// of a call whose answer was lost. It also has the transports: a child process
// over stdio, and Streamable HTTP.
package mcpconn

import (
	"context"
	"encoding/json"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// A Caller calls tools of one MCP server. It is safe for concurrent use. It
// never repeats a call by itself, nor lets anything beneath it do so.
type Caller interface {
	// CallTool sends one tools/call and waits for its final answer, or until ctx
	// ends or the server is gone. Whatever happens is told in the Reply.
	CallTool(ctx context.Context, c *ToolCall) Reply
}

// A ToolCall is one tools/call.
type ToolCall struct {
	Name      string          // as the server knows it
	Arguments json.RawMessage // a JSON object
	// Attempt is what the call is made for; nil: it is a lookup, which has no
	// effect.
	Attempt *justonce.Attempt
}

// A Reply is what came of a tools/call.
type Reply struct {
	// Result is the server's result as it was sent, also one with isError.
	Result json.RawMessage
	// Error is the server's JSON-RPC error object as it was sent.
	Error json.RawMessage
	// Status is the HTTP status where the transport has one; else 0.
	Status int
	// RetryAfter is the wait that came with the status; 0: none.
	RetryAfter time.Duration

	// Cause tells why there is neither result nor error. Stage then tells how
	// far the call got. Beside an error Withdrawn says that the server refused the
	// request as such, and its client has to come again.
	Cause error
	Stage Stage
}

// A Stage is how far a call without an answer got. The zero value is Sent:
// nobody knows.
type Stage int

const (
	// Sent: the server may have got it.
	Sent Stage = iota
	// Unsent: the server certainly did not get it, or said that it will not
	// look at it; it may be sent again.
	Unsent
	// Withdrawn: as Unsent, and nobody shall repeat it unasked. The client took
	// it back, or has to come again with other credentials or another session.
	Withdrawn
)

// Answered reports whether the server answered the call at all.
func (r *Reply) Answered() bool { return r.Result != nil || r.Error != nil }

func (s Stage) String() string {
	switch s {
	case Unsent:
		return "not sent"
	case Withdrawn:
		return "taken back"
	}
	return "perhaps sent, no answer"
}
