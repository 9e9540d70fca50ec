package catalog

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	broken "github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A violation is one rule of a schema that a value breaks. It quotes the
// schema, never the value.
type violation struct {
	tokens  []string
	pointer string
	text    string
	types   []string // wanted, of a wrong type
}

// violations returns what is wrong, at least one; s helps with names, and may
// be nil.
func violations(e *jsonschema.ValidationError, s *schema) []violation {
	list := collect(e, s)
	if len(list) == 0 {
		list = []violation{{text: "they do not fit"}}
	}
	return list
}

func collect(e *jsonschema.ValidationError, s *schema) []violation {
	one := func(format string, a ...any) []violation {
		return []violation{at(e.InstanceLocation, fmt.Sprintf(format, a...))}
	}
	switch k := e.ErrorKind.(type) {
	case *broken.AnyOf, *broken.OneOf:
		if o, ok := k.(*broken.OneOf); ok && len(o.Subschemas) > 0 {
			return one("it fits more than one of the alternatives, and must fit exactly one")
		}
		return alternatives(e, s)
	case *broken.Required:
		var list []violation
		for _, name := range k.Missing {
			list = append(list, at(append(slices.Clone(e.InstanceLocation), name), "it is required"))
		}
		return list
	case *broken.AdditionalProperties:
		var list []violation
		names := s.names(e.InstanceLocation)
		for _, name := range k.Properties {
			text := "there is no such member"
			if hint := didYouMean(name, names); hint != "" {
				text += ", " + hint
			}
			list = append(list, at(append(slices.Clone(e.InstanceLocation), name), text))
		}
		return list
	case *broken.Type:
		v := at(e.InstanceLocation, fmt.Sprintf("it must be %s, not %s", article(k.Want), k.Got))
		v.types = k.Want
		return []violation{v}
	case *broken.Enum:
		if want, ok := display(k.Want); ok {
			return one("it must be %s", want)
		}
		return one("it is none of the values allowed")
	case *broken.Const:
		if want, ok := display([]any{k.Want}); ok {
			return one("it must be %s", want)
		}
		return one("it is not the value required")
	case *broken.Format:
		return one("it is no valid %s", k.Want)
	case *broken.Pattern:
		if len(k.Want) > 120 {
			return one("it does not match the pattern")
		}
		return one("it must match %s", k.Want)
	case *broken.MinLength:
		return one("it must have %d characters or more", k.Want)
	case *broken.MaxLength:
		return one("it must have %d characters at most", k.Want)
	case *broken.MinItems:
		return one("it must have %d elements or more", k.Want)
	case *broken.MaxItems:
		return one("it must have %d elements at most", k.Want)
	case *broken.UniqueItems:
		return one("its elements %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *broken.MinProperties:
		return one("it must have %d members or more", k.Want)
	case *broken.MaxProperties:
		return one("it must have %d members at most", k.Want)
	case *broken.Minimum:
		return one("it must be %s or more", decimal(k.Want))
	case *broken.Maximum:
		return one("it must be %s at most", decimal(k.Want))
	case *broken.ExclusiveMinimum:
		return one("it must be more than %s", decimal(k.Want))
	case *broken.ExclusiveMaximum:
		return one("it must be less than %s", decimal(k.Want))
	case *broken.MultipleOf:
		return one("it must be a multiple of %s", decimal(k.Want))
	case *broken.FalseSchema:
		return one("it is not allowed")
	}
	if len(e.Causes) == 0 {
		if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
			return one("it breaks the rule %s", path[0])
		}
		return one("it does not fit")
	}
	var list []violation
	for _, c := range e.Causes {
		list = append(list, collect(c, s)...)
	}
	return list
}

// alternatives words an anyOf or oneOf of which nothing fits.
func alternatives(e *jsonschema.ValidationError, s *schema) []violation {
	var types []string
	var meant [][]violation // alternatives whose type was right
	for _, c := range e.Causes {
		list := collect(c, s)
		if len(list) == 1 && list[0].types != nil && slices.Equal(list[0].tokens, e.InstanceLocation) {
			types = append(types, list[0].types...)
			continue
		}
		meant = append(meant, list)
	}
	switch len(meant) {
	case 0:
	case 1:
		return meant[0]
	default:
		return []violation{at(e.InstanceLocation, "it fits none of the alternatives")}
	}
	return []violation{at(e.InstanceLocation, "it must be "+article(types))}
}

// at makes a violation. A long path is cut: its names may be the caller's.
func at(tokens []string, text string) violation {
	v := violation{tokens: tokens, text: text}
	for _, t := range tokens {
		v.pointer += "/" + escapeToken(t)
	}
	if len(v.pointer) > 120 {
		v.pointer = strings.ToValidUTF8(v.pointer[:120], "") + "…"
	}
	return v
}

func article(types []string) string {
	var out []string
	for _, t := range types {
		switch t {
		case "array", "integer", "object":
			t = "an " + t
		case "null":
		default:
			t = "a " + t
		}
		out = append(out, t)
	}
	return strings.Join(out, " or ")
}

// display lists values of a schema, if they are few and plain.
func display(values []any) (string, bool) {
	if len(values) > 12 {
		return "", false
	}
	var out []string
	for _, v := range values {
		switch v.(type) {
		case []any, map[string]any:
			return "", false
		}
		b, err := json.Marshal(v)
		if err != nil || len(b) > 60 {
			return "", false
		}
		out = append(out, string(b))
	}
	return strings.Join(out, " or "), true
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	if n, exact := r.FloatPrec(); exact {
		return r.FloatString(n)
	}
	return r.RatString()
}
