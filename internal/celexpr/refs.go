package celexpr

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// A Ref is what an expression names: a variable, and as much of the way below
// it as is literal.
type Ref struct {
	Path     []string // args, lines, *, sku; * is any element or member
	Optional bool     // the expression copes where it is absent
}

// grammar parses without knowing any variables.
var grammar = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.OptionalTypes(), ext.Strings(), ext.Encoders(), cel.ParserExpressionSizeLimit(MaxSource))
})

// Refs returns what an expression names, in its order. One that does not parse
// names nothing.
func Refs(source string) []Ref {
	env, err := grammar()
	if err != nil {
		return nil
	}
	parsed, iss := env.Parse(source)
	if iss.Err() != nil {
		return nil
	}
	r := refs{}
	r.expr(parsed.NativeRep().Expr(), nil)
	return r.list
}

// TemplateRefs returns what the placeholders of a template name.
func TemplateRefs(source string) []Ref {
	pieces, err := split(source)
	if err != nil {
		return nil
	}
	var list []Ref
	for _, p := range pieces {
		if p.code && !strings.HasPrefix(p.text, "secret:") {
			list = append(list, Refs(p.text)...)
		}
	}
	return list
}

// EachRef calls visit for all that the strings of v name, by its JSON: the
// strings for which expression says so are expressions, the others templates.
// At is the JSON Pointer of the string.
func EachRef(v any, expression func(at string) bool, visit func(at string, r Ref)) {
	data, err := json.Marshal(v)
	if err != nil {
		return
	}
	var plain any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&plain) == nil {
		eachRef(plain, "", expression, visit)
	}
}

var pointerToken = strings.NewReplacer("~", "~0", "/", "~1")

func eachRef(v any, at string, expression func(at string) bool, visit func(at string, r Ref)) {
	switch v := v.(type) {
	case string:
		of := TemplateRefs
		if expression(at) {
			of = Refs
		}
		for _, r := range of(v) {
			visit(at, r)
		}
	case []any:
		for i, e := range v {
			eachRef(e, at+"/"+strconv.Itoa(i), expression, visit)
		}
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			eachRef(v[name], at+"/"+pointerToken.Replace(name), expression, visit)
		}
	}
}

type refs struct{ list []Ref }

// A scope holds the variables of macros, innermost first: each stands for a
// place below another variable, or, without a path, for something else.
type scope struct {
	name  string
	path  []string
	outer *scope
}

func (s *scope) with(name string, path []string) *scope { return &scope{name, path, s} }

// expr collects what e names.
func (r *refs) expr(e ast.Expr, in *scope) {
	if ref, ok := r.place(e, in); ok {
		if ref.Path != nil {
			r.list = append(r.list, ref)
		}
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		r.expr(e.AsSelect().Operand(), in)
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			r.expr(c.Target(), in)
		}
		for _, a := range c.Args() {
			r.expr(a, in)
		}
	case ast.ListKind:
		for _, v := range e.AsList().Elements() {
			r.expr(v, in)
		}
	case ast.MapKind:
		for _, m := range e.AsMap().Entries() {
			r.expr(m.AsMapEntry().Key(), in)
			r.expr(m.AsMapEntry().Value(), in)
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			r.expr(f.AsStructField().Value(), in)
		}
	case ast.ComprehensionKind:
		r.comprehension(e.AsComprehension(), in)
	}
}

func (r *refs) comprehension(c ast.ComprehensionExpr, in *scope) {
	r.expr(c.IterRange(), in)
	r.expr(c.AccuInit(), in)
	var element []string
	if over, ok := (&refs{}).place(c.IterRange(), in); ok && over.Path != nil {
		element = append(slices.Clone(over.Path), "*")
	}
	inner := in.with(c.IterVar(), element)
	if c.HasIterVar2() { // the first is the index then
		inner = in.with(c.IterVar(), nil).with(c.IterVar2(), element)
	}
	inner = inner.with(c.AccuVar(), nil)
	r.expr(c.LoopCondition(), inner)
	r.expr(c.LoopStep(), inner)
	r.expr(c.Result(), inner)
}

// place returns the way that e spells, if it is one; what stands in brackets on
// it is collected.
func (r *refs) place(e ast.Expr, in *scope) (Ref, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		for s := in; s != nil; s = s.outer {
			if s.name == e.AsIdent() {
				return Ref{Path: s.path}, true
			}
		}
		return Ref{Path: []string{strings.TrimPrefix(e.AsIdent(), ".")}}, true
	case ast.SelectKind:
		s := e.AsSelect()
		ref, ok := r.place(s.Operand(), in)
		return ref.below(s.FieldName(), s.IsTestOnly()), ok
	case ast.CallKind:
		c := e.AsCall()
		name := c.FunctionName()
		if len(c.Args()) != 2 || name != operators.Index && name != operators.OptIndex && name != operators.OptSelect {
			return Ref{}, false
		}
		ref, ok := r.place(c.Args()[0], in)
		if !ok {
			return Ref{}, false
		}
		return ref.below(r.index(c.Args()[1], in), name != operators.Index), true
	}
	return Ref{}, false
}

func (r *refs) index(e ast.Expr, in *scope) string {
	if e.Kind() == ast.LiteralKind {
		if s, ok := e.AsLiteral().(types.String); ok {
			return string(s)
		}
		return "*"
	}
	r.expr(e, in)
	return "*"
}

func (r Ref) below(name string, optional bool) Ref {
	if r.Path == nil {
		return r
	}
	return Ref{append(slices.Clone(r.Path), name), r.Optional || optional}
}
