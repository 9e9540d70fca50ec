package catalog

import (
	"slices"
	"strings"

	justonce "github.com/justonce-dev/justonce"
)

// connectorNames are the blocks there may be even if this program lacks them.
var connectorNames = []string{"http", "smtp", "mcp"}

func (b *builder) isConnector(name string) bool {
	_, ok := b.o.Connectors[name]
	return ok || slices.Contains(connectorNames, name)
}

// connect makes the tool's connector.
func (b *builder) connect(t *tool, kinds []member) {
	switch len(kinds) {
	case 0:
		b.found.add("connector", t.at, t.name, "add "+orList(connectorNames), "it has no connector")
		return
	case 1:
	default:
		b.found.add("connector", kinds[1].at, t.name, "make two tools of it", "it has both %s and %s, but takes one connector", kinds[0].name, kinds[1].name)
		return
	}
	m := kinds[0]
	t.kind = m.name
	if m.value.kind != kindMap {
		b.found.add("value", m.value.at, t.name, "", "%s: it must be a mapping, not %s", m.name, m.value.kind)
		return
	}
	before := len(errorsOf(b.found.list))
	r := references{found: b.found, secrets: b.secrets, tool: t.name}
	t.block = r.rewrite(m.value, "")
	t.refs = r.list
	if c := t.block.member("capability"); c != nil {
		b.found.add("unknown-field", c.at, t.name, "move it up to the tool", "%s has no field capability", m.name)
	}
	if leaks(t.block) {
		return // what is refused is not handed on; the finding is made with the file's others
	}
	if m.name == "mcp" {
		if b.serverOf(t); len(errorsOf(b.found.list)) > before {
			return
		}
	}
	make, ok := b.o.Connectors[m.name]
	if !ok || len(errorsOf(b.found.list)) > before {
		return
	}
	s := &Spec{Tool: t.name, Effect: t.spec.Effect, Policy: t.policy, Secrets: b.secrets,
		block: t.block, findings: b.found, kind: m.name}
	c, err := make(s)
	switch {
	case len(errorsOf(b.found.list)) > before:
	case err != nil:
		b.found.add("connector", m.at, t.name, "", "%s", firstLine(err))
	case c == nil:
		b.found.add("connector", m.at, t.name, "", "%s: nothing was made of it", m.name)
	default:
		t.connector = c
	}
}

// firstLine keeps an error short: CEL's span several lines.
func firstLine(err error) string {
	var lines []string
	for _, l := range strings.Split(err.Error(), "\n") {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "|") {
			lines = append(lines, l)
		}
	}
	s := strings.Join(lines, " ")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "") + "…"
	}
	return s
}

// canLookup reports whether the connector can tell afterwards; of one that this
// program lacks, whether the block says how.
func (t *tool) canLookup() bool {
	if t.connector != nil {
		_, ok := t.connector.(justonce.Finder)
		return ok
	}
	return t.block != nil && t.block.get("lookup") != nil
}
