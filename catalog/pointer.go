package catalog

import (
	"strings"

	"github.com/justonce-dev/justonce/internal/canon"
)

func escapeToken(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// pointersOf reads a list of JSON Pointers; what is none is found.
func (d *decoder) pointers(n *node, what string) []pointerAt {
	if n == nil || n.kind == kindNull {
		return nil
	}
	list := n.list
	if n.kind == kindText { // one needs no list
		list = []*node{n}
	} else if n.kind != kindList {
		d.bad(n, "%s: it must be a list of JSON Pointers such as /order_id", what)
		return nil
	}
	var out []pointerAt
	seen := map[string]bool{}
	for _, e := range list {
		if e.kind != kindText {
			d.bad(e, "%s: it must be a JSON Pointer such as /order_id", what)
			continue
		}
		p, err := canon.ParsePointer(e.text)
		switch {
		case err != nil:
			hint := ""
			if !strings.HasPrefix(e.text, "/") && !strings.HasPrefix(e.text, "#") {
				hint = "write /" + strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(e.text, "$"), "."), ".", "/")
			}
			d.findings.add("value", e.at, d.tool, hint, "%s: %v", what, err)
			continue
		case len(p) == 0:
			d.bad(e, "%s: a pointer to the whole of the arguments makes no sense here", what)
			continue
		case what == "identity" && (strings.Contains(e.text, "/*/") || strings.HasSuffix(e.text, "/*")):
			d.findings.add("value", e.at, d.tool, "name one element, such as /lines/0/sku, or the list as a whole", "identity: * stands for several values, and an identity is one")
			continue
		case seen[e.text]:
			d.bad(e, "%s: it lists %s twice", what, e.text)
			continue
		}
		seen[e.text] = true
		out = append(out, pointerAt{e.text, p, e.at})
	}
	return out
}

// A pointerAt is a JSON Pointer with its place in the file.
type pointerAt struct {
	text   string
	tokens canon.Pointer
	at     Position
}

// covers reports whether removing what p stands for removes what q stands for.
func (p pointerAt) covers(q pointerAt) bool {
	if len(p.tokens) > len(q.tokens) {
		return false
	}
	for i, t := range p.tokens {
		if t != "*" && t != q.tokens[i] {
			return false
		}
	}
	return true
}

func texts(list []pointerAt) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.text)
	}
	return out
}
