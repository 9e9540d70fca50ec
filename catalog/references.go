package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// A Referrer is a connector that tells what the templates and expressions of
// its block name, so that they can be checked. Those of connector/http and
// connector/smtp are. They speak of the variables args, wire_key, key, tool,
// scope, run_id, first_sent, and in what is below /lookup also of reference
// and unknown_at; message_id is a name made of the wire key.
type Referrer interface {
	// References calls visit for each variable that is named. At is the place in
	// the block, a JSON Pointer: what an operation is looked up by is below
	// /lookup, what an answer is judged by below /answer, and the rest is sent.
	// Path is the variable and the members below it, * standing for any. Optional
	// says that it may be absent.
	References(visit func(at string, path []string, optional bool))
}

// A mention is a place where a template or expression names a variable.
type mention struct {
	at       string
	path     []string
	optional bool
}

// maxMentions bounds what is looked at of one tool.
const maxMentions = 2_000

// mentions asks the connector; false if it cannot tell.
func (t *tool) mentions() ([]mention, bool) {
	r, ok := t.connector.(Referrer)
	if !ok {
		return nil, false
	}
	var list []mention
	r.References(func(at string, path []string, optional bool) {
		if len(path) > 0 && len(list) < maxMentions {
			list = append(list, mention{at, path, optional})
		}
	})
	return list, true
}

// below reports whether m stands in a part of the block.
func (m mention) below(parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return m.at == p || strings.HasPrefix(m.at, p+"/") })
}

// names reports whether m names one of the variables.
func (m mention) names(variables ...string) bool { return slices.Contains(variables, m.path[0]) }

// spelled is the path as an expression has it.
func (m mention) spelled() string {
	return strings.Join(m.path, ".")
}

// placeIn returns where a place of the connector's block stands in the file, or
// what holds it there.
func (t *tool) placeIn(pointer string) Position {
	n, at := t.block, t.place(t.kind)
	for _, token := range strings.Split(pointer, "/")[1:] {
		if i, err := strconv.Atoi(token); err == nil && n.kind == kindList && i >= 0 && i < len(n.list) {
			n = n.list[i]
		} else if m := n.member(strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")); m != nil {
			n = m.value
		} else {
			break
		}
		at = n.at
	}
	return at
}
