package canon

import (
	"bytes"
	"cmp"
	"errors"
	"unicode/utf8"
)

// decode reads one character of the inside of a canonical string.
func decode(s []byte) (r rune, size int) {
	if s[0] != '\\' || len(s) < 2 {
		if s[0] < utf8.RuneSelf {
			return rune(s[0]), 1
		}
		return utf8.DecodeRune(s)
	}
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		if r, ok := hex4(s, 2); ok {
			return r, 6
		}
	}
	return rune(s[1]), 2
}

// unescape appends the text that the inside of a canonical string stands for.
func unescape(dst, s []byte) []byte {
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		r, size := decode(s[i:])
		dst = utf8.AppendRune(dst, r)
		s = s[i+size:]
	}
	return dst
}

// compareNames orders the insides of two canonical strings by the UTF-16 code units of their text
// (RFC 8785, 3.2.3). That is the order of code points, except that those above U+FFFF, being pairs
// that start with U+D800 to U+DBFF, come before U+E000 to U+FFFF.
func compareNames(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		ra, na := decode(a)
		rb, nb := decode(b)
		if ra != rb {
			if c := cmp.Compare(firstUnit(ra), firstUnit(rb)); c != 0 {
				return c
			}
			return cmp.Compare(ra, rb)
		}
		a, b = a[na:], b[nb:]
	}
	return cmp.Compare(len(a), len(b))
}

func firstUnit(r rune) rune {
	if r < 0x10000 {
		return r
	}
	return 0xd800 + (r-0x10000)>>10
}

// rewrite applies the rules for strings to the one that dst[start:] holds.
func (e *encoder) rewrite(act action, start int) error {
	if act&text != 0 {
		e.scratch = unescape(e.scratch[:0], e.dst[start+1:len(e.dst)-1])
		s := e.normalize(e.scratch)
		if !utf8.Valid(s) {
			return errors.New("canonical form: Options.Normalize returned invalid UTF-8")
		}
		e.dst, _ = appendQuoted(e.dst[:start], s)
	}
	if act&instant != 0 {
		inside := e.dst[start+1 : len(e.dst)-1]
		var buf [64]byte
		if s, ok := appendInstant(buf[:0], inside); ok {
			e.dst = append(append(e.dst[:start+1], s...), '"')
		}
	}
	return nil
}
