package catalog

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// value turns the parser's tree into nodes.
func (r *yamlReader) value(v ast.Node, depth int) (*node, error) {
	if depth > maxNesting {
		return nil, r.errorf(r.at(v.GetToken()), "it is nested more than %d levels deep", maxNesting)
	}
	n := &node{at: r.at(v.GetToken()), size: 1}
	switch v := v.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.kind, n.text = kindBool, fmt.Sprint(v.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		return n, r.number(n, v.GetToken().Value)
	case *ast.InfinityNode, *ast.NanNode:
		return nil, r.errorf(n.at, "the number is not finite")
	case *ast.StringNode:
		n.kind, n.text = kindText, v.Value
	case *ast.LiteralNode:
		n.kind, n.text = kindText, v.Value.Value
	case *ast.AnchorNode:
		name := v.Name.GetToken().Value
		r.anchors[name] = nil
		kid, err := r.value(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		r.anchors[name] = kid
		return kid, nil
	case *ast.AliasNode:
		name := v.Value.GetToken().Value
		kid, ok := r.anchors[name]
		switch {
		case !ok:
			return nil, r.errorf(n.at, "there is no anchor of that name above")
		case kid == nil:
			return nil, r.errorf(n.at, "the alias contains itself")
		}
		return kid, nil
	case *ast.SequenceNode:
		n.kind = kindList
		for _, e := range v.Values {
			kid, err := r.value(e, depth+1)
			if err != nil {
				return nil, err
			}
			n.list = append(n.list, kid)
			if n.size += kid.size; n.size > maxNodes {
				return nil, r.errorf(n.at, "the file has more than %d values", maxNodes)
			}
		}
	case *ast.MappingNode:
		return n, r.mapping(n, v.Values, depth)
	case *ast.MappingValueNode:
		return n, r.mapping(n, []*ast.MappingValueNode{v}, depth)
	default:
		return nil, r.errorf(n.at, "this kind of YAML is not supported here")
	}
	return n, nil
}

func (r *yamlReader) mapping(n *node, values []*ast.MappingValueNode, depth int) error {
	n.kind = kindMap
	if len(values) > 0 {
		n.at = r.at(values[0].Key.GetToken())
	}
	seen := make(map[string]Position, len(values))
	var merged []*node
	for _, v := range values {
		at := r.at(v.Key.GetToken())
		kid, err := r.value(v.Value, depth+1)
		if err != nil {
			return err
		}
		if n.size += kid.size; n.size > maxNodes {
			return r.errorf(at, "the file has more than %d values", maxNodes)
		}
		if v.Key.IsMergeKey() {
			merged = append(merged, kid)
			continue
		}
		name, err := r.key(v.Key)
		if err != nil {
			return err
		}
		if first, dup := seen[name]; dup {
			return r.errorf(at, "the key %s stands here twice; the first is in line %d", name, first.Line)
		}
		seen[name] = at
		n.members = append(n.members, member{name, at, kid})
	}
	// What << brings in gives way to what is written out.
	for len(merged) > 0 {
		m := merged[0]
		merged = merged[1:]
		switch m.kind {
		case kindList:
			if len(merged)+len(m.list) > maxMarks {
				return r.errorf(m.at, "too much is merged")
			}
			merged = append(append([]*node(nil), m.list...), merged...)
		case kindMap:
			for _, kid := range m.members {
				if _, dup := seen[kid.name]; !dup {
					seen[kid.name] = kid.at
					n.members = append(n.members, kid)
				}
			}
		default:
			return r.errorf(m.at, "<< takes a mapping, or a list of them")
		}
	}
	return nil
}

func (r *yamlReader) key(k ast.MapKeyNode) (string, error) {
	var v ast.Node = k
	if e, ok := v.(*ast.MappingKeyNode); ok {
		v = e.Value
	}
	switch v := v.(type) {
	case *ast.StringNode:
		return v.Value, nil
	case *ast.LiteralNode:
		return v.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return v.GetToken().Value, nil
	}
	return "", r.errorf(r.at(k.GetToken()), "a key must be text")
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$`)

// number keeps every digit.
func (r *yamlReader) number(n *node, text string) error {
	n.kind = kindNumber
	if jsonNumber.MatchString(text) {
		n.text = text
		return nil
	}
	if len(text) <= 100 {
		if i, ok := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 0); ok && !strings.HasPrefix(strings.TrimLeft(text, "+-"), "00") {
			n.text = i.String()
			return nil
		}
		if s := strings.TrimPrefix(text, "+"); jsonNumber.MatchString(s) {
			n.text = s
			return nil
		}
	}
	return r.errorf(n.at, "write the number as in JSON, or quote it")
}
