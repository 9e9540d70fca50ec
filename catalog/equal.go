package catalog

import (
	"encoding/json"
	"strings"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/canon"
	"golang.org/x/text/unicode/norm"
)

// equality reads what makes arguments equal, and has the core's own rules look
// at all pointers together.
func (b *builder) equality(t *tool, d *decoder) {
	q := &t.spec.Equal
	lists := [4][]pointerAt{}
	for i, l := range []struct {
		n    *node
		name string
	}{{q.Sets, "equal.sets"}, {q.Instants, "equal.instants"}, {q.Text, "equal.text"}, {q.NullIsAbsent, "equal.null_is_absent"}} {
		lists[i] = d.pointers(l.n, l.name)
		t.pointers = append(t.pointers, lists[i]...)
	}
	e := &justonce.Equality{Sets: texts(lists[0]), Instants: texts(lists[1]), Text: texts(lists[2]),
		NullIsAbsent: texts(lists[3]), Defaults: map[string]json.RawMessage{}, Normalize: norm.NFC.Bytes}
	if q.UseSchemaDefaults {
		if t.schema == nil {
			d.findings.add("value", t.place("equal", "use_schema_defaults"), t.name, "", "equal.use_schema_defaults: the tool has no schema")
		} else {
			t.schema.defaults(e.Defaults)
		}
	}
	for p, v := range q.Defaults {
		for _, at := range d.pointers(&node{kind: kindText, text: p, at: t.place("equal", "defaults", p)}, "equal.defaults") {
			e.Defaults[at.text] = v.json()
			t.pointers = append(t.pointers, at)
		}
	}
	if len(e.Sets)+len(e.Instants)+len(e.Text)+len(e.NullIsAbsent)+len(e.Defaults) > 0 {
		t.equal = e
	}
	if err := t.canonical().Check(); err != nil {
		at := t.place("equal")
		if t.node.member("equal") == nil {
			at = t.place("ignore")
		}
		d.findings.add("value", at, t.name, "", "%s", strings.TrimPrefix(err.Error(), "canonical form: options: "))
	}
}

func (t *tool) canonical() *canon.Options {
	o := &canon.Options{}
	for _, p := range t.ignore {
		o.Ignore = append(o.Ignore, p.tokens)
	}
	e := t.equal
	if e == nil {
		return o
	}
	add := func(dst *[]canon.Pointer, src []string) {
		for _, s := range src {
			p, _ := canon.ParsePointer(s) // it was parsed before
			*dst = append(*dst, p)
		}
	}
	add(&o.Sets, e.Sets)
	add(&o.Instants, e.Instants)
	add(&o.NFC, e.Text)
	add(&o.NullIsAbsent, e.NullIsAbsent)
	o.Normalize = e.Normalize
	for s, v := range e.Defaults {
		p, _ := canon.ParsePointer(s)
		o.Defaults = append(o.Defaults, canon.Default{Pointer: p, Value: v})
	}
	return o
}
