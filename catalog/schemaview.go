package catalog

import (
	"encoding/json"
	"strings"
)

// A property is a member that a schema speaks of.
type property struct {
	path     string // JSON Pointer, with * for elements of arrays
	name     string
	at       Position
	node     *node
	required bool // wherever the object that holds it is
}

// A view looks at a schema without any arguments. It follows references into
// the schema itself, and gives up quietly on what is too large.
type view struct {
	root  *node
	steps int
}

const maxSteps = 20_000

func (s *schema) view() *view { return &view{root: s.node} }

// parts calls f for n and for the schemas that apply to the same value, with
// whether they certainly do.
func (v *view) parts(n *node, sure bool, depth int, f func(n *node, sure bool)) {
	if v.steps++; n == nil || n.kind != kindMap || depth > 16 || v.steps > maxSteps {
		return
	}
	f(n, sure)
	if ref := n.get("$ref").str(); ref != "" {
		v.parts(v.resolve(ref), sure, depth+1, f)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		if list := n.get(key); list != nil {
			for _, kid := range list.list {
				v.parts(kid, sure && key == "allOf", depth+1, f)
			}
		}
	}
	for _, key := range []string{"if", "then", "else"} {
		v.parts(n.get(key), false, depth+1, f)
	}
}

func (v *view) resolve(ref string) *node {
	if ref == "#" {
		return v.root
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	n := v.root
	for _, t := range strings.Split(path, "/") {
		n = n.get(strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~"))
		if n == nil {
			return nil
		}
	}
	return n
}

// properties returns the members of the object that n describes.
func (v *view) properties(n *node) []property {
	var list []property
	index := map[string]int{}
	required := map[string]bool{}
	v.parts(n, true, 0, func(n *node, sure bool) {
		if p := n.get("properties"); p != nil {
			for _, m := range p.members {
				if _, dup := index[m.name]; !dup {
					index[m.name] = len(list)
					list = append(list, property{name: m.name, at: m.at, node: m.value})
				}
			}
		}
		if r := n.get("required"); r != nil && sure {
			for _, e := range r.list {
				required[e.str()] = true
			}
		}
	})
	for i := range list {
		list[i].required = required[list[i].name]
	}
	return list
}

// open reports whether the object or array that n describes may have members
// or elements that the schema does not name.
func (v *view) open(n *node) bool {
	open, named := false, v.closed(n)
	v.parts(n, true, 0, func(n *node, _ bool) {
		for _, m := range n.members {
			switch m.name {
			case "properties":
				named = named || len(m.value.members) > 0
			case "patternProperties", "$dynamicRef", "items", "prefixItems":
				open = true
			case "additionalProperties", "unevaluatedProperties":
				open = open || m.value.kind != kindBool || m.value.text == "true"
			case "$ref":
				open = open || v.resolve(m.value.str()) == nil
			}
		}
	})
	return open || !named
}

// closed reports whether the object that n describes certainly has no other
// members than the schema names.
func (v *view) closed(n *node) bool {
	closed := false
	v.parts(n, true, 0, func(n *node, sure bool) {
		for _, name := range []string{"additionalProperties", "unevaluatedProperties"} {
			if a := n.get(name); sure && a != nil && a.kind == kindBool && a.text == "false" {
				closed = true
			}
		}
	})
	return closed
}

// elements returns the schema of an array's elements, or nil.
func (v *view) elements(n *node) *node {
	var found *node
	v.parts(n, true, 0, func(n *node, _ bool) {
		if e := n.get("items"); e != nil && e.kind == kindMap && found == nil {
			found = e
		}
	})
	return found
}

type presence int

const (
	presenceUnknown presence = iota // the schema does not say
	absent
	present
)

// find follows a JSON Pointer; * stands for every element or member. required
// says that every valid value has it.
func (v *view) find(tokens []string) (is presence, required bool) {
	n, required := v.root, true
	for _, t := range tokens {
		var next *node
		for _, p := range v.properties(n) {
			if p.name == t {
				next, required = p.node, required && p.required
			}
		}
		if next == nil {
			required = false
			if e := v.elements(n); e != nil && (t == "*" || strings.Trim(t, "0123456789") == "") {
				n = e
				continue
			}
			if t == "*" || v.open(n) {
				return presenceUnknown, false
			}
			return absent, false
		}
		n = next
	}
	return present, required
}

// each calls f for every property the schema names, however deep.
func (v *view) each(f func(p property)) { v.below(v.root, "", 0, f) }

func (v *view) below(n *node, path string, depth int, f func(p property)) {
	if depth > 8 || v.steps > maxSteps {
		return
	}
	for _, p := range v.properties(n) {
		p.path = path + "/" + escapeToken(p.name)
		f(p)
		v.below(p.node, p.path, depth+1, f)
	}
	if e := v.elements(n); e != nil {
		v.below(e, path+"/*", depth+1, f)
	}
}

// defaults collects the schema's defaults by JSON Pointer. A member that is
// called * cannot be pointed to and is left out.
func (s *schema) defaults(into map[string]json.RawMessage) {
	s.view().each(func(p property) {
		if d := p.node.get("default"); d != nil && p.name != "*" {
			into[p.path] = d.json()
		}
	})
}

// names returns the members that the schema names at a place.
func (s *schema) names(tokens []string) []string {
	if s == nil {
		return nil
	}
	v := s.view()
	var names []string
	for _, p := range v.properties(v.descend(tokens)) {
		names = append(names, p.name)
	}
	return names
}

// descend returns the schema of what tokens point to, or nil.
func (v *view) descend(tokens []string) *node {
	n := v.root
	for _, t := range tokens {
		next := v.elements(n)
		for _, p := range v.properties(n) {
			if p.name == t {
				next = p.node
			}
		}
		if n = next; n == nil {
			return nil
		}
	}
	return n
}
