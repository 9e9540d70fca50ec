package canon

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Pointer is a JSON Pointer (RFC 6901) as its unescaped reference tokens; the empty Pointer is the
// whole document. A token names a member of an object or, in decimal without leading zeros, an
// element of an array.
//
// In [Options] the token "*" matches every member and every element at its place, so a member whose
// name really is "*" cannot be singled out there. [Lookup] and [Find] take "*" literally.
type Pointer []string

// ParsePointer reads the string form: "" or tokens that each start with "/", with ~1 for "/" and ~0
// for "~". The URI fragment form ("#/a") is refused.
func ParsePointer(s string) (Pointer, error) {
	if s == "" {
		return Pointer{}, nil
	}
	if !utf8.ValidString(s) {
		return nil, errors.New("JSON Pointer is not valid UTF-8")
	}
	if s[0] == '#' {
		return nil, errors.New(`JSON Pointer starts with "#": write it without the URI fragment sign, as in /orderId`)
	}
	if s[0] != '/' {
		return nil, errors.New(`JSON Pointer must be empty or start with "/", as in /orderId`)
	}
	p := Pointer(strings.Split(s[1:], "/"))
	for i, tok := range p {
		if !strings.Contains(tok, "~") {
			continue
		}
		for rest := tok; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, errors.New(`"~" in a JSON Pointer must be written ~0 (and "/" in a name ~1)`)
			}
			rest = after[1:]
		}
		// ~1 before ~0, as RFC 6901 (4) requires: ~01 is the name "~1".
		p[i] = strings.ReplaceAll(strings.ReplaceAll(tok, "~1", "/"), "~0", "~")
	}
	return p, nil
}

// String gives the form that ParsePointer reads.
func (p Pointer) String() string {
	var b []byte
	for _, tok := range p {
		b = appendToken(b, tok)
	}
	return string(b)
}

// MarshalText gives the string form, for configuration and JSON.
func (p Pointer) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the string form, for configuration and JSON.
func (p *Pointer) UnmarshalText(text []byte) error {
	q, err := ParsePointer(string(text))
	if err != nil {
		return err
	}
	*p = q
	return nil
}

// appendToken appends "/" and the token, escaped.
func appendToken[T string | []byte](b []byte, tok T) []byte {
	b = append(b, '/')
	for i := range len(tok) {
		switch tok[i] {
		case '~':
			b = append(b, "~0"...)
		case '/':
			b = append(b, "~1"...)
		default:
			b = append(b, tok[i])
		}
	}
	return b
}

// parseIndex reads an array index as RFC 6901 (4) writes it: no sign, no leading zeros.
func parseIndex(tok string) (int, bool) {
	if tok == "" || len(tok) > 9 || tok[0] == '0' && len(tok) > 1 {
		return 0, false
	}
	n := 0
	for i := range len(tok) {
		if tok[i] < '0' || tok[i] > '9' {
			return 0, false
		}
		n = n*10 + int(tok[i]-'0')
	}
	return n, true
}
