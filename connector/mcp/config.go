package mcpconn

import (
	"time"

	"github.com/justonce-dev/justonce/internal/httpask"
)

// Config declares a tool of an MCP server. All of it is optional but the names.
type Config struct {
	// Server is the server's name in the catalog. What makes the connector
	// fills it in from the catalog's name of the tool, server/tool, as well as
	// Tool.
	Server string `json:"server,omitempty"`
	// Tool is the tool's name as the server knows it.
	Tool string `json:"tool,omitempty"`
	// Answer says what an answer proves.
	Answer Answer `json:"answer"`
	// Lookup says how to ask afterwards. Nil: the server cannot be asked, and
	// the connector is no [justonce.Finder].
	Lookup *Lookup `json:"lookup,omitempty"`

	// Repeat and Mode are for the proxy; the connector ignores them. Repeat
	// gives the tool an argument by which a model says that it means an equal
	// call. Mode is enforce or observe.
	Repeat bool   `json:"repeat,omitempty"`
	Mode   string `json:"mode,omitempty"`
}

// What an answer with isError means, for [Answer.IsError].
const (
	IsErrorAnswered = "answered"
	IsErrorRejected = "rejected"
	IsErrorUnknown  = "unknown"
)

// An Answer says what an answer proves, by CEL expressions.
//
// If exactly one of the conditions is true it decides; if several are, or one
// cannot be evaluated, the outcome is unknown. If none is, IsError decides about
// an answer with isError and about JSON-RPC errors, and every other answer is
// recorded as it is.
//
// The variables are those of an operation (args, also called arguments,
// wire_key, key, tool, scope, run_id, first_sent) and result (all of it; null
// with a JSON-RPC error), structured (its structuredContent or null), text (its
// text blocks, joined by newlines), json (text as JSON, or null where it is
// none), is_error, and error (code and message of a JSON-RPC error, or null).
type Answer struct {
	// IsError says what an answer with isError means where no condition is true:
	//
	//	answered   the server ran the call to an answer, whatever it did. The
	//	           answer is recorded and replayed, and the agent sees it.
	//	rejected   the server did not and will not do it
	//	unknown    nobody knows
	//
	// Defaults to answered. JSON-RPC errors count likewise, but for those which
	// say that the call was not understood: they are rejections; and those that
	// come with HTTP status 408 or 5xx: they are unknown.
	IsError string `json:"is_error,omitempty"`

	// Rejected: the server did not and will not.
	Rejected string `json:"rejected,omitempty"`
	// NotExecuted: this call had no effect, another may.
	NotExecuted string `json:"not_executed,omitempty"`
	// Unknown: nobody knows what happened.
	Unknown string `json:"unknown,omitempty"`
	// Accepted: a long-running job was started.
	Accepted string `json:"accepted,omitempty"`

	// Reference gives the server's name for the effect or the job.
	Reference string `json:"reference,omitempty"`
}

// A Lookup says how another tool of the same server is asked what became of a
// call. Either one thing is fetched (Found), or a list of which items are
// matched (Items and Match). What the expressions cannot tell is no answer; so
// is an answer with isError, unless an expression is true of it.
//
// Expressions have the variables of [Answer], and reference and unknown_at.
type Lookup struct {
	// Tool must have no effect.
	Tool string `json:"tool"`
	// Arguments of the lookup. Strings are templates: ${…} holds an expression
	// over the operation's variables; one that is a single placeholder becomes
	// the value itself, and is left out where that is absent.
	Arguments map[string]any `json:"arguments,omitempty"`

	// Found says that the answer shows the effect. Required without Items: many
	// servers say "nothing found" in an ordinary answer.
	Found string `json:"found,omitempty"`
	// Items gives the list of candidates, as in json.issues; with Match and
	// Reference it replaces Found.
	Items string `json:"items,omitempty"`
	// Match says of each item whether it may be this operation's effect; the
	// variable item holds it.
	Match string `json:"match,omitempty"`
	// ItemTime gives an item's time: a timestamp, RFC 3339 text, or seconds or
	// milliseconds since 1970. An item from before first_sent - Skew is no match.
	ItemTime string `json:"item_time,omitempty"`
	// Skew is how far the server's clock may be behind. Defaults to 2 minutes.
	Skew time.Duration `json:"skew,omitempty"`
	// Complete says that the list shows everything that could match. Defaults
	// to true. An incomplete list proves no absence.
	Complete string `json:"complete,omitempty"`

	// Absent says that the server knows of no such effect. No default; with
	// Items, no match in a complete list of an answer without isError.
	Absent string `json:"absent,omitempty"`
	// Failed says that the server knows it, and that it failed without effect.
	// Progress says that the server still works on it. No defaults.
	Failed   string `json:"failed,omitempty"`
	Progress string `json:"progress,omitempty"`

	// Reference gives the server's name for the effect. With Items it is asked
	// of each match.
	Reference string `json:"reference,omitempty"`
	// Result gives what callers get. Defaults to the answer, with Items to the
	// item. What is no CallToolResult becomes the text of one.
	Result string `json:"result,omitempty"`
}

// judged is what internal/httpask judges.
func (l *Lookup) judged() httpask.Lookup {
	return httpask.Lookup{Found: l.Found, Items: l.Items, Match: l.Match, ItemTime: l.ItemTime, Skew: l.Skew,
		Complete: l.Complete, Absent: l.Absent, Failed: l.Failed, Progress: l.Progress,
		Reference: l.Reference, Result: l.Result}
}
