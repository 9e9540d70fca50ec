package canon

import (
	"errors"
	"fmt"
	"strconv"
)

// rules are Options compiled: limits, and the paths as a tree.
type rules struct {
	root                       *node // nil: no rules
	normalize                  func([]byte) []byte
	maxBytes, maxDepth, maxExp int
}

type action uint8

const (
	ignore action = 1 << iota
	set
	instant
	text
	nullAbsent
)

// node is what applies at one place of the document and below. Wildcards have been multiplied out:
// a name's own node already contains what "*" says, so a walk follows exactly one node.
type node struct {
	act    action
	kids   map[string]*node
	star   *node
	fill   []filling
	shifts bool // elements may be removed: canonical indices are not those of the document
}

// filling is an absent member, ready to be appended.
type filling struct {
	name   string // unescaped
	member []byte // "name":value in canonical form
	quoted int    // length of the quoted name in member
	simple bool
}

func (n *node) has(a action) bool { return n != nil && n.act&a != 0 }

// member gives the node for a member's unescaped name, nil if there is none.
func (n *node) member(name []byte) *node {
	if k, ok := n.kids[string(name)]; ok {
		return k
	}
	return n.star
}

// element gives the node for an array index, nil if there is none.
func (n *node) element(i int) *node {
	if len(n.kids) == 0 {
		return n.star
	}
	var buf [20]byte
	return n.member(strconv.AppendInt(buf[:0], int64(i), 10))
}

// pattern is one declared path, or what is left of it on the way down.
type pattern struct {
	path Pointer
	act  action
	fill *Default
}

type builder struct {
	rules *rules
	nodes int
}

// build makes the node for the place where all the patterns have arrived. Children come first,
// because a default is canonicalised by the rules of its own place.
func (b *builder) build(pats []pattern, depth int) (*node, error) {
	// Patterns such as /*/a, /a/* multiply; this keeps a careless configuration from filling memory.
	if b.nodes++; b.nodes > maxNodes {
		return nil, errors.New(`too many overlapping "*" paths: name the members instead`)
	}
	n := &node{}
	names := map[string]bool{}
	for _, p := range pats {
		if len(p.path) == 0 {
			n.act |= p.act
		} else {
			names[p.path[0]] = true
		}
	}
	for name := range names {
		var below []pattern
		for _, p := range pats {
			if len(p.path) > 0 && (p.path[0] == name || p.path[0] == "*") {
				below = append(below, pattern{p.path[1:], p.act, p.fill})
			}
		}
		k, err := b.build(below, depth+1)
		if err != nil {
			return nil, err
		}
		if name == "*" {
			n.star = k
		} else {
			if n.kids == nil {
				n.kids = map[string]*node{}
			}
			n.kids[name] = k
		}
		_, isIndex := parseIndex(name)
		if (name == "*" || isIndex) && k.has(ignore|nullAbsent) {
			n.shifts = true
		}
	}
	for _, p := range pats {
		if len(p.path) == 1 && p.fill != nil {
			if err := b.addFilling(n, p.path[0], p.fill, depth+1); err != nil {
				// Not %w: a SyntaxError means to callers that the document is at fault.
				return nil, fmt.Errorf("default for %q: %v", p.fill.Pointer, err)
			}
		}
	}
	return n, nil
}

// addFilling prepares the default for a member of n. Depth is the nesting around the value.
func (b *builder) addFilling(n *node, name string, d *Default, depth int) error {
	kid := n.kids[name]
	for _, f := range n.fill {
		if f.name == name {
			return nil
		}
	}
	e := encoder{rules: b.rules, depth: depth}
	if err := e.document(d.Value, kid); err != nil {
		return err
	}
	value := e.dst
	// A default that its own rules remove is the same as none.
	if kid.has(ignore) || kid.has(nullAbsent) && string(value) == "null" {
		return nil
	}
	var f filling
	f.name = name
	f.member, f.simple = appendQuoted(nil, []byte(name))
	f.quoted = len(f.member)
	f.member = append(append(f.member, ':'), value...)
	n.fill = append(n.fill, f)
	return nil
}
