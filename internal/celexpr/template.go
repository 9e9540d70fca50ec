package celexpr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/common/types"
)

// A Template is text with placeholders:
//
//	${expression}      the value of a CEL expression
//	${secret:name}     a secret, by a name that stands in the template itself,
//	                   so that no argument can choose which
//	$${                the two characters ${
//
// It may be used from many goroutines.
type Template struct {
	source string
	parts  []part
}

type part struct {
	literal string
	expr    *Expr
	secret  string
}

var secretName = regexp.MustCompile(`^secret:\s*([A-Za-z0-9_][A-Za-z0-9_./-]{0,127})\s*$`)

// Template parses and compiles a template.
func (e *Env) Template(source string) (*Template, error) {
	raw, err := split(source)
	if err != nil {
		return nil, fmt.Errorf("template %q: %w", source, err)
	}
	t := &Template{source: source}
	for _, r := range raw {
		if !r.code {
			t.parts = append(t.parts, part{literal: r.text})
			continue
		}
		if m := secretName.FindStringSubmatch(r.text); m != nil {
			t.parts = append(t.parts, part{secret: m[1]})
			continue
		}
		if strings.HasPrefix(r.text, "secret:") {
			return nil, fmt.Errorf("template %q: a secret's name has only letters, digits and _ . / -", source)
		}
		x, err := e.Compile(r.text)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part{expr: x})
	}
	return t, nil
}

type piece struct {
	text string
	code bool
}

// split cuts a template into literals and the insides of placeholders.
func split(s string) ([]piece, error) {
	var out []piece
	var lit strings.Builder
	for s != "" {
		i := strings.Index(s, "${")
		if i < 0 {
			lit.WriteString(s)
			break
		}
		if i > 0 && s[i-1] == '$' {
			lit.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		lit.WriteString(s[:i])
		end := closing(s[i+2:])
		if end < 0 {
			return nil, errors.New("a ${ has no end")
		}
		code := strings.TrimSpace(s[i+2 : i+2+end])
		if code == "" {
			return nil, errors.New("a ${} is empty")
		}
		if lit.Len() > 0 {
			out = append(out, piece{text: lit.String()})
			lit.Reset()
		}
		out = append(out, piece{text: code, code: true})
		s = s[i+2+end+1:]
	}
	if lit.Len() > 0 {
		out = append(out, piece{text: lit.String()})
	}
	return out, nil
}

// closing returns where the brace is that ends a placeholder: one outside
// string literals and inner braces.
func closing(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '"', '\'':
			quote := s[i : i+1]
			if strings.HasPrefix(s[i:], strings.Repeat(quote, 3)) {
				quote = s[i : i+3]
			}
			raw := i > 0 && (s[i-1] == 'r' || s[i-1] == 'R')
			i += len(quote)
			for !strings.HasPrefix(s[i:], quote) {
				if i >= len(s) {
					return -1
				}
				if s[i] == '\\' && !raw {
					i++
				}
				if i++; i > len(s) {
					return -1
				}
			}
			i += len(quote) - 1
		}
	}
	return -1
}

func (t *Template) String() string { return t.source }

// Literal returns the text of a template without placeholders.
func (t *Template) Literal() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].expr == nil && t.parts[0].secret == "":
		return t.parts[0].literal, true
	}
	return "", false
}

// Uses reports whether a placeholder names the variable.
func (t *Template) Uses(name string) bool {
	for _, p := range t.parts {
		if p.expr.Uses(name) {
			return true
		}
	}
	return false
}

// Secrets adds the names of the secrets that t needs.
func (t *Template) Secrets(into map[string]bool) {
	for _, p := range t.parts {
		if p.secret != "" {
			into[p.secret] = true
		}
	}
}

// lone returns the expression of a template that is one placeholder.
func (t *Template) lone() *Expr {
	if len(t.parts) == 1 {
		return t.parts[0].expr
	}
	return nil
}

// Text fills in the placeholders. Each value goes through escape, if there is
// one; literals do not. It returns false for a template that is one placeholder
// whose value is absent or null.
func (t *Template) Text(v Vars, secrets map[string]string, escape func(string) (string, error)) (string, bool, error) {
	var b strings.Builder
	for _, p := range t.parts {
		s := p.literal
		switch {
		case p.expr != nil:
			r, err := p.expr.Eval(v)
			if err != nil {
				return "", false, err
			}
			if t.lone() != nil && r.IsNull() {
				return "", false, nil
			}
			if s, err = r.Text(); err != nil {
				return "", false, fmt.Errorf("${%s}: %w", p.expr, err)
			}
		case p.secret != "":
			var ok bool
			if s, ok = secrets[p.secret]; !ok {
				return "", false, fmt.Errorf("the secret %s is not known", p.secret)
			}
		default:
			b.WriteString(s)
			continue
		}
		if escape != nil {
			var err error
			if s, err = escape(s); err != nil {
				return "", false, fmt.Errorf("template %q: %w", t.source, err)
			}
		}
		b.WriteString(s)
	}
	return b.String(), true, nil
}

// Cut splits a template's source around the first c that stands outside
// placeholders. Without one, after is empty.
func Cut(source string, c byte) (before, after string) {
	for i := 0; i < len(source); i++ {
		if strings.HasPrefix(source[i:], "$${") {
			i += 2
			continue
		}
		if strings.HasPrefix(source[i:], "${") {
			end := closing(source[i+2:])
			if end < 0 {
				break
			}
			i += 2 + end
			continue
		}
		if source[i] == c {
			return source[:i], source[i+1:]
		}
	}
	return source, ""
}

// Texts is like Text for a template that may give several: a lone placeholder
// whose value is a list gives its elements, an absent one gives none.
func (t *Template) Texts(v Vars, secrets map[string]string) ([]string, error) {
	if x := t.lone(); x != nil {
		r, err := x.Eval(v)
		if err != nil || r.IsNull() {
			return nil, err
		}
		if list, err := r.List(); err == nil {
			out := make([]string, len(list))
			for i, e := range list {
				if out[i], err = (Result{types.DefaultTypeAdapter.NativeToValue(e)}).Text(); err != nil {
					return nil, fmt.Errorf("${%s}: %w", x, err)
				}
			}
			return out, nil
		}
	}
	s, ok, err := t.Text(v, secrets, nil)
	if err != nil || !ok {
		return nil, err
	}
	return []string{s}, nil
}
