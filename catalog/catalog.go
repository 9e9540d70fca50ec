package catalog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	justonce "github.com/justonce-dev/justonce"
)

// Options say what a catalog may use. Nil is the same as the zero value.
type Options struct {
	// Connectors makes the connector of a tool, by the name of its block.
	// Without the one that a tool needs, the tool is checked but cannot be used:
	// [Catalog.Tools] fails.
	Connectors map[string]Connect
	// Sections receives further blocks at the top of the file, by name: each is
	// decoded strictly into the value pointed to, as [Spec.Decode] does.
	Sections map[string]any
	// Servers are names of MCP servers whose command is given elsewhere, such as on
	// the command line.
	Servers []string

	// LookupEnv finds environment variables. Defaults to os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// ReadFile reads schema files and secrets. Relative paths are resolved
	// against the folder of the catalog before. Defaults to reading at most
	// MaxBytes of a file.
	ReadFile func(path string) ([]byte, error)
	// MaxBytes bounds the file. Defaults to 1 MiB.
	MaxBytes int
}

// Connect makes the connector of one tool. It must send nothing. Its error is
// shown to whoever wrote the file, at the block's place; it must not quote
// secrets (the file has none to quote).
type Connect func(s *Spec) (justonce.Connector, error)

// A Spec is the connector block of one tool.
type Spec struct {
	Tool    string
	Effect  justonce.Effect
	Policy  justonce.Policy // with its defaults
	Secrets *Secrets        // resolves what the block refers to, when asked

	block    *node
	findings *findings
	kind     string
}

// Decode fills v, a pointer to a struct whose json tags name the members of the
// block. Time spans are written as in 30s or 7d, int64 fields also take sizes
// such as 4MiB, any gets plain Go values with json.Number for numbers.
// Placeholders ${env:NAME} and ${file:PATH} arrive as ${secret:…}, with the
// names that Secrets knows. The error says that the block does not fit; where
// and how is among the findings already.
func (s *Spec) Decode(v any) error {
	before := len(s.findings.list)
	d := &decoder{findings: s.findings, tool: s.Tool}
	d.decode(s.block, reflect.ValueOf(v).Elem(), s.kind)
	if len(s.findings.list) > before {
		return errFound
	}
	return nil
}

var errFound = fmt.Errorf("the block does not fit")

// A Catalog is a file that can be used. It does not change.
type Catalog struct {
	// Settings is the server's part of the file.
	Settings Settings

	set      map[string]bool
	tools    []*tool
	servers  map[string]*Server
	toolsAt  Position
	findings []Finding
	secrets  *Secrets
}

// Load reads the file at path. See [Parse].
func Load(path string, o *Options) (*Catalog, error) {
	data, err := readBounded(path, o.maxBytes())
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	return Parse(path, data, o)
}

// Parse reads a catalog. Name is its path, for messages and for what it refers
// to by relative paths. The error of a file that cannot be used is an *[Error]
// with everything that was found.
func Parse(name string, data []byte, o *Options) (*Catalog, error) {
	c, found := parse(name, data, o)
	if bad := errorsOf(found); len(bad) > 0 {
		return nil, &Error{bad}
	}
	c.findings = found
	return c, nil
}

// Findings returns the warnings about a catalog that can be used, in the order
// of the file.
func (c *Catalog) Findings() []Finding { return slices.Clone(c.findings) }

// Secrets returns the resolver of the references in the file.
func (c *Catalog) Secrets() *Secrets { return c.secrets }

// Tools returns the tools in the order of the file, ready for a Runner. The
// error names a tool whose kind of connector [Options.Connectors] lacks.
func (c *Catalog) Tools() ([]*justonce.Tool, error) {
	var list []*justonce.Tool
	for _, t := range c.tools {
		if t.connector == nil {
			return nil, fmt.Errorf("tool %q: there is no %s connector in this program", t.name, t.kind)
		}
		list = append(list, t.tool())
	}
	return list, nil
}

func (o *Options) maxBytes() int {
	if o == nil || o.MaxBytes == 0 {
		return DefaultMaxBytes
	}
	return o.MaxBytes
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxBytes = o.maxBytes()
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	if c.ReadFile == nil {
		c.ReadFile = func(path string) ([]byte, error) { return readBounded(path, c.MaxBytes) }
	}
	return c
}

// readBounded reads one byte more than most at the longest, so that what is too
// long can be told.
func readBounded(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(most)+1))
}

// parse reads and checks a file. The catalog is usable if no finding is an
// error.
func parse(name string, data []byte, opt *Options) (*Catalog, []Finding) {
	o := opt.withDefaults()
	found := &findings{}
	c := &Catalog{secrets: &Secrets{lookupEnv: o.LookupEnv, readFile: o.ReadFile, dir: filepath.Dir(name)}}
	root, err := parseYAML(name, data, o.MaxBytes)
	if err != nil {
		found.yaml(err)
		return c, found.sorted()
	}
	d := &decoder{findings: found}
	if root.kind != kindMap {
		d.bad(root, "the file must be a mapping with settings and tools, not %s", root.kind)
		return c, found.sorted()
	}
	c.readSettings(root, d)
	known := append(settingNames(), "servers", "tools")
	for name := range o.Sections {
		known = append(known, name)
	}
	for _, m := range root.members {
		section, ok := o.Sections[m.name]
		switch {
		case ok:
			r := references{found: found, secrets: c.secrets}
			d.decode(r.rewrite(m.value, ""), reflect.ValueOf(section).Elem(), m.name)
		case strings.HasPrefix(m.name, "x-") || slices.Contains(known, m.name):
		default:
			found.add("unknown-field", m.at, "", suggest(m.name, known), "the file has no field %s", m.name)
		}
	}
	c.readServers(root.get("servers"), o.Servers, found)
	c.literalSecrets(root, found)
	c.toolsAt = Position{File: name}
	if m := root.member("tools"); m != nil {
		c.toolsAt = m.at
	}
	if tools := root.get("tools"); tools != nil && tools.kind != kindNull {
		if tools.kind != kindMap {
			d.bad(tools, "tools: it must be a mapping from names to tools, not %s", tools.kind)
			return c, found.sorted()
		}
		if len(tools.members) > maxTools {
			d.bad(tools, "tools: there are more than %d", maxTools)
			return c, found.sorted()
		}
		b := &builder{o: &o, found: found, secrets: c.secrets, servers: c.servers, file: name}
		for _, m := range tools.members {
			c.tools = append(c.tools, b.tool(m))
		}
	}
	lint(c, found)
	return c, found.sorted()
}
