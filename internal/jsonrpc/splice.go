package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// The functions of this file take valid JSON and look no further than they
// need to. Names are compared exactly, unlike encoding/json does.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the index after the value that starts at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for ; i < len(b); i++ {
			switch b[i] {
			case '"':
				i = skipString(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return i
	}
	if end := bytes.IndexAny(b[i:], ",]} \t\r\n"); end >= 0 {
		return i + end
	}
	return len(b)
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

// members calls f for each member of the object that starts at i, until f
// returns false.
func members(b []byte, i int, f func(name string, value []byte) bool) {
	each(b, i, func(name string, _, from, to int) bool { return f(name, b[from:to:to]) })
}

// each is members with the places: at of the name, from and to of the value.
func each(b []byte, i int, f func(name string, at, from, to int) bool) {
	i = skipSpace(b, i+1)
	for i < len(b) && b[i] == '"' {
		at := i
		end := skipString(b, i)
		name := unquote(b[at:end])
		from := skipSpace(b, skipSpace(b, end)+1) // the colon
		to := skipValue(b, from)
		if !f(name, at, from, to) {
			return
		}
		if i = skipSpace(b, to); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
}

func unquote(b []byte) string {
	if s := b[1 : len(b)-1]; bytes.IndexByte(s, '\\') < 0 && utf8.Valid(s) {
		return string(s)
	}
	var s string
	_ = json.Unmarshal(b, &s) // it is valid; what is no UTF-8 becomes U+FFFD, as everywhere
	return s
}

// IsObject reports whether b is a JSON object.
func IsObject(b []byte) bool {
	i := skipSpace(b, 0)
	return i < len(b) && b[i] == '{'
}

// Members calls f for each member of the object b, in order, until f returns
// false. Anything but an object has none.
func Members(b []byte, f func(name string, value json.RawMessage) bool) {
	if IsObject(b) {
		members(b, skipSpace(b, 0), func(name string, v []byte) bool { return f(name, v) })
	}
}

// Duplicate returns the name of a member that the object b has twice, or "".
func Duplicate(b []byte) string {
	seen, dup := map[string]bool{}, ""
	Members(b, func(name string, _ json.RawMessage) bool {
		if seen[name] {
			dup = name
		}
		seen[name] = true
		return dup == ""
	})
	return dup
}

// Ambiguous returns the name of a member of the object b that differs from
// another one's at most in case, or "": some readers take them for the same.
func Ambiguous(b []byte) string {
	seen, twice := map[string]bool{}, ""
	Members(b, func(name string, _ json.RawMessage) bool {
		if folded := strings.ToLower(name); seen[folded] {
			twice = name
		} else {
			seen[folded] = true
		}
		return twice == ""
	})
	return twice
}

// Get returns the member of nested objects that path names, or nil.
func Get(b []byte, path ...string) json.RawMessage {
	for _, name := range path {
		var found json.RawMessage
		Members(b, func(n string, v json.RawMessage) bool {
			if n == name {
				found = v
			}
			return found == nil
		})
		if found == nil {
			return nil
		}
		b = found
	}
	return b
}

// String returns the member that path names if it is a string, or "".
func String(b []byte, path ...string) string {
	v := Get(b, path...)
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	return unquote(v)
}

// Elements returns the elements of the array b, or nil.
func Elements(b []byte) []json.RawMessage {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return nil
	}
	var list []json.RawMessage
	for i = skipSpace(b, i+1); i < len(b) && b[i] != ']'; {
		end := skipValue(b, i)
		list = append(list, b[i:end:end])
		if i = skipSpace(b, end); i < len(b) && b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return list
}

// Set returns the object b with the member that path names set to value; every
// other byte stays. Objects on the way are made where they are missing; what
// stands in the way and is no object is replaced. b is not changed.
func Set(b []byte, value json.RawMessage, path ...string) []byte {
	if len(path) == 0 {
		return value
	}
	if !IsObject(b) {
		b = []byte("{}")
	}
	start := skipSpace(b, 0)
	var from, to int
	empty := true
	each(b, start, func(name string, _, f, t int) bool {
		empty = false
		if name == path[0] {
			from, to = f, t
		}
		return to == 0
	})
	if to > 0 {
		return splice(b, from, to, Set(b[from:to], value, path[1:]...))
	}
	name, _ := json.Marshal(path[0])
	member := append(append(name, ':'), Set(nil, value, path[1:]...)...)
	end := skipValue(b, start) - 1
	if !empty {
		member = append([]byte{','}, member...)
	}
	return splice(b, end, end, member)
}

// Delete returns the object b without the member that path names; every other
// byte stays. b is not changed.
func Delete(b []byte, path ...string) []byte {
	if len(path) == 0 || !IsObject(b) {
		return b
	}
	start := skipSpace(b, 0)
	before, found, done := -1, false, false // before: where the previous member ended
	var at, from, to int
	each(b, start, func(name string, a, f, t int) bool {
		if name == path[0] {
			at, from, to, found = a, f, t, true
			return false
		}
		before = t
		return !done
	})
	switch {
	case !found:
		return b
	case len(path) > 1:
		return splice(b, from, to, Delete(b[from:to], path[1:]...))
	case before >= 0:
		return splice(b, before, to, nil)
	}
	if i := skipSpace(b, to); b[i] == ',' {
		to = skipSpace(b, i+1)
	}
	return splice(b, at, to, nil)
}

// Append returns the array b with one more element; every other byte stays.
func Append(b []byte, element json.RawMessage) []byte {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return append(append([]byte{'['}, element...), ']')
	}
	end := skipValue(b, i) - 1
	if b[skipSpace(b, i+1)] != ']' {
		element = append([]byte{','}, element...)
	}
	return splice(b, end, end, element)
}

func splice(b []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(b)-(to-from)+len(with))
	out = append(out, b[:from]...)
	out = append(out, with...)
	return append(out, b[to:]...)
}

// Replace returns b with the part that part is a view of, as [Get] and
// [Elements] return them, replaced. Where part is no view of b, b is returned.
func Replace(b []byte, part, with json.RawMessage) []byte {
	if len(part) == 0 {
		return b
	}
	for from := range b {
		if &b[from] == &part[0] {
			return splice(b, from, from+len(part), with)
		}
	}
	return b
}
