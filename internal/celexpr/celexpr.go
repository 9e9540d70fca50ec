// Package celexpr compiles the CEL expressions and the text templates of
// declarative tools, and turns JSON into CEL values and back without losing
// digits.
//
// Evaluation is deterministic: maps are iterated by sorted key, and there is
// neither a clock nor a random source, so that the same variables give the
// same bytes for every attempt. It is bounded in cost.
package celexpr

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// MaxCost bounds one evaluation, in CEL's cost units (roughly one for each
// step and each element looked at).
const MaxCost = 1_000_000

// MaxSource bounds the length of one expression.
const MaxSource = 16 << 10

// A Kind is the type of a variable.
type Kind int

// The kinds of variables.
const (
	Any     Kind = iota // any JSON
	Text                // a string
	Int                 // an integer
	Time                // a timestamp
	TextMap             // a map from strings to strings
)

func (k Kind) cel() *cel.Type {
	switch k {
	case Text:
		return cel.StringType
	case Int:
		return cel.IntType
	case Time:
		return cel.TimestampType
	case TextMap:
		return cel.MapType(cel.StringType, cel.StringType)
	}
	return cel.DynType
}

// An Env knows the variables that expressions may use. It is immutable.
type Env struct{ env *cel.Env }

// NewEnv returns an environment with the variables, the functions of CEL, its
// optional types, the string and base64 extensions, and
//
//	uuid(string)   the string's first 128 bits, or those of its SHA-256 where
//	               it is not 32 hex digits, in the shape of a version 4 UUID
func NewEnv(vars map[string]Kind) (*Env, error) {
	opts := []cel.EnvOption{
		cel.OptionalTypes(), ext.Strings(), ext.Encoders(), cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxSource), cel.DefaultUTCTimeZone(true),
		cel.Function("uuid", cel.Overload("uuid_string", []*cel.Type{cel.StringType}, cel.StringType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return types.String(UUID(string(v.(types.String)))) }))),
	}
	for name, kind := range vars {
		opts = append(opts, cel.Variable(name, kind.cel()))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, err
	}
	return &Env{env}, nil
}

var hex128 = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)

// UUID returns s, or its SHA-256 where it is not 32 hex digits, in the shape
// of a version 4 UUID.
func UUID(s string) string {
	b := make([]byte, 0, 32)
	if hex128.MatchString(s) {
		b, _ = hex.DecodeString(s)
	} else {
		h := sha256.Sum256([]byte(s))
		b = append(b, h[:16]...)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Vars are the values of variables by name: strings, ints, time.Time,
// map[string]string, or what [Value] returned.
type Vars map[string]any

// An Expr is a compiled expression. It may be used from many goroutines.
type Expr struct {
	source  string
	program cel.Program
	idents  map[string]bool
}

// Compile compiles an expression of any type.
func (e *Env) Compile(source string) (*Expr, error) { return e.compile(source, false) }

// CompileBool compiles an expression that says yes or no.
func (e *Env) CompileBool(source string) (*Expr, error) { return e.compile(source, true) }

func (e *Env) compile(source string, wantBool bool) (*Expr, error) {
	ast, iss := e.env.Compile(source)
	if err := iss.Err(); err != nil {
		return nil, fmt.Errorf("expression %q: %w", source, err)
	}
	if t := ast.OutputType(); wantBool && !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("expression %q gives %s, not true or false", source, t)
	}
	p, err := e.env.Program(ast, cel.CostLimit(MaxCost))
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", source, err)
	}
	x := &Expr{source: source, program: p, idents: map[string]bool{}}
	for _, r := range ast.NativeRep().ReferenceMap() {
		if r.Name != "" {
			x.idents[r.Name] = true
		}
	}
	return x, nil
}

// Uses reports whether the expression names the variable.
func (x *Expr) Uses(name string) bool { return x != nil && x.idents[name] }

func (x *Expr) String() string { return x.source }

// ErrNotBool is the error of a condition that gave something else.
var ErrNotBool = errors.New("the expression gave neither true nor false")

// Eval evaluates x. The error names the expression; it quotes no values but
// the names of absent members.
func (x *Expr) Eval(v Vars) (Result, error) {
	out, _, err := x.program.Eval(map[string]any(v))
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", x.source, err)
	}
	return Result{out}, nil
}

// Bool evaluates a condition.
func (x *Expr) Bool(v Vars) (bool, error) {
	r, err := x.Eval(v)
	if err != nil {
		return false, err
	}
	b, ok := r.val.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%s: %w", x.source, ErrNotBool)
	}
	return bool(b), nil
}
