package gateway

import (
	"strings"

	"github.com/justonce-dev/justonce"
)

// parseKey reads the Idempotency-Key header: "" if there is none. The value is
// a string of RFC 9651, or the bare characters that many providers document;
// "abc" and abc are the same key. Parameters are ignored. A bare key with a
// comma could be a list and must be quoted.
func parseKey(lines []string) (string, error) {
	bad := func(detail string) (string, error) {
		return "", &justonce.InvalidError{Field: "Idempotency-Key", Detail: detail}
	}
	switch len(lines) {
	case 0:
		return "", nil
	case 1:
	default:
		return bad("the header is there more than once; a call has one key")
	}
	key := strings.Trim(lines[0], " \t")
	if key == "" {
		return bad("it is empty; leave it out to have a key derived")
	}
	if key[0] == '"' {
		var rest string
		var ok bool
		if key, rest, ok = cutString(key); !ok {
			return bad(`it starts with a double quote but is no structured-field string, such as "abc"`)
		}
		rest = strings.Trim(rest, " \t")
		if strings.HasPrefix(rest, ",") {
			return bad("it is a list; a call has one key")
		}
		if rest != "" && rest[0] != ';' {
			return bad("there is something after the closing quote")
		}
		if key == "" {
			return bad("it is empty; leave it out to have a key derived")
		}
	} else if strings.ContainsRune(key, ',') {
		return bad("it is a list; a key that has a comma in it must be in double quotes")
	}
	return key, justonce.CheckKey(key)
}

// cutString takes an sf-string (RFC 9651, 3.3.3) off the front of s.
func cutString(s string) (text, rest string, ok bool) {
	if i := strings.IndexAny(s[1:], `"\`); i >= 0 && s[1+i] == '"' {
		return s[1 : 1+i], s[2+i:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], true
		case c == '\\':
			i++
			if i >= len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// quoteKey returns key as an sf-string.
func quoteKey(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// traceParent returns the W3C trace context if it is one, else "".
func traceParent(lines []string) string {
	if len(lines) != 1 || len(lines[0]) != 55 {
		return ""
	}
	s := lines[0]
	for i := range len(s) {
		switch i {
		case 2, 35, 52:
			if s[i] != '-' {
				return ""
			}
		default:
			if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return ""
			}
		}
	}
	if s[:2] == "ff" || s[3:35] == strings.Repeat("0", 32) || s[36:52] == strings.Repeat("0", 16) {
		return ""
	}
	return s
}
