package catalog

import (
	"embed"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// A Preset is what is known of a provider's endpoint, for tools to start from.
// Its windows and limits are as old as AsOf says: providers change them.
type Preset struct {
	Name    string // as in stripe/charge
	Summary string
	Source  string // where its window and limits were read
	AsOf    string // when, as 2006-01-02
	KeyMax  int    // longest idempotency key the provider takes; 0: it takes none

	tool *node
}

//go:embed presets/*.yaml
var presetFiles embed.FS

type presetFile struct {
	Source  string                 `json:"source"`
	AsOf    string                 `json:"as_of"`
	Presets map[string]presetEntry `json:"presets"`
}

type presetEntry struct {
	Summary string `json:"summary"`
	Source  string `json:"source"`
	KeyMax  int    `json:"key_max"`
	Tool    *node  `json:"tool"`
}

// presets reads the embedded files, once. A mistake in them is a mistake in the
// program, which its tests find.
var presets = sync.OnceValue(func() []Preset {
	var list []Preset
	names, err := fs.Glob(presetFiles, "presets/*.yaml")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		data, err := presetFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		root, err := parseYAML(name, data, DefaultMaxBytes)
		if err != nil {
			panic(err)
		}
		var f presetFile
		found := &findings{}
		(&decoder{findings: found}).decode(root, reflect.ValueOf(&f).Elem(), "the file")
		if len(found.list) > 0 {
			panic(found.list[0].String())
		}
		family := strings.TrimSuffix(strings.TrimPrefix(name, "presets/"), ".yaml")
		for n, e := range f.Presets {
			p := Preset{Name: family + "/" + n, Summary: e.Summary, Source: f.Source, AsOf: f.AsOf, KeyMax: e.KeyMax, tool: e.Tool}
			if e.Source != "" {
				p.Source = e.Source
			}
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Preset) int { return strings.Compare(a.Name, b.Name) })
	return list
})

// Presets returns all presets by name.
func Presets() []Preset { return slices.Clone(presets()) }

// usePreset puts the tool's fields over those of its preset, if it names one;
// false if there is none of that name.
func (b *builder) usePreset(t *tool) bool {
	m := t.node.member("preset")
	if m == nil || m.value.kind == kindNull {
		return true
	}
	var names []string
	for i, p := range presets() {
		names = append(names, p.Name)
		if m.value.str() == p.Name {
			t.preset = &presets()[i]
		}
	}
	if t.preset == nil {
		b.found.add("preset-unknown", m.value.at, t.name, suggest(m.value.str(), names), "there is no such preset")
		return false
	}
	base := *t.preset.tool.moved(m.value.at)
	over := t.node
	var kinds []string
	for _, f := range over.members {
		if b.isConnector(f.name) && f.value.kind != kindNull {
			kinds = append(kinds, f.name)
		}
	}
	base.members = slices.DeleteFunc(slices.Clone(base.members), func(f member) bool {
		// Another connector, or another schema, replaces the preset's.
		return len(kinds) > 0 && b.isConnector(f.name) && !slices.Contains(kinds, f.name) ||
			f.name == "schema" && (over.get("schema") != nil || over.get("schema_file") != nil)
	})
	t.node = merge(&base, over)
	return true
}

// moved returns a copy of n that stands at one place: what is found in a
// preset is found where it is used.
func (n *node) moved(at Position) *node {
	c := *n
	c.at = at
	c.list, c.members = slices.Clone(n.list), slices.Clone(n.members)
	for i := range c.list {
		c.list[i] = c.list[i].moved(at)
	}
	for i, m := range c.members {
		c.members[i] = member{m.name, at, m.value.moved(at)}
	}
	return &c
}

// merge puts the members of over on those of base, mappings member by member.
// Null takes a member away.
func merge(base, over *node) *node {
	if over.kind != kindMap || base.kind != kindMap {
		return over
	}
	out := &node{kind: kindMap, at: over.at, size: base.size + over.size}
	for _, m := range base.members {
		if over.member(m.name) == nil {
			out.members = append(out.members, m)
		}
	}
	for _, m := range over.members {
		old := base.get(m.name)
		switch {
		case m.value.kind == kindNull && old != nil:
		case old != nil:
			out.members = append(out.members, member{m.name, m.at, merge(old, m.value)})
		default:
			out.members = append(out.members, m)
		}
	}
	return out
}
