package canon

import (
	"bytes"
	"time"
)

// appendInstant appends an RFC 3339 date-time (5.6) in UTC with the fraction trimmed. It says no to
// anything else, to leap seconds (which have no place on the time line that Go and most providers
// use) and to instants whose year in UTC has not four digits. time.Parse will not do: it accepts more
// than RFC 3339 and keeps nine digits of the fraction.
func appendInstant(dst, s []byte) ([]byte, bool) {
	const layout = "0000-00-00t00:00:00"
	if len(s) < len(layout)+1 {
		return dst, false
	}
	for i := range len(layout) {
		c := s[i]
		switch layout[i] {
		case '0':
			if c < '0' || c > '9' {
				return dst, false
			}
		case 't':
			if c != 'T' && c != 't' {
				return dst, false
			}
		default:
			if c != layout[i] {
				return dst, false
			}
		}
	}
	year := two(s)*100 + two(s[2:])
	month, day := two(s[5:]), two(s[8:])
	hour, minute, second := two(s[11:]), two(s[14:]), two(s[17:])
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return dst, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if t.Day() != day { // the 30th of February
		return dst, false
	}

	rest := s[len(layout):]
	var fraction []byte
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n == 1 {
			return dst, false
		}
		fraction, rest = bytes.TrimRight(rest[1:n], "0"), rest[n:]
	}

	switch {
	case len(rest) == 1 && (rest[0] == 'Z' || rest[0] == 'z'):
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':' &&
		digits(rest[1:3]) && digits(rest[4:6]):
		h, m := two(rest[1:]), two(rest[4:])
		if h > 23 || m > 59 {
			return dst, false
		}
		offset := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute
		if rest[0] == '+' {
			offset = -offset
		}
		t = t.Add(offset)
	default:
		return dst, false
	}
	if y := t.Year(); y < 0 || y > 9999 {
		return dst, false
	}

	dst = t.AppendFormat(dst, "2006-01-02T15:04:05")
	if len(fraction) > 0 {
		dst = append(append(dst, '.'), fraction...)
	}
	return append(dst, 'Z'), true
}

func two(s []byte) int { return int(s[0]-'0')*10 + int(s[1]-'0') }

func digits(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
