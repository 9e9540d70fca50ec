package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// A Position is a place in a file. Lines and columns count from 1; a zero Line
// means the file as a whole.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindList
	kindMap
)

var kindNames = [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}

func (k kind) String() string { return kindNames[k] }

// A node is a value of a file, with its place. Nodes are shared between aliases
// and never changed.
type node struct {
	kind    kind
	text    string // of text; of a number its JSON; "true" or "false"
	list    []*node
	members []member // in the order of the file
	at      Position
	size    int // nodes below and with it, aliases counted each time
}

type member struct {
	name  string
	at    Position
	value *node
}

// get returns the member's value, or nil.
func (n *node) get(name string) *node {
	if m := n.member(name); m != nil {
		return m.value
	}
	return nil
}

func (n *node) member(name string) *member {
	if n == nil {
		return nil
	}
	for i := range n.members {
		if n.members[i].name == name {
			return &n.members[i]
		}
	}
	return nil
}

// str returns the text of a text node, or "".
func (n *node) str() string {
	if n == nil || n.kind != kindText {
		return ""
	}
	return n.text
}

// json returns the value as JSON, members in the order of the file.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.appendJSON(&b)
	return b.Bytes()
}

func (n *node) appendJSON(b *bytes.Buffer) {
	switch n.kind {
	case kindNull:
		b.WriteString("null")
	case kindBool, kindNumber:
		b.WriteString(n.text)
	case kindText:
		appendString(b, n.text)
	case kindList:
		b.WriteByte('[')
		for i, v := range n.list {
			if i > 0 {
				b.WriteByte(',')
			}
			v.appendJSON(b)
		}
		b.WriteByte(']')
	case kindMap:
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteByte(',')
			}
			appendString(b, m.name)
			b.WriteByte(':')
			m.value.appendJSON(b)
		}
		b.WriteByte('}')
	}
}

func appendString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string it cannot fail
	b.Truncate(b.Len() - 1)
}

// plain returns the value as nil, bool, json.Number, string, []any or
// map[string]any.
func (n *node) plain() any {
	switch n.kind {
	case kindBool:
		return n.text == "true"
	case kindNumber:
		return json.Number(n.text)
	case kindText:
		return n.text
	case kindList:
		list := make([]any, len(n.list))
		for i, v := range n.list {
			list[i] = v.plain()
		}
		return list
	case kindMap:
		m := make(map[string]any, len(n.members))
		for _, v := range n.members {
			m[v.name] = v.value.plain()
		}
		return m
	}
	return nil
}

// walk calls f for n and all below it. path is a JSON Pointer; key the name of
// the member that holds the value, or "".
func (n *node) walk(path, key string, f func(path, key string, n *node)) {
	f(path, key, n)
	for i, v := range n.list {
		v.walk(path+"/"+strconv.Itoa(i), key, f)
	}
	for _, m := range n.members {
		m.value.walk(path+"/"+escapeToken(m.name), m.name, f)
	}
}
