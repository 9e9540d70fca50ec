package celexpr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
)

// A Tree is a JSON-like structure whose strings are templates. It may be used
// from many goroutines.
//
// A string that is one placeholder becomes the value itself, of any type; a
// member or element whose only placeholder is absent (args.?note) is left out.
// Any other string becomes text. Member names are literal.
type Tree struct {
	kids  []branch  // of an object, sorted by name, or of an array
	shape byte      // '{', '[', 't' template, 'l' literal
	text  *Template // of 't'
	lit   json.RawMessage
}

type branch struct {
	name string
	tree *Tree
}

// Tree compiles a structure of map[string]any, []any, strings, numbers, bools
// and nil.
func (e *Env) Tree(v any) (*Tree, error) {
	switch v := v.(type) {
	case string:
		t, err := e.Template(v)
		return &Tree{shape: 't', text: t}, err
	case map[string]any:
		out := &Tree{shape: '{'}
		for name, kid := range v {
			t, err := e.Tree(kid)
			if err != nil {
				return nil, fmt.Errorf("/%s: %w", name, err)
			}
			out.kids = append(out.kids, branch{name, t})
		}
		sort.Slice(out.kids, func(i, j int) bool { return out.kids[i].name < out.kids[j].name })
		return out, nil
	case []any:
		out := &Tree{shape: '['}
		for i, kid := range v {
			t, err := e.Tree(kid)
			if err != nil {
				return nil, fmt.Errorf("/%d: %w", i, err)
			}
			out.kids = append(out.kids, branch{tree: t})
		}
		return out, nil
	}
	lit, err := json.Marshal(v)
	return &Tree{shape: 'l', lit: lit}, err
}

// Walk calls f for every template of t.
func (t *Tree) Walk(f func(*Template)) {
	if t.text != nil {
		f(t.text)
	}
	for _, k := range t.kids {
		k.tree.Walk(f)
	}
}

// JSON fills in the placeholders; the bytes depend on nothing but the
// variables and secrets.
func (t *Tree) JSON(v Vars, secrets map[string]string) (json.RawMessage, error) {
	var b bytes.Buffer
	ok, err := t.write(&b, v, secrets)
	if err == nil && !ok {
		b.WriteString("null")
	}
	return b.Bytes(), err
}

func (t *Tree) write(b *bytes.Buffer, v Vars, secrets map[string]string) (bool, error) {
	switch t.shape {
	case 'l':
		b.Write(t.lit)
	case 't':
		if x := t.text.lone(); x != nil {
			r, err := x.Eval(v)
			if err != nil || r.Absent() {
				return false, err
			}
			return true, encode(b, r.inner(), 0)
		}
		s, _, err := t.text.Text(v, secrets, nil)
		if err != nil {
			return false, err
		}
		writeString(b, s)
	default:
		b.WriteByte(t.shape)
		sep := false
		for _, k := range t.kids {
			mark := b.Len()
			if sep {
				b.WriteByte(',')
			}
			if t.shape == '{' {
				writeString(b, k.name)
				b.WriteByte(':')
			}
			ok, err := k.tree.write(b, v, secrets)
			if err != nil {
				return false, err
			}
			if !ok {
				b.Truncate(mark)
				continue
			}
			sep = true
		}
		b.WriteByte(t.shape + 2) // '{'+2 is '}', '['+2 is ']'
	}
	return true, nil
}
