package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

func TestServersAreNamedAfterTheirCommands(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"tickets-mcp":                                         "tickets-mcp",
		"/opt/bin/tickets":                                    "tickets",
		`C:\Tools\tickets.exe serve`:                          "tickets",
		"npx -y @acme/tickets-mcp@1.2.3":                      "tickets-mcp",
		"npx tickets":                                         "tickets",
		"npx -y --package=@acme/all tickets":                  "tickets",
		"npx -p @acme/all tickets":                            "tickets",
		"/usr/bin/npx @scope/server-memory":                   "server-memory",
		"npx.cmd -y tickets":                                  "tickets",
		"uvx --from git+https://example.com/x tickets-mcp==1": "tickets-mcp",
		"uv run --directory /srv/x tickets.py":                "tickets",
		"node --import tsx /srv/tickets/dist/index.js --fast": "tickets",
		"node index.js":                                       "index",
		"/usr/bin/python3.14 -m tickets_mcp":                  "tickets_mcp",
		"python /srv/tickets/__main__.py":                     "tickets",
		"deno run --allow-net jsr:@acme/tickets":              "tickets",
		"docker run -i --rm -e TOKEN ghcr.io/acme/tickets:2":  "tickets",
		"docker run --mount type=bind,src=/a,dst=/b mcp/fs":   "fs",
		"go run ./cmd/tickets":                                "tickets",
		"npx":                                                 "npx",
		"npx -y":                                              "npx",
		"./-":                                                 "mcp",
		"Ünïcode server":                                      "n-code",
		strings.Repeat("a", 100):                              strings.Repeat("a", 64),
	} {
		if got := serverNameOf(strings.Split(command, " ")); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

func TestTheUsersLedger(t *testing.T) {
	t.Parallel()
	abs := func(elem ...string) string { return filepath.Join(append([]string{"/home/ann"}, elem...)...) }
	for _, x := range []struct {
		system string
		env    map[string]string
		want   string
	}{
		{"linux", map[string]string{"HOME": "/home/ann"}, abs(".local", "state", "justonce", "mcp.db")},
		{"linux", map[string]string{"HOME": "/home/ann", "XDG_STATE_HOME": "/state"}, "/state/justonce/mcp.db"},
		{"linux", map[string]string{"HOME": "/home/ann", "XDG_STATE_HOME": "state"}, abs(".local", "state", "justonce", "mcp.db")},
		{"darwin", map[string]string{"HOME": "/home/ann", "XDG_STATE_HOME": "/state"}, abs("Library", "Application Support", "justonce", "mcp.db")},
		{"windows", map[string]string{"HOME": "/home/ann", "LocalAppData": "/local"}, "/local/justonce/mcp.db"},
		{"linux", nil, ""},
		{"windows", map[string]string{"HOME": "/home/ann"}, ""},
	} {
		got, err := ledgerIn(x.system, func(name string) string { return x.env[name] })
		if filepath.ToSlash(got) != x.want || (err != nil) != (x.want == "") {
			t.Errorf("%s %v: %s, %v, want %s", x.system, x.env, got, err, x.want)
		}
	}
}

func TestInstancesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, x := range [][]string{{"/a", "x"}, {"/b", "x"}, {"/a", "x", ""}, {"/a", "", "x"}, {"/a", "xy"}, {"/a", "x", "y"}} {
		got := instanceOf(x[0], x[1:]...)
		if len(got) != 16 || seen[got] {
			t.Errorf("%q: %s", x, got)
		}
		seen[got] = true
	}
}

// What a client's own credentials were needed for is not done, or looked up,
// without them.
func TestNothingIsAskedWithoutTheClientsCredentials(t *testing.T) {
	t.Parallel()
	var asked []string
	a := &anonymous{scopes: []string{"", "instance"}, to: callerFunc(func(c *mcpconn.ToolCall) mcpconn.Reply {
		asked = append(asked, c.Attempt.Scope)
		return mcpconn.Reply{}
	})}
	for _, scope := range []string{"", "instance", "auth-1", "instance/auth-1"} {
		r := a.CallTool(t.Context(), &mcpconn.ToolCall{Attempt: &justonce.Attempt{Scope: scope}})
		if unsent := r.Stage == mcpconn.Unsent; unsent != strings.Contains(scope, "auth-") {
			t.Errorf("%q: %v", scope, r)
		}
	}
	if d := cmp.Diff([]string{"", "instance"}, asked); d != "" {
		t.Error(d)
	}
	if r := a.CallTool(t.Context(), &mcpconn.ToolCall{}); r.Stage != mcpconn.Unsent {
		t.Errorf("a lookup for nobody: %v", r)
	}
}

type callerFunc func(*mcpconn.ToolCall) mcpconn.Reply

func (f callerFunc) CallTool(_ context.Context, c *mcpconn.ToolCall) mcpconn.Reply { return f(c) }

func TestCountsAndSpansAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	got := []string{thousands(0), thousands(999), thousands(1000), thousands(1234567), plural(1, "call"), plural(2, "call"),
		spanText(7 * 24 * 3600e9), spanText(24 * 3600e9), spanText(90 * 60e9), spanText(1500e6)}
	want := []string{"0", "999", "1,000", "1,234,567", "1 call", "2 calls", "7 days", "24 hours", "90 minutes", "1.5s"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Two accounts of one server are two servers.
func TestAccountOf(t *testing.T) {
	t.Parallel()
	base := []string{"HOME=/h", "PATH=/bin", "TERM=x", "SSH_AUTH_SOCK=/tmp/1", "XDG_RUNTIME_DIR=/run/1", "KITTY_PUBLIC_KEY=1", "NODE_PATH=/n"}
	one := accountOf(append(base, "MASTODON_TOKEN=a", "api_key=k", "GIT_BASE_DIR=/a", "GOOGLE_API_KEY=g"))
	if diff := cmp.Diff([]string{"", "GIT_BASE_DIR=/a", "GOOGLE_API_KEY=g", "MASTODON_TOKEN=a", "api_key=k"}, one); diff != "" {
		t.Error(diff)
	}
	if got := accountOf(base); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if instanceOf("/d", accountOf([]string{"A_TOKEN=1"})...) == instanceOf("/d", accountOf([]string{"A_TOKEN=2"})...) {
		t.Error("the same instance for two tokens")
	}
}
