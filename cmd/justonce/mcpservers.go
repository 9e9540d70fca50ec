package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// mcpServers join the MCP tools of a catalog with the servers that run: the
// tools are read first.
type mcpServers struct {
	mu      sync.Mutex
	callers map[string]mcpconn.Caller
	known   map[string]map[string]mcpproxy.ToolOptions // by server and its tool
}

func newMCPServers() *mcpServers {
	return &mcpServers{callers: map[string]mcpconn.Caller{}, known: map[string]map[string]mcpproxy.ToolOptions{}}
}

// bind says through what the tools of a server are called.
func (m *mcpServers) bind(server string, c mcpconn.Caller) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.callers[server] = c
}

// tools returns what the file says of a server's tools for its proxy.
func (m *mcpServers) tools(server string) map[string]mcpproxy.ToolOptions {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.known[server])
}

// connect makes the connector of a tool with the block mcp.
func (m *mcpServers) connect(s *catalog.Spec) (justonce.Connector, error) {
	var c mcpconn.Config
	if err := s.Decode(&c); err != nil {
		return nil, err
	}
	server, tool, _ := strings.Cut(s.Tool, "/")
	if c.Server != "" && c.Server != server || c.Tool != "" && c.Tool != tool {
		return nil, fmt.Errorf("server and tool: the tool's name says %s and %s; leave them out", server, tool)
	}
	c.Server, c.Tool = server, tool
	k, err := mcpconn.New(c, &boundCaller{m, server})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[server] == nil {
		m.known[server] = map[string]mcpproxy.ToolOptions{}
	}
	m.known[server][tool] = mcpproxy.ToolOptions{Mode: mcpproxy.Mode(c.Mode), Repeat: c.Repeat, Connector: k}
	return k, nil
}

// A boundCaller calls through what its server is bound to by then.
type boundCaller struct {
	servers *mcpServers
	server  string
}

// CallTool implements [mcpconn.Caller].
func (b *boundCaller) CallTool(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	b.servers.mu.Lock()
	to := b.servers.callers[b.server]
	b.servers.mu.Unlock()
	if to == nil {
		return mcpconn.Reply{Stage: mcpconn.Unsent, Cause: fmt.Errorf("the MCP server %s is not started by this process", b.server)}
	}
	return to.CallTool(ctx, c)
}

// proxyOptions returns what a catalog says of a server as its proxy wants it.
func proxyOptions(name string, s *catalog.Server) mcpproxy.Options {
	o := mcpproxy.Options{
		Name: name, Mode: mcpproxy.Mode(s.Mode), TrustAnnotations: s.TrustAnnotations,
		Scope: s.Scope, IntentKeys: s.IntentKeys,
		Timeout: s.Timeout, DedupeFor: s.DedupeFor, Wait: s.Wait, InputWait: s.InputWait,
		NoExtras: s.NoExtras, NoTools: s.NoTools,
	}
	if o.IntentKeys == nil {
		o.IntentKeys = defaultIntentKeys
	}
	return o
}

// launch returns how a server with a command is started. Base is the catalog's
// folder.
func launch(s *catalog.Server, secrets *catalog.Secrets, base string) (command, env []string, dir string, err error) {
	ctx := context.Background()
	values, err := secrets.ExpandAll(ctx, s.Env)
	if err != nil {
		return nil, nil, "", err
	}
	for _, name := range sortedKeys(values) {
		env = append(env, name+"="+values[name])
	}
	for _, arg := range s.Command {
		if arg, err = secrets.Expand(ctx, arg); err != nil {
			return nil, nil, "", err
		}
		command = append(command, strings.ReplaceAll(arg, "$${", "${"))
	}
	if dir = s.Dir; dir != "" && !filepath.IsAbs(dir) {
		dir = filepath.Join(base, dir)
	}
	return command, env, dir, nil
}

// instanceOf names what is started where, for tools that nobody described: two
// agents in different folders never share a call.
func instanceOf(dir string, command ...string) string {
	h := sha256.New()
	h.Write([]byte("justonce/instance/1"))
	for _, s := range append([]string{dir}, command...) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// decideCommand is how a person decides about an operation. Where are the flags
// that say where it is.
func decideCommand(where string) string {
	return `justonce resolve %s happened --reason "seen there"` + where +
		" (if it did happen; in place of happened: retry, if it did not and is to be sent; cancel, if it did not and is to be left)"
}

// accountOf returns the variables by which the same command, started in the same
// folder, works for somebody else or on something else: credentials, addresses
// and places. Equal calls of two such servers are about different things.
func accountOf(environ []string) []string {
	vars := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if accountVar.MatchString(name) && !sessionVar.MatchString(name) {
			vars[name] = value // the last one counts
		}
	}
	list := []string{""}
	for _, name := range sortedKeys(vars) {
		list = append(list, name+"="+vars[name])
	}
	return list
}

var (
	accountVar = regexp.MustCompile(`(?i)(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASS|ACCOUNT|PROFILE|URL|URI|DSN|HOST|DATABASE|DB|PROJECT|WORKSPACE|ORG|TENANT|REGION|ENDPOINT|DIR|FILE|PATH)$`)
	// sessionVar are those that differ from one start to the next, or say nothing of
	// what a server works on.
	sessionVar = regexp.MustCompile(`(?i)^(PATH|LD_.*|DYLD_.*|XDG_.*|JUSTONCE_.*|NPM_(CONFIG|PACKAGE|LIFECYCLE|NODE)_.*|NPM_EXECPATH|NODE_PATH|GO(PATH|ROOT|ENV)|CARGO_.*|VSCODE_.*|KITTY_.*|SSH_.*|GIO_.*|GTK_.*|INFOPATH|MANPATH|.*_LIBRARY_PATH)$`)
)
