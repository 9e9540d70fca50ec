package canon

import "bytes"

// Find gives the value at p in doc, and whether there is one. doc must be a result of [Append]; for
// anything else the answer is meaningless, though it does not panic. The value is itself canonical
// and shares doc's memory. Find does not allocate.
func Find(doc []byte, p Pointer) (value []byte, ok bool) {
next:
	for _, tok := range p {
		if len(doc) == 0 {
			return nil, false
		}
		switch doc[0] {
		case '{':
			for it := (items{doc: doc, object: true}); it.next(); {
				if isName(it.name, tok) {
					doc = it.value
					continue next
				}
			}
		case '[':
			want, ok := parseIndex(tok)
			if !ok {
				return nil, false
			}
			i := 0
			for it := (items{doc: doc}); it.next(); i++ {
				if i == want {
					doc = it.value
					continue next
				}
			}
		}
		return nil, false
	}
	return doc, true
}

// isName compares the inside of a canonical string with text.
func isName(name []byte, text string) bool {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name) == text
	}
	var buf [64]byte
	return string(unescape(buf[:0], name)) == text
}

// items walks over the members or elements of a canonical object or array.
type items struct {
	doc    []byte
	object bool
	name   []byte // of the member, escaped and without quotes
	value  []byte
	pos    int // before the next item
}

func (it *items) next() bool {
	i := it.pos + 1 // over the opening bracket or the comma
	if i >= len(it.doc) || it.doc[i] == '}' || it.doc[i] == ']' {
		return false
	}
	if it.object {
		end := valueEnd(it.doc, i)
		if end < i+2 || end >= len(it.doc) {
			return false
		}
		it.name = it.doc[i+1 : end-1]
		i = end + 1
	}
	end := valueEnd(it.doc, i)
	if end >= len(it.doc) {
		return false
	}
	it.value, it.pos = it.doc[i:end], end
	// The closing bracket after the last item must not be taken for a comma.
	if it.doc[end] != ',' {
		it.pos = len(it.doc)
	}
	return true
}

// valueEnd gives the index after the canonical value at i.
func valueEnd(s []byte, i int) int {
	if i >= len(s) {
		return len(s)
	}
	switch s[i] {
	case '"':
		return stringEnd(s, i)
	case '{', '[':
		for depth := 0; i < len(s); i++ {
			switch s[i] {
			case '"':
				i = stringEnd(s, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(s)
	}
	for i < len(s) && s[i] != ',' && s[i] != '}' && s[i] != ']' {
		i++
	}
	return i
}

func stringEnd(s []byte, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(s)
}
