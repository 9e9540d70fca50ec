package redis

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"
)

// Times are Unix nanoseconds. The zero time sorts before all others where it
// means "nobody" and after all others where it means "never".
const (
	noTime = math.MinInt64
	never  = math.MaxInt64
)

func nanos(t time.Time, zero int64) (int64, error) {
	if t.IsZero() {
		return zero, nil
	}
	if s := t.Unix(); s < -9_223_372_036 || s >= 9_223_372_036 {
		return 0, fmt.Errorf("time %s cannot be stored in nanoseconds", t)
	}
	return t.UnixNano(), nil
}

func timeOf(n, zero int64) time.Time {
	if n == zero {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// An encoder appends fields to a buffer. The first error sticks.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) byte(v byte)   { e.b = append(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *encoder) time(t time.Time) {
	n, err := nanos(t, noTime)
	if err != nil && e.err == nil {
		e.err = err
	}
	e.b = binary.BigEndian.AppendUint64(e.b, uint64(n))
}

// bytes keeps nil and empty apart.
func (e *encoder) bytes(v []byte) {
	if v == nil {
		e.uint(0)
		return
	}
	e.uint(uint64(len(v)) + 1)
	e.b = append(e.b, v...)
}

// string stores lower-case hexadecimal digits in half the space; the lowest
// bit of the length tells.
func (e *encoder) string(s string) {
	if n := len(s); n >= 8 && n%2 == 0 {
		was := len(e.b)
		e.uint(uint64(n/2)<<1 | 1)
		var ok bool
		if e.b, ok = appendHex(e.b, s); ok {
			return
		}
		e.b = e.b[:was]
	}
	e.uint(uint64(len(s)) << 1)
	e.b = append(e.b, s...)
}

// name stores one of a few known words as its number, any other as a string.
func (e *encoder) name(s string, words []string) {
	for i, w := range words {
		if w == s {
			e.byte(byte(i + 1))
			return
		}
	}
	e.byte(0)
	e.string(s)
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

// appendHex appends what the digits of s stand for; false if s, of even
// length, has anything else in it.
func appendHex(b []byte, s string) ([]byte, bool) {
	for i := 0; i+1 < len(s); i += 2 {
		hi, lo := digits[s[i]], digits[s[i+1]]
		if hi|lo > 15 {
			return b, false
		}
		b = append(b, hi<<4|lo)
	}
	return b, true
}

// hexString is hex.EncodeToString with half the allocations.
func hexString(raw []byte) string {
	var buf [128]byte
	return string(hex.AppendEncode(buf[:0], raw))
}

var errShort = errors.New("it is cut short or damaged")

// A decoder reads what an encoder wrote. The first error sticks; every
// method then returns a zero value.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() { d.b, d.err = nil, errShort }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) time() time.Time {
	if len(d.b) < 8 {
		d.fail()
		return time.Time{}
	}
	n := int64(binary.BigEndian.Uint64(d.b))
	d.b = d.b[8:]
	return timeOf(n, noTime)
}

// take returns the next n bytes, which stay part of the input.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	raw := d.b[:n:n]
	d.b = d.b[n:]
	return raw
}

// bytes returns part of the input.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n == 0 {
		return nil
	}
	return d.take(n - 1)
}

func (d *decoder) string() string {
	v := d.uint()
	raw := d.take(v >> 1)
	if v&1 != 0 {
		return hexString(raw)
	}
	return string(raw)
}

func (d *decoder) name(words []string) string {
	i := int(d.byte())
	switch {
	case i == 0 && d.err == nil:
		return d.string()
	case i > len(words):
		d.err = fmt.Errorf("word %d is not known to this version", i)
	case i > 0:
		return words[i-1]
	}
	return ""
}
