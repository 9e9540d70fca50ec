package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A Server decides about the calls of one MCP server's tools. It is safe for
// concurrent use, by any number of fronts.
type Server struct {
	o      Options
	runner *justonce.Runner
	log    *slog.Logger
	native bool // the tools are the runner's own

	tools      toolbox
	deliveries deliveries
	intents    intents
	waiting    waiting
	inputs     inputs

	mu      sync.Mutex
	callers []mcpconn.Caller // of the fronts, where Options.Caller is nil
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// New returns a Server whose operations runner keeps. Tools that runner has
// under Name/… are the declared ones; others are added as they are called. The
// runner's [justonce.Runner.Work] moves on what no client waits for.
func New(runner *justonce.Runner, o *Options) (*Server, error) {
	if !serverName.MatchString(o.Name) {
		return nil, fmt.Errorf("the name of an MCP server must start with a letter or digit and have at most 64 of A-Z a-z 0-9 _ . -, not %q", o.Name)
	}
	s := &Server{o: o.withDefaults(), runner: runner}
	modes := []Mode{s.o.Mode}
	for _, t := range s.o.Tools {
		modes = append(modes, t.Mode)
	}
	for _, m := range modes {
		if m != "" && m != Enforce && m != Observe {
			return nil, fmt.Errorf("mode %q is neither enforce nor observe", m)
		}
	}
	s.log = s.o.Logger.With("server", o.Name)
	return s, s.declared()
}

// declared takes in the tools that the runner has for this server.
func (s *Server) declared() error {
	infos, err := s.runner.Tools(context.Background())
	if err != nil {
		return err
	}
	for _, info := range infos {
		tool, ok := strings.CutPrefix(info.Name, s.o.Name+"/")
		if !ok {
			continue
		}
		o := s.o.Tools[tool]
		if o.Connector == nil {
			if o.Connector, err = mcpconn.New(mcpconn.Config{Server: s.o.Name, Tool: tool}, s); err != nil {
				return err
			}
		}
		s.tools.put(&spec{tool: tool, name: info.Name, effect: info.Effect, declared: true,
			dedupe: info.Dedupe, mode: s.mode(tool), repeat: o.Repeat, connector: o.Connector})
	}
	return nil
}

func (s *Server) mode(tool string) Mode {
	if m := s.o.Tools[tool].Mode; m != "" {
		return m
	}
	return s.o.Mode
}

// Adopt makes the tools of operations that an earlier process left open known
// again, so that the runner takes them up. Call it once before
// [justonce.Runner.Work].
func (s *Server) Adopt(ctx context.Context) error {
	for _, tenant := range []string{s.o.Tenant, justonce.ObservedTenant(s.o.Tenant)} {
		if err := s.adopt(ctx, tenant); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) adopt(ctx context.Context, tenant string) error {
	open := []justonce.State{justonce.Pending, justonce.Running, justonce.Unknown}
	f := justonce.Filter{Tenant: tenant, States: open, Limit: 1000}
	for {
		page, err := s.runner.List(ctx, f)
		if err != nil {
			return err
		}
		for _, op := range page.Operations {
			tool, ok := strings.CutPrefix(op.Tool, s.o.Name+"/")
			if !ok || hashedName.MatchString(tool) { // known again once it is called
				continue
			}
			if _, err := s.spec(tool); err != nil {
				return err
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return nil
		}
	}
}

// lend gives calls without a client a front's own connection, until the returned
// func is called.
func (s *Server) lend(c mcpconn.Caller) (takeBack func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callers = append(s.callers, c)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.callers = slices.DeleteFunc(slices.Clone(s.callers), func(o mcpconn.Caller) bool { return o == c })
	}
}

func (s *Server) ownCaller() mcpconn.Caller {
	if s.o.Caller != nil {
		return s.o.Caller
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.callers) == 0 {
		return nil
	}
	return s.callers[0]
}

// errTooManyTools: somebody calls names that he makes up.
var errTooManyTools = errors.New("too many different tools were called; this one was not")

// CallTool implements [mcpconn.Caller] for the connectors of this server's
// tools: over the connection of the client that makes the call where there is
// one, else of a client that waits for the same operation, else over its own.
func (s *Server) CallTool(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	if c.Attempt != nil {
		if f, ok := ctx.Value(onceKey{}).(callFunc); ok {
			return f(ctx, c)
		}
		if t := turnOf(ctx); t != nil && t.spec.name == c.Attempt.Tool {
			return s.dispatch(ctx, t, c)
		}
	}
	a := c.Attempt
	if a == nil {
		a = justonce.CurrentAttempt(ctx)
	}
	if t := s.lender(ctx, a, c.Attempt != nil); t != nil {
		if c.Attempt != nil {
			return s.dispatch(ctx, t, c)
		}
		return t.ask(ctx, c)
	}
	if own := s.ownCaller(); own != nil {
		return own.CallTool(ctx, c)
	}
	return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: errors.New("no client is connected that could be asked through")}
}

// undescribed is the tool of a server about which nobody said anything.
func (s *Server) undescribed(sp *spec) *justonce.Tool {
	return &justonce.Tool{
		Name: sp.name, Effect: justonce.Write,
		Dedupe: justonce.UntilDelivered, DedupeFor: s.o.DedupeFor,
		ArgumentsLimit: jsonrpc.DefaultLimit,
		// A short lease tells soon that a process died; it is renewed while the
		// call runs.
		Policy:    justonce.Policy{Timeout: s.o.Timeout, Lease: min(20*time.Second, s.o.Timeout)},
		Connector: sp.connector,
	}
}
