// Package packed puts fields one behind the other into few bytes and takes them
// out again. What it writes is stored in databases: no field's encoding may
// ever change.
package packed

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Times are Unix nanoseconds. The zero time sorts before all others where it
// means "nobody" and after all others where it means "never".
const (
	NoTime = math.MinInt64
	Never  = math.MaxInt64
)

// ErrShort is the error for input that ends early or makes no sense.
var ErrShort = errors.New("it is cut short or damaged")

// Nanos returns t in nanoseconds, and zero for the zero time. A time that they
// cannot hold, before 1677 or after 2262, is an error.
func Nanos(t time.Time, zero int64) (int64, error) {
	if t.IsZero() {
		return zero, nil
	}
	if s := t.Unix(); s < -9_223_372_036 || s >= 9_223_372_036 {
		return 0, fmt.Errorf("time %s cannot be stored in nanoseconds", t)
	}
	return t.UnixNano(), nil
}

// TimeOf is the reverse of Nanos. The time is in UTC.
func TimeOf(n, zero int64) time.Time {
	if n == zero {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// digits has the value of each lower-case hexadecimal digit, 0xff elsewhere.
var digits = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	return t
}()

// AppendHex appends what the digits of s stand for; false if s, of even
// length, has anything but lower-case hexadecimal digits in it.
func AppendHex(b []byte, s string) ([]byte, bool) {
	n := len(b)
	b = slices.Grow(b, len(s)/2)[:n+len(s)/2]
	for i := range b[n:] {
		hi, lo := digits[s[2*i]], digits[s[2*i+1]]
		if hi|lo > 15 {
			return b[:n], false
		}
		b[n+i] = hi<<4 | lo
	}
	return b, true
}

// HexString is hex.EncodeToString with half the allocations.
func HexString(raw []byte) string {
	var buf [128]byte
	return string(hex.AppendEncode(buf[:0], raw))
}
