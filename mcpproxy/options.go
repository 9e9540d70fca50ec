package mcpproxy

import (
	"log/slog"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

// A Mode says what the proxy does about calls with effects.
type Mode string

const (
	// Enforce: one effect for one intent.
	Enforce Mode = "enforce"
	// Observe: nothing is held back; the ledger records what would have been.
	Observe Mode = "observe"
)

// Options configure a [Server]. The zero value of each field but Name is its
// documented default.
type Options struct {
	// Name is the server's name in the ledger, where its tools are called
	// Name/tool. Letters, digits, "_", "." and "-".
	Name string
	// Tools has what only the proxy needs to know of tools, by the name that the
	// server gives them.
	Tools map[string]ToolOptions
	// Mode of tools that have none of their own. Defaults to Enforce.
	Mode Mode
	// TrustAnnotations believes the server's readOnlyHint and idempotentHint for
	// tools that nobody described. They are hints: a server that lies gets its
	// effects repeated. Known once a client listed the tools.
	TrustAnnotations bool

	// Scope is within which derived keys match. Defaults to the client's
	// credentials over HTTP, else to none.
	Scope string
	// Instance tells this server from others of its name, for tools that nobody
	// described: two of them that run in different folders never share a call.
	Instance string
	// IntentKeys are members of a request's _meta that a client keeps the same
	// when it sends one call again by itself, such as claudecode/toolUseId. A
	// call that repeats one gets the first answer, delivered or not.
	IntentKeys []string

	// Timeout bounds a call to a tool that nobody described. Defaults to 1h.
	Timeout time.Duration
	// DedupeFor is how long an answer that never reached its client answers for
	// its call, for tools that nobody described. Defaults to 24h.
	DedupeFor time.Duration
	// Wait is how long a call waits for an operation that another call began, or
	// whose answer got lost, before it is told how things stand. Defaults to 45s.
	Wait time.Duration
	// InputWait is how long an operation waits for its client to answer the
	// server's input_required. Defaults to 10m.
	InputWait time.Duration

	// NoExtras adds nothing to what the server says: no tools, no members of
	// _meta, no notes on replays. States are told all the same.
	NoExtras bool
	// NoTools leaves out the tools justonce_status and justonce_wait alone.
	NoTools bool

	// Caller makes the calls that no client is there for: retries and lookups
	// of a process that took over. Nil: the client's own connection is used
	// while there is one.
	Caller mcpconn.Caller

	// Decide tells a person how to settle a call that waits for one, with %s for
	// its key: a command, or an address. Empty: it is not told.
	Decide string

	Tenant string       // defaults to justonce.DefaultTenant
	Logger *slog.Logger // defaults to discarding
}

// ToolOptions are what the proxy needs to know of one declared tool.
type ToolOptions struct {
	Mode Mode // defaults to the server's
	// Repeat adds the argument justonce_repeat to the tool, with which a model
	// can say that it means an equal call: 2 for the second time, and so on.
	Repeat bool
	// Connector is the tool's, for Observe.
	Connector justonce.Connector
}

func (o *Options) withDefaults() Options {
	c := *o
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Timeout, time.Hour)
	def(&c.DedupeFor, 24*time.Hour)
	def(&c.Wait, 45*time.Second)
	def(&c.InputWait, 10*time.Minute)
	if c.Mode == "" {
		c.Mode = Enforce
	}
	if c.Tenant == "" {
		c.Tenant = justonce.DefaultTenant
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
