package packed_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/packed"
)

var words = []string{"", "one", "two"}

var instant = time.Unix(1_700_000_000, 123456789).UTC()

// What each method writes is in databases.
func TestEncoding(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		encode func(e *packed.Encoder)
		want   string
	}{
		{"byte", func(e *packed.Encoder) { e.Byte(7) }, "07"},
		{"int", func(e *packed.Encoder) { e.Int(-3); e.Int(300) }, "05d804"},
		{"uint", func(e *packed.Encoder) { e.Uint(3); e.Uint(300) }, "03ac02"},
		{"time", func(e *packed.Encoder) { e.Time(instant) }, "17979cfe3d85cd15"},
		{"no time", func(e *packed.Encoder) { e.Time(time.Time{}) }, "8000000000000000"},
		{"nil", func(e *packed.Encoder) { e.Bytes(nil) }, "00"},
		{"empty", func(e *packed.Encoder) { e.Bytes([]byte{}) }, "01"},
		{"bytes", func(e *packed.Encoder) { e.Bytes([]byte("ab")) }, "036162"},
		{"string", func(e *packed.Encoder) { e.String("nö") }, "066ec3b6"},
		{"no string", func(e *packed.Encoder) { e.String("") }, "00"},
		{"digits", func(e *packed.Encoder) { e.String("0123456789abcdef") }, "110123456789abcdef"},
		{"few digits", func(e *packed.Encoder) { e.String("012345") }, "0c303132333435"},
		{"odd digits", func(e *packed.Encoder) { e.String("012345678") }, "12303132333435363738"},
		{"upper-case digits", func(e *packed.Encoder) { e.String("ABCDEF01") }, "104142434445463031"},
		{"word", func(e *packed.Encoder) { e.Name("one", words) }, "02"},
		{"no word", func(e *packed.Encoder) { e.Name("", words) }, "01"},
		{"unknown word", func(e *packed.Encoder) { e.Name("ten", words) }, "000674656e"},
	} {
		var e packed.Encoder
		test.encode(&e)
		if got := hex.EncodeToString(e.B); got != test.want || e.Err != nil {
			t.Errorf("%s: %s, %v, want %s", test.name, got, e.Err, test.want)
		}
	}
}

type fields struct {
	Byte  byte
	Int   int64
	Uint  uint64
	Time  time.Time
	Bytes []byte
	Text  string
	Name  string
}

func (f *fields) encode(e *packed.Encoder) {
	e.Byte(f.Byte)
	e.Int(f.Int)
	e.Uint(f.Uint)
	e.Time(f.Time)
	e.Bytes(f.Bytes)
	e.String(f.Text)
	e.Name(f.Name, words)
}

func decode(d *packed.Decoder) fields {
	return fields{d.Byte(), d.Int(), d.Uint(), d.Time(), d.Bytes(), d.String(), d.Name(words)}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(byte(1), int64(-1), uint64(1), int64(1), []byte("x"), "0123456789abcdef", "two")
	f.Add(byte(0), int64(0), uint64(0), int64(packed.NoTime), []byte(nil), "", "")
	f.Add(byte(255), int64(packed.Never), uint64(1<<64-1), int64(packed.Never), []byte{}, strings.Repeat("ab", 300), "other")
	f.Fuzz(func(t *testing.T, b byte, i int64, u uint64, nanos int64, raw []byte, text, name string) {
		want := fields{b, i, u, packed.TimeOf(nanos, packed.NoTime), raw, text, name}
		var e packed.Encoder
		want.encode(&e)
		if e.Err != nil {
			t.Skip(e.Err) // at the very ends of what nanoseconds hold
		}
		d := packed.Decoder{B: e.B}
		if diff := cmp.Diff(want, decode(&d)); diff != "" || d.Err != nil || len(d.B) != 0 {
			t.Errorf("%x: %v, %d bytes left (-want +got)\n%s", e.B, d.Err, len(d.B), diff)
		}
		for n := range e.B {
			d := packed.Decoder{B: e.B[:n:n]}
			if decode(&d); !errors.Is(d.Err, packed.ErrShort) {
				t.Errorf("%x without its last %d bytes: %v", e.B, len(e.B)-n, d.Err)
			}
		}
	})
}

// Whatever the input, a decoder returns.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := packed.Decoder{B: b}
		if got := decode(&d); d.Err == nil {
			var e packed.Encoder
			got.encode(&e)
			again := packed.Decoder{B: e.B}
			if diff := cmp.Diff(got, decode(&again)); e.Err == nil && diff != "" {
				t.Errorf("%x becomes another (-first +second)\n%s", b, diff)
			}
		}
	})
}

func TestUnknownWord(t *testing.T) {
	t.Parallel()
	d := packed.Decoder{B: []byte{9}}
	if got := d.Name(words); got != "" || d.Err == nil || errors.Is(d.Err, packed.ErrShort) {
		t.Errorf("%q, %v", got, d.Err)
	}
}

func TestTimeOutOfRange(t *testing.T) {
	t.Parallel()
	for _, year := range []int{1500, 2300} {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		if n, err := packed.Nanos(at, packed.NoTime); err == nil {
			t.Errorf("the year %d is stored as %d", year, n)
		}
		var e packed.Encoder
		e.Time(at)
		first := e.Err
		e.Time(at.AddDate(1, 0, 0))
		if first == nil || e.Err != first {
			t.Errorf("%v, then %v", first, e.Err)
		}
	}
}

func TestZeroTime(t *testing.T) {
	t.Parallel()
	for _, zero := range []int64{packed.NoTime, packed.Never} {
		n, err := packed.Nanos(time.Time{}, zero)
		if err != nil || n != zero || !packed.TimeOf(n, zero).IsZero() {
			t.Errorf("%d, %v, %v, want %d", n, err, packed.TimeOf(n, zero), zero)
		}
	}
	if got := packed.TimeOf(instant.UnixNano(), packed.NoTime); got != instant {
		t.Errorf("%v, want %v", got, instant)
	}
}
