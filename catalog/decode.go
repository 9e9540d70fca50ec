package catalog

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A decoder fills Go values from nodes. Members are matched with json tags,
// exactly; what does not fit is found at its place. It quotes no values.
type decoder struct {
	findings *findings
	tool     string
}

func (d *decoder) bad(n *node, format string, a ...any) {
	d.findings.add("value", n.at, d.tool, "", format, a...)
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	nodeType     = reflect.TypeFor[*node]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decode fills v, which must be settable; what names it in messages. Null
// leaves v as it is.
func (d *decoder) decode(n *node, v reflect.Value, what string) {
	if v.Type() == nodeType {
		v.Set(reflect.ValueOf(n))
		return
	}
	if v.Type() == rawType {
		v.SetBytes(n.json())
		return
	}
	if n.kind == kindNull {
		return
	}
	if v.Type() == durationType {
		if t, err := parseDuration(n); err != nil {
			d.bad(n, "%s: %v", what, err)
		} else {
			v.SetInt(int64(t))
		}
		return
	}
	if v.CanAddr() && v.Addr().Type().Implements(textType) {
		if n.kind != kindText {
			d.bad(n, "%s: it must be text, not %s", what, n.kind)
		} else if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.text)); err != nil {
			d.bad(n, "%s: %v", what, err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.decode(n, p.Elem(), what)
		v.Set(p)
	case reflect.Interface:
		if p := n.plain(); p != nil && v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(p))
		}
	case reflect.Struct:
		d.object(n, v, what)
	case reflect.Map:
		d.mapping(n, v, what)
	case reflect.Slice:
		if n.kind != kindList {
			d.bad(n, "%s: it must be a list, not %s", what, n.kind)
			return
		}
		s := reflect.MakeSlice(v.Type(), len(n.list), len(n.list))
		for i, e := range n.list {
			d.decode(e, s.Index(i), what+"["+strconv.Itoa(i)+"]")
		}
		v.Set(s)
	default:
		d.scalar(n, v, what)
	}
}

func (d *decoder) mapping(n *node, v reflect.Value, what string) {
	if n.kind != kindMap {
		d.bad(n, "%s: it must be a mapping, not %s", what, n.kind)
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(n.members))
	for _, e := range n.members {
		p := reflect.New(v.Type().Elem()).Elem()
		if e.value.kind == kindNull && p.Kind() == reflect.String {
			d.bad(e.value, "%s.%s: it has no value", what, e.name)
			continue
		}
		d.decode(e.value, p, what+"."+e.name)
		m.SetMapIndex(reflect.ValueOf(e.name).Convert(v.Type().Key()), p)
	}
	v.Set(m)
}

func (d *decoder) object(n *node, v reflect.Value, what string) {
	if n.kind != kindMap {
		d.bad(n, "%s: it must be a mapping, not %s", what, n.kind)
		return
	}
	fields := fieldsOf(v.Type())
	for _, m := range n.members {
		i, ok := fields[m.name]
		if !ok {
			names := make([]string, 0, len(fields))
			for name := range fields {
				names = append(names, name)
			}
			d.findings.add("unknown-field", m.at, d.tool, suggest(m.name, names), "%s has no field %s", what, m.name)
			continue
		}
		d.decode(m.value, v.FieldByIndex(i), m.name)
	}
}

// fieldsOf maps the names of a struct's members to its fields. Embedded structs
// without a tag count as their fields.
func fieldsOf(t reflect.Type) map[string][]int {
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-" || !f.IsExported():
		case f.Anonymous && tag == "":
		case tag == "":
			fields[f.Name] = f.Index
		default:
			fields[tag] = f.Index
		}
	}
	return fields
}

func (d *decoder) scalar(n *node, v reflect.Value, what string) {
	wrong := func(want string) { d.bad(n, "%s: it must be %s, not %s", what, want, n.kind) }
	switch v.Kind() {
	case reflect.String:
		switch n.kind {
		case kindText:
			v.SetString(n.text)
		case kindNumber, kindBool:
			d.findings.add("value", n.at, d.tool, "put it in quotes", "%s: it must be text, not %s", what, n.kind)
		default:
			wrong("text")
		}
	case reflect.Bool:
		if n.kind != kindBool {
			wrong("true or false")
			return
		}
		v.SetBool(n.text == "true")
	case reflect.Int64, reflect.Int, reflect.Int32:
		i, err := parseSize(n, v.Kind() == reflect.Int64)
		if err != nil || v.OverflowInt(i) {
			wrong("a whole number")
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.text, 64)
		if n.kind != kindNumber || err != nil {
			wrong("a number")
			return
		}
		v.SetFloat(f)
	default:
		d.bad(n, "%s: it cannot be set here", what)
	}
}
