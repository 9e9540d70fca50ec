package gateway

import (
	"bytes"
	"encoding/json"
	"iter"
)

// members yields the members of an object in order. Values are the bytes
// between the colon and the comma or brace after it, white space included.
// doc must be valid JSON; of anything else the rest is not looked at.
func members(doc []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		i := bytes.IndexByte(doc, '{') + 1
		if i == 0 {
			return
		}
		for i < len(doc) {
			for i < len(doc) && doc[i] != '"' {
				if doc[i] == '}' {
					return
				}
				i++
			}
			end := stringEnd(doc, i)
			if end > len(doc) || end < i+2 {
				return
			}
			name, ok := unquote(doc[i:end])
			for i = end; i < len(doc) && doc[i] != ':'; i++ {
			}
			i++
			end = valueEnd(doc, i)
			if !ok || i > end || end >= len(doc) || !yield(name, doc[i:end]) {
				return
			}
			i = end
		}
	}
}

// valueEnd returns the index of the comma or bracket after the value at i.
func valueEnd(doc []byte, i int) int {
	for depth := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i = stringEnd(doc, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(doc)
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(doc) + 1
}

// unquote returns the text of a JSON string.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func trim(raw []byte) []byte { return bytes.Trim(raw, " \t\r\n") }
