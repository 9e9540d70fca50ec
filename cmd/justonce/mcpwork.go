package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// ownWork is a ledger whose operations of MCP servers are taken up only by who
// runs the very server: one of the same name may run in another folder, where the
// same call is about something else. What else the store can do passes through.
type ownWork struct {
	justonce.Store

	mu      sync.Mutex
	servers map[string]workOf
}

// workOf says which operations of a server are this process's.
type workOf struct {
	scope, instance string
	declared        map[string]bool
	shared          bool // declared tools are called in other scopes, too
}

func newOwnWork(store justonce.Store) *ownWork {
	return &ownWork{Store: store, servers: map[string]workOf{}}
}

// runs notes that this process runs a server. Shared says that its declared tools
// are also called in other ways than through its proxy, in scopes of theirs.
func (w *ownWork) runs(o *mcpproxy.Options, tools []justonce.ToolInfo, shared bool) {
	declared := map[string]bool{}
	for _, t := range tools {
		declared[t.Name] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[o.Name] = workOf{o.Scope, o.Instance, declared, shared}
}

func infosOf(tools []*justonce.Tool) []justonce.ToolInfo {
	infos := make([]justonce.ToolInfo, len(tools))
	for i, t := range tools {
		infos[i] = t.Info()
	}
	return infos
}

// own reports whether op is to be moved on here though nobody here waits for it.
func (w *ownWork) own(op *justonce.Operation) bool {
	server, _, ok := strings.Cut(op.Tool, "/")
	w.mu.Lock()
	s, runs := w.servers[server]
	w.mu.Unlock()
	switch {
	case !ok || !runs:
		return true // no MCP server's, or one that the runner does not know either
	case s.declared[op.Tool] && s.shared:
		return true
	case s.declared[op.Tool]:
		return op.Scope == s.scope
	}
	scope := s.instance
	if s.scope != "" {
		scope += "/" + s.scope
	}
	return op.Scope == scope || strings.HasPrefix(op.Scope, scope+"/")
}

// Claim implements [justonce.Store].
func (w *ownWork) Claim(ctx context.Context, due justonce.Due, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) ([]*justonce.Operation, error) {
	return w.Store.Claim(ctx, due, func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		if due.Ref == nil && !w.own(op) {
			return nil, false
		}
		return advance(op, now)
	})
}

// MayHave implements [justonce.Guesser]. A store that cannot tell leaves it to
// Begin.
func (w *ownWork) MayHave(ref justonce.Ref) bool {
	g, ok := w.Store.(justonce.Guesser)
	return ok && g.MayHave(ref)
}

// Listen implements [justonce.Notifier]. Of a store that tells nothing nothing is
// heard.
func (w *ownWork) Listen(ctx context.Context, changed func(justonce.Ref)) error {
	if n, ok := w.Store.(justonce.Notifier); ok {
		return n.Listen(ctx, changed)
	}
	<-ctx.Done()
	return nil
}
