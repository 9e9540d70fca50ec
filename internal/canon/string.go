package canon

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// str reads the string at pos and appends it in quotes. Text between escapes is copied in runs. It
// says whether what it wrote is simple: ASCII without escapes.
func (e *encoder) str() (simple bool, err error) {
	src, i := e.src, e.pos+1
	e.dst = append(e.dst, '"')
	run := i
	simple = true
	for {
		i = plainEnd(src, i)
		if i >= len(src) {
			return false, syntaxErr(e.pos, "this string has no closing quote", "the document may have been cut off")
		}
		switch c := src[i]; {
		case c == '"':
			e.dst = append(append(e.dst, src[run:i]...), '"')
			e.pos = i + 1
			return simple, nil
		case c == '\\':
			e.dst = append(e.dst, src[run:i]...)
			r, next, err := e.escape(i)
			if err != nil {
				return false, err
			}
			var plain bool
			e.dst, plain = appendRune(e.dst, r)
			simple = simple && plain
			i, run = next, next
		case c < 0x20:
			return false, syntaxErr(i, "a control character stands unescaped in a string", `write \n, \t or \u00xx`)
		default:
			simple = false
			r, size := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && size <= 1 {
				return false, &SyntaxError{Offset: i, Kind: KindEncoding, Msg: "a string is not valid UTF-8",
					Hint: "encode text as UTF-8 and binary data as base64"}
			}
			i += size
		}
	}
}

// plainEnd gives the first index from i on whose byte is a quote, a backslash, a control character or
// not ASCII. It looks at eight bytes at a time; in each test the lowest bit that is set is exact, and
// only the lowest is used.
func plainEnd(s []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		stop := (w | (w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & high
		if stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// escape reads the escape at i, both halves of a surrogate pair, and gives the index after it.
func (e *encoder) escape(i int) (r rune, next int, err error) {
	if i+1 >= len(e.src) {
		return 0, 0, syntaxErr(i, "the document ends within an escape", "it may have been cut off")
	}
	switch c := e.src[i+1]; c {
	case '"', '\\', '/':
		return rune(c), i + 2, nil
	case 'b':
		return '\b', i + 2, nil
	case 'f':
		return '\f', i + 2, nil
	case 'n':
		return '\n', i + 2, nil
	case 'r':
		return '\r', i + 2, nil
	case 't':
		return '\t', i + 2, nil
	case 'u':
	default:
		return 0, 0, syntaxErr(i, "unknown escape in a string", `a backslash itself is written \\`)
	}
	r, ok := hex4(e.src, i+2)
	if !ok {
		return 0, 0, syntaxErr(i, `\u must be followed by four hexadecimal digits`, "")
	}
	next = i + 6
	if r < 0xd800 || r > 0xdfff {
		return r, next, nil
	}
	if r < 0xdc00 && next+1 < len(e.src) && e.src[next] == '\\' && e.src[next+1] == 'u' {
		if low, ok := hex4(e.src, next+2); ok && low >= 0xdc00 && low <= 0xdfff {
			return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, next + 6, nil
		}
	}
	return 0, 0, &SyntaxError{Offset: i, Kind: KindSurrogate, Msg: "an escape is half of a surrogate pair",
		Hint: "the text was probably cut within a character; send both halves or neither"}
}

func hex4(s []byte, i int) (r rune, ok bool) {
	if i+4 > len(s) {
		return 0, false
	}
	for _, c := range s[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendRune appends one character as RFC 8785 (3.2.2.2) writes it, and says whether it is simple.
func appendRune(dst []byte, r rune) (_ []byte, simple bool) {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r)), false
	case r >= utf8.RuneSelf:
		return utf8.AppendRune(dst, r), false
	case r >= 0x20:
		return append(dst, byte(r)), true
	}
	switch r {
	case '\b':
		return append(dst, `\b`...), false
	case '\f':
		return append(dst, `\f`...), false
	case '\n':
		return append(dst, `\n`...), false
	case '\r':
		return append(dst, `\r`...), false
	case '\t':
		return append(dst, `\t`...), false
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15]), false
}

// appendQuoted appends unescaped valid UTF-8 as a canonical string.
func appendQuoted(dst, s []byte) (_ []byte, simple bool) {
	simple = true
	dst = append(dst, '"')
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		var plain bool
		dst, plain = appendRune(dst, r)
		simple = simple && plain
		s = s[size:]
	}
	return append(dst, '"'), simple
}
