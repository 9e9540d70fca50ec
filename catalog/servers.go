package catalog

import (
	"context"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Server is an MCP server in front of which justonce stands: a program that
// it starts, or an address. The zero value of a field means that the file does
// not set it.
type Server struct {
	// Command is the program and its arguments; it speaks MCP over standard input
	// and output. Env is added to its environment, and Dir is where it runs: a
	// relative one starts at the catalog's folder.
	Command []string          `json:"command"`
	Env     map[string]string `json:"env"`
	Dir     string            `json:"dir"`
	// URL is a server that speaks Streamable HTTP, Headers what justonce adds to
	// every request to it.
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`

	Mode             string   `json:"mode"` // enforce or observe
	TrustAnnotations bool     `json:"trust_annotations"`
	Scope            string   `json:"scope"`
	ScopeHeader      string   `json:"scope_header"`
	IntentKeys       []string `json:"intent_keys"` // nil: not set

	Timeout   time.Duration `json:"timeout"`
	DedupeFor time.Duration `json:"dedupe_for"`
	Wait      time.Duration `json:"wait"`
	InputWait time.Duration `json:"input_wait"`
	Linger    time.Duration `json:"linger"`

	NoExtras bool `json:"no_extras"`
	NoTools  bool `json:"no_tools"`

	SessionIdle time.Duration `json:"session_idle"`
	MaxSessions int           `json:"max_sessions"`

	refs []reference
}

// Servers returns the MCP servers of the file, by name. Strings hold references
// to secrets as [Secrets.ExpandAll] resolves them.
func (c *Catalog) Servers() map[string]*Server { return c.servers }

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// readServers reads the servers section. Elsewhere are the names of servers
// whose command is given elsewhere.
func (c *Catalog) readServers(section *node, elsewhere []string, found *findings) {
	c.servers = map[string]*Server{}
	d := &decoder{findings: found}
	if section == nil || section.kind == kindNull {
		return
	}
	if section.kind != kindMap {
		d.bad(section, "servers: it must be a mapping from names to MCP servers, not %s", section.kind)
		return
	}
	for _, m := range section.members {
		if !serverName.MatchString(m.name) {
			found.add("value", m.at, "", "", "the name of an MCP server must start with a letter or digit and have at most 64 of A-Z a-z 0-9 _ . -")
			continue
		}
		s := &Server{}
		c.servers[m.name] = s
		if m.value.kind == kindNull {
			m.value = &node{kind: kindMap, at: m.at}
		}
		r := references{found: found, secrets: c.secrets}
		n := r.rewrite(m.value, "")
		s.refs = r.list
		before := len(errorsOf(found.list))
		d.decode(n, reflect.ValueOf(s).Elem(), "an MCP server")
		if len(errorsOf(found.list)) == before {
			s.check(n, m, slices.Contains(elsewhere, m.name), d)
		}
	}
}

// check looks at what fits together. N is where s was decoded from.
func (s *Server) check(n *node, m member, elsewhere bool, d *decoder) {
	bad := func(field, format string, a ...any) {
		d.bad(n.get(field), field+": "+format, a...)
	}
	has := func(field string) bool { v := n.get(field); return v != nil && v.kind != kindNull }
	switch {
	case has("command") && has("url"):
		d.findings.add("server", n.member("url").at, "", "make two servers of it", "the MCP server %s has both a command and a url", m.name)
		return
	case has("command") && (len(s.Command) == 0 || s.Command[0] == ""):
		bad("command", "it is empty; give the program and its arguments")
	case has("url"):
		if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" || strings.Contains(s.URL, "${") {
			d.findings.add("value", n.get("url").at, "", "it may begin with ${env:NAME}; secrets have their place in headers",
				"url: it must be an address such as https://mcp.example.com/mcp")
		}
	case !has("command") && !elsewhere:
		d.findings.add("server-nowhere", m.at, "", "add command or url", "the MCP server %s has neither a command nor a url, so that serve does not mount it", m.name)
	}
	for _, h := range membersOf(n.get("headers")) {
		if !headerName.MatchString(h.name) {
			d.bad(h.value, "headers: %q is no name of a header field", h.name)
		}
	}
	for _, e := range membersOf(n.get("env")) {
		if e.name == "" || strings.ContainsAny(e.name, "=\x00") {
			d.bad(e.value, "env: %q is no name of a variable", e.name)
		}
	}
	for _, f := range []struct{ field, needs string }{{"env", "command"}, {"dir", "command"}, {"linger", "command"}, {"headers", "url"}} {
		if other := map[string]string{"command": "url", "url": "command"}[f.needs]; has(f.field) && has(other) {
			d.findings.add("server", n.member(f.field).at, "", "leave it out", "%s is for servers with a %s, and %s has a %s", f.field, f.needs, m.name, other)
		}
	}
	if has("mode") && s.Mode != "enforce" && s.Mode != "observe" {
		d.findings.add("value", n.get("mode").at, "", didYouMean(s.Mode, []string{"enforce", "observe"}), "mode: it must be enforce or observe")
	}
	if has("scope") && (len(s.Scope) > 255 || strings.ContainsFunc(s.Scope, func(r rune) bool { return r < ' ' || r > '~' })) {
		bad("scope", "it must have at most 255 printable ASCII characters")
	}
	for _, field := range []string{"timeout", "dedupe_for", "wait", "input_wait", "linger", "session_idle"} {
		if v := n.get(field); v != nil && isDuration(v) {
			if t, err := parseDuration(v); err == nil && t <= 0 {
				bad(field, "it must be more than nothing")
			}
		}
	}
	if has("timeout") && s.Timeout > day {
		bad("timeout", "it must be %s at most", spell(day))
	}
	if has("max_sessions") && s.MaxSessions < 1 {
		bad("max_sessions", "it must be 1 or more")
	}
}

// serverOf checks that the server of an MCP tool is there.
func (b *builder) serverOf(t *tool) {
	server, tool, ok := strings.Cut(t.name, "/")
	if !ok || server == "" || tool == "" {
		b.found.add("server-unknown", t.at, t.name, "name it after the server and its tool, such as tickets/create_ticket",
			"an MCP tool is named server/tool")
		return
	}
	names := append(sortedNames(b.servers), b.o.Servers...)
	if !slices.Contains(names, server) {
		hint := suggest(server, names)
		if hint == "" {
			hint = "add it to servers; without a command it is for justonce mcp alone"
		}
		b.found.add("server-unknown", t.at, t.name, hint, "there is no MCP server %s", server)
	}
}

func membersOf(n *node) []member {
	if n == nil {
		return nil
	}
	return n.members
}

func sortedNames(servers map[string]*Server) []string {
	var names []string
	for name := range servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ExpandAll is [Secrets.Expand] of each value.
func (s *Secrets) ExpandAll(ctx context.Context, texts map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(texts))
	for name, text := range texts {
		v, err := s.Expand(ctx, text)
		if err != nil {
			return nil, err
		}
		out[name] = strings.ReplaceAll(v, "$${", "${")
	}
	return out, nil
}
