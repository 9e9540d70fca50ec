package catalog

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// A toolSpec is a tool as the file has it, its connector block left out.
type toolSpec struct {
	Preset        string               `json:"preset"`
	Description   string               `json:"description"`
	Effect        justonce.Effect      `json:"effect"`
	Schema        *node                `json:"schema"`
	SchemaFile    string               `json:"schema_file"`
	AssertFormats bool                 `json:"assert_formats"`
	Identity      *node                `json:"identity"`
	Ignore        *node                `json:"ignore"`
	Equal         equalSpec            `json:"equal"`
	Dedupe        justonce.Dedupe      `json:"dedupe"`
	DedupeFor     time.Duration        `json:"dedupe_for"`
	Capability    justonce.Capability  `json:"capability"`
	Fallback      justonce.Capability  `json:"fallback"`
	Window        time.Duration        `json:"window"`
	Margin        time.Duration        `json:"margin"`
	Settle        *time.Duration       `json:"settle"`
	Timeout       time.Duration        `json:"timeout"`
	Lease         time.Duration        `json:"lease"`
	Retries       retrySpec            `json:"retries"`
	RetryAbsent   bool                 `json:"retry_absent"`
	WireKey       justonce.WireKeyForm `json:"wire_key"`
	Allow         []string             `json:"allow"`
}

type equalSpec struct {
	Sets              *node            `json:"sets"`
	Instants          *node            `json:"instants"`
	Text              *node            `json:"text"`
	NullIsAbsent      *node            `json:"null_is_absent"`
	Defaults          map[string]*node `json:"defaults"`
	UseSchemaDefaults bool             `json:"use_schema_defaults"`
}

type retrySpec struct {
	MaxAttempts int           `json:"max_attempts"`
	MaxUnknowns int           `json:"max_unknowns"`
	MaxLookups  int           `json:"max_lookups"`
	Base        time.Duration `json:"base"`
	Cap         time.Duration `json:"cap"`
	Poll        time.Duration `json:"poll"`
}

// A tool is a tool that was read: what of it could be.
type tool struct {
	name   string
	at     Position
	node   *node // preset and file, merged
	spec   toolSpec
	preset *Preset
	broken bool // too little of it could be read to look any further

	identity, ignore []pointerAt
	equal            *justonce.Equality
	pointers         []pointerAt // of equal, for the checks
	schema           *schema
	policy           justonce.Policy

	kind      string // name of the connector block
	block     *node  // with references rewritten
	connector justonce.Connector
	refs      []reference
}

// place returns where a field stands, or the tool where it does not.
func (t *tool) place(path ...string) Position {
	n, at := t.node, t.at
	for _, name := range path {
		m := n.member(name)
		if m == nil {
			break
		}
		n, at = m.value, m.at
	}
	return at
}

// recorded reports whether calls of t become operations.
func (t *tool) recorded() bool {
	return t.spec.Effect == justonce.Write || t.spec.Effect == justonce.LongRunning
}

func (t *tool) tool() *justonce.Tool {
	s := &t.spec
	out := &justonce.Tool{
		Name: t.name, Description: s.Description, Effect: s.Effect,
		Identity: texts(t.identity), Ignore: texts(t.ignore), Equal: t.equal,
		Dedupe: s.Dedupe, DedupeFor: s.DedupeFor, WireKey: s.WireKey,
		Policy: t.policy, Connector: t.connector,
	}
	if t.schema != nil {
		out.Schema, out.Validate = t.schema.raw, t.schema.Validate
	}
	return out
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./-]{0,127}$`)

type builder struct {
	o       *Options
	found   *findings
	secrets *Secrets
	servers map[string]*Server
	file    string
}

// tool reads one tool.
func (b *builder) tool(m member) *tool {
	t := &tool{name: m.name, at: m.at, node: m.value}
	d := &decoder{findings: b.found, tool: m.name}
	if !toolName.MatchString(m.name) {
		b.found.add("value", m.at, "", "", "the name of a tool must start with a letter or digit and have at most 128 of A-Z a-z 0-9 _ . / -")
		t.broken = true
		return t
	}
	if m.value.kind != kindMap {
		d.bad(m.value, "a tool must be a mapping, not %s", m.value.kind)
		t.broken = true
		return t
	}
	if t.broken = !b.usePreset(t); t.broken {
		return t
	}
	rest := &node{kind: kindMap, at: t.node.at}
	var kinds []member
	for _, f := range t.node.members {
		switch {
		case b.isConnector(f.name):
			kinds = append(kinds, f)
		default:
			rest.members = append(rest.members, f)
		}
	}
	d.decode(rest, reflect.ValueOf(&t.spec).Elem(), "a tool")
	if t.spec.Effect == "" {
		t.spec.Effect = justonce.Write
	}
	b.enums(t, d)
	t.identity = d.pointers(t.spec.Identity, "identity")
	t.ignore = d.pointers(t.spec.Ignore, "ignore")
	b.readSchema(t, d)
	b.equality(t, d)
	b.policy(t, d)
	b.connect(t, kinds)
	return t
}

func (b *builder) enums(t *tool, d *decoder) {
	s := &t.spec
	for _, e := range []struct{ field, value, names string }{
		{"effect", string(s.Effect), "read idempotent write long_running"},
		{"dedupe", string(s.Dedupe), "strict until_delivered"},
		{"capability", string(s.Capability), "key reference list none"},
		{"fallback", string(s.Fallback), "reference list none"},
		{"wire_key", string(s.WireKey), "hash raw"},
	} {
		names := strings.Fields(e.names)
		if e.value == "" || slices.Contains(names, e.value) {
			continue
		}
		if n := t.node.get(e.field); n != nil {
			b.found.add("value", n.at, t.name, didYouMean(e.value, names), "%s: it must be %s", e.field, orList(names))
		}
	}
	for _, id := range s.Allow {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
		switch {
		case i < 0:
			d.findings.add("value", t.place("allow"), t.name, suggest(id, warningIDs()), "allow: there is no such rule")
		case rules[i].Severity == SeverityError:
			d.findings.add("value", t.place("allow"), t.name, "", "allow: %s is an error and cannot be allowed", id)
		}
	}
}

func orList(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
