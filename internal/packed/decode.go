package packed

import (
	"encoding/binary"
	"fmt"
	"time"
)

// A Decoder takes from B what an [Encoder] wrote, in the same order. An error
// sticks in Err; what the methods return means nothing from then on.
type Decoder struct {
	B   []byte
	Err error
}

// Fail says that the input is damaged: nothing more is read of it.
func (d *Decoder) Fail() { d.B, d.Err = nil, ErrShort }

// Byte is the reverse of [Encoder.Byte].
func (d *Decoder) Byte() byte {
	if len(d.B) == 0 {
		d.Fail()
		return 0
	}
	v := d.B[0]
	d.B = d.B[1:]
	return v
}

// Int is the reverse of [Encoder.Int].
func (d *Decoder) Int() int64 {
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Uint is the reverse of [Encoder.Uint].
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Time is the reverse of [Encoder.Time].
func (d *Decoder) Time() time.Time {
	if len(d.B) < 8 {
		d.Fail()
		return time.Time{}
	}
	n := int64(binary.BigEndian.Uint64(d.B))
	d.B = d.B[8:]
	return TimeOf(n, NoTime)
}

// Take returns the next n bytes, which stay part of the input.
func (d *Decoder) Take(n uint64) []byte {
	if n > uint64(len(d.B)) {
		d.Fail()
		return nil
	}
	raw := d.B[:n:n]
	d.B = d.B[n:]
	return raw
}

// Bytes is the reverse of [Encoder.Bytes]. What it returns is part of the
// input.
func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n == 0 {
		return nil
	}
	return d.Take(n - 1)
}

// String is the reverse of [Encoder.String].
func (d *Decoder) String() string {
	v := d.Uint()
	raw := d.Take(v >> 1)
	if v&1 != 0 {
		return HexString(raw)
	}
	return string(raw)
}

// Name is the reverse of [Encoder.Name]. A number beyond the list, of a word
// that a later version may have added, is the decoder's error.
func (d *Decoder) Name(words []string) string {
	i := int(d.Byte())
	switch {
	case i == 0 && d.Err == nil:
		return d.String()
	case i > len(words):
		d.Err = fmt.Errorf("word %d is not known to this version", i)
	case i > 0:
		return words[i-1]
	}
	return ""
}
