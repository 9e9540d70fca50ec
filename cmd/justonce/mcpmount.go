package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// mounts are the MCP servers that serve stands in front of, on the gateway's
// address: its own tools at /mcp, each server of the catalog at /mcp/NAME.
type mounts struct {
	handle      map[string]http.Handler // for the gateway
	connections mcpproxy.Connections
	paths       []mountPath
	handlers    []*mcpproxy.Handler
	callers     []func() // end the calls that justonce makes itself
}

type mountPath struct{ path, note string }

// close ends what clients are served by.
func (m *mounts) close() error {
	var errs []error
	for _, h := range m.handlers {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

// closeCallers ends what justonce itself calls through.
func (m *mounts) closeCallers() {
	for _, end := range m.callers {
		end()
	}
}

func (m *mounts) add(path, note string, proxy *mcpproxy.Server, o *mcpproxy.HTTPOptions) (*mcpproxy.Handler, error) {
	h, err := proxy.Handler(o)
	if err != nil {
		return nil, err
	}
	m.handlers = append(m.handlers, h)
	m.handle[path] = http.StripPrefix(path, h)
	m.paths = append(m.paths, mountPath{path, note})
	return h, nil
}

// A mounter makes mounts of a catalog.
type mounter struct {
	*mounts
	cat     *catalog.Catalog
	base    string // the catalog's folder
	servers *mcpServers
	runner  *justonce.Runner
	work    *ownWork
	decide  string
	out     *output
	log     *slog.Logger
}

// all mounts everything there is. What was begun is closed by the caller also if
// it fails.
func (m *mounter) all(ctx context.Context) error {
	if err := m.native(ctx); err != nil {
		return err
	}
	for _, name := range sortedKeys(m.cat.Servers()) {
		s := m.cat.Servers()[name]
		if len(s.Command) == 0 && s.URL == "" {
			continue // the catalog's findings tell
		}
		if err := m.server(ctx, name, s); err != nil {
			return fmt.Errorf("the MCP server %s: %w", name, err)
		}
	}
	return nil
}

// native mounts the catalog's own tools, if it has any.
func (m *mounter) native(ctx context.Context) error {
	offer := func(t justonce.ToolInfo) bool {
		server, tool, ok := strings.Cut(t.Name, "/")
		if !ok {
			return true
		}
		_, mcp := m.servers.tools(server)[tool]
		return !mcp // it has a mount of its own
	}
	tools, err := m.runner.Tools(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, t := range tools {
		if offer(t) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	o := &mcpproxy.NativeOptions{Offer: offer, Version: version()}
	o.IntentKeys, o.Decide, o.Logger = defaultIntentKeys, m.decide, m.log
	proxy, start, err := mcpproxy.NewNative(m.runner, o)
	if err != nil {
		return err
	}
	_, err = m.add("/mcp", "http and smtp tools", proxy, &mcpproxy.HTTPOptions{Start: start})
	return err
}

func (m *mounter) server(ctx context.Context, name string, s *catalog.Server) error {
	o := proxyOptions(name, s)
	o.Tools, o.Decide, o.Logger = m.servers.tools(name), m.decide, m.log
	h := &mcpproxy.HTTPOptions{ScopeHeader: s.ScopeHeader, SessionIdle: s.SessionIdle, MaxSessions: s.MaxSessions}
	if s.URL != "" {
		if err := m.address(s, &o, h); err != nil {
			return err
		}
	} else if err := m.program(s, &o, h); err != nil {
		return err
	}
	tools, err := m.runner.Tools(ctx) // before calls add others
	if err != nil {
		return err
	}
	proxy, err := mcpproxy.New(m.runner, &o)
	if err != nil {
		return err
	}
	m.servers.bind(name, proxy)
	m.work.runs(&o, tools, true)
	if err := proxy.Adopt(ctx); err != nil {
		return err
	}
	note := ""
	if o.Mode == mcpproxy.Observe {
		note = "observes only"
	}
	handler, err := m.add("/mcp/"+name, note, proxy, h)
	if err != nil {
		return err
	}
	if s.URL != "" {
		m.handle["/mcp/"+name+"/"] = http.StripPrefix("/mcp/"+name, handler)
		m.handle["/.well-known/{document}/mcp/"+name] = handler.WellKnown()
	}
	return nil
}

// address stands before a server that speaks HTTP.
func (m *mounter) address(s *catalog.Server, o *mcpproxy.Options, h *mcpproxy.HTTPOptions) error {
	credentials := false
	for name := range s.Headers {
		credentials = credentials || http.CanonicalHeaderKey(name) == "Authorization"
	}
	headers := func(ctx context.Context) (http.Header, error) {
		values, err := m.cat.Secrets().ExpandAll(ctx, s.Headers)
		if err != nil {
			return nil, err
		}
		out := http.Header{}
		for name, v := range values {
			out.Set(name, v)
		}
		return out, nil
	}
	h.URL = s.URL
	if len(s.Headers) > 0 {
		h.Headers = headers
	}
	e, err := mcpconn.NewEndpoint(&mcpconn.EndpointOptions{URL: s.URL, Header: headers, Logger: m.log})
	if err != nil {
		return err
	}
	m.callers = append(m.callers, e.Close)
	o.Caller = e
	if !credentials {
		o.Caller = &anonymous{to: e, scopes: []string{"", o.Scope, o.Instance}}
	}
	return nil
}

// program stands before a server that is started: once for each session of a
// client, and once for what justonce asks it itself.
func (m *mounter) program(s *catalog.Server, o *mcpproxy.Options, h *mcpproxy.HTTPOptions) error {
	options := func() (*mcpconn.ProcessOptions, error) {
		command, env, dir, err := launch(s, m.cat.Secrets(), m.base)
		if err != nil {
			return nil, err
		}
		return &mcpconn.ProcessOptions{Command: command, Env: env, Dir: dir, Stderr: m.out.stderr, Logger: m.log}, nil
	}
	h.Start = func(handle func([]byte)) (mcpproxy.Peer, error) {
		p, err := options()
		if err != nil {
			return nil, err
		}
		p.Handle = handle
		return mcpconn.Start(p)
	}
	l := &laterSession{options: options, log: m.log}
	m.callers = append(m.callers, l.close)
	o.Caller = l
	return nil
}

// anonymous calls without a client's credentials, and therefore only for calls
// that were made without any: with others, or none, the server might do, or show,
// something else.
type anonymous struct {
	to     mcpconn.Caller
	scopes []string
}

// CallTool implements [mcpconn.Caller].
func (a *anonymous) CallTool(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	attempt := c.Attempt
	if attempt == nil {
		attempt = justonce.CurrentAttempt(ctx)
	}
	if attempt != nil {
		for _, scope := range a.scopes {
			if attempt.Scope == scope {
				return a.to.CallTool(ctx, c)
			}
		}
	}
	return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: errors.New("the call was made with a client's own credentials; it goes on when that client comes back")}
}

// A laterSession starts a server for justonce's own calls when there is one.
type laterSession struct {
	options func() (*mcpconn.ProcessOptions, error)
	log     *slog.Logger

	mu      sync.Mutex
	session *mcpconn.Session
	closed  bool
}

// CallTool implements [mcpconn.Caller].
func (l *laterSession) CallTool(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	s, err := l.open()
	if err != nil {
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: err}
	}
	return s.CallTool(ctx, c)
}

func (l *laterSession) open() (*mcpconn.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the gateway is stopping")
	}
	if l.session == nil {
		p, err := l.options()
		if err != nil {
			return nil, err
		}
		l.session = mcpconn.NewSession(&mcpconn.SessionOptions{Process: *p, Logger: l.log})
	}
	return l.session, nil
}

func (l *laterSession) close() {
	l.mu.Lock()
	l.closed = true
	s := l.session
	l.mu.Unlock()
	if s != nil {
		s.Close()
	}
}
