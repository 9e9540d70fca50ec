package packed

import (
	"encoding/binary"
	"time"
)

// An Encoder appends fields to B. The first error sticks in Err.
type Encoder struct {
	B   []byte
	Err error
}

// Byte appends v as it is.
func (e *Encoder) Byte(v byte) { e.B = append(e.B, v) }

// Int appends v in one to ten bytes, the fewer the nearer it is to 0.
func (e *Encoder) Int(v int64) { e.B = binary.AppendVarint(e.B, v) }

// Uint appends v in one to ten bytes, the fewer the smaller it is.
func (e *Encoder) Uint(v uint64) { e.B = binary.AppendUvarint(e.B, v) }

// Time appends t in eight bytes, the highest first. A time that [Nanos] refuses
// is the encoder's error.
func (e *Encoder) Time(t time.Time) {
	n, err := Nanos(t, NoTime)
	if err != nil && e.Err == nil {
		e.Err = err
	}
	e.B = binary.BigEndian.AppendUint64(e.B, uint64(n))
}

// Bytes keeps nil and empty apart.
func (e *Encoder) Bytes(v []byte) {
	if v == nil {
		e.Uint(0)
		return
	}
	e.Uint(uint64(len(v)) + 1)
	e.B = append(e.B, v...)
}

// String stores lower-case hexadecimal digits in half the space; the lowest
// bit of the length tells.
func (e *Encoder) String(s string) {
	if n := len(s); n >= 8 && n%2 == 0 {
		was := len(e.B)
		e.Uint(uint64(n/2)<<1 | 1)
		var ok bool
		if e.B, ok = AppendHex(e.B, s); ok {
			return
		}
		e.B = e.B[:was]
	}
	e.Uint(uint64(len(s)) << 1)
	e.B = append(e.B, s...)
}

// Name stores one of a few known words as its number, any other as a string.
// Words are told by their place in the list: it may grow at its end alone, and
// to no more than 255.
func (e *Encoder) Name(s string, words []string) {
	for i, w := range words {
		if w == s {
			e.Byte(byte(i + 1))
			return
		}
	}
	e.Byte(0)
	e.String(s)
}
