package canon_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/justonce-dev/justonce/internal/canon"
)

// decimal is digits x 10^exp; it has many spellings.
type decimal struct {
	neg    bool
	digits string // "0" or without a leading zero
	exp    int
}

// doc draws a value: nil, bool, string, decimal, []any or map[string]any.
func doc(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		// Small draws are the likely ones, so what is interesting comes first.
		least := 0
		if depth == 0 {
			least = 2
		}
		switch rapid.IntRange(least, 5).Draw(t, "type") {
		case 0:
			return rapid.MapOfN(rapid.String(), doc(depth-1), 0, 16).Draw(t, "object")
		case 1:
			return rapid.SliceOfN(doc(depth-1), 0, 5).Draw(t, "array")
		case 2:
			return drawDecimal(t)
		case 3:
			return rapid.String().Draw(t, "string")
		case 4:
			return rapid.Bool().Draw(t, "bool")
		default:
			return nil
		}
	})
}

func drawDecimal(t *rapid.T) decimal {
	return decimal{
		neg:    rapid.Bool().Draw(t, "neg"),
		digits: rapid.StringMatching(`0|[1-9][0-9]{0,24}`).Draw(t, "digits"),
		exp:    rapid.IntRange(-60, 60).Draw(t, "exp"),
	}
}

// spell writes v in one of its spellings, drawn anew at every call.
func spell(t *rapid.T, b *strings.Builder, v any) {
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r"}).Draw(t, "space")) }
	space()
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case string:
		spellString(t, b, v)
	case decimal:
		b.WriteString(spellNumber(t, v))
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(t, b, x)
		}
		if len(v) == 0 {
			space()
		}
		b.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b.WriteByte('{')
		for i, name := range rapid.Permutation(names).Draw(t, "order") {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			spellString(t, b, name)
			space()
			b.WriteByte(':')
			spell(t, b, v[name])
		}
		b.WriteByte('}')
	}
	space()
}

func spellString(t *rapid.T, b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch style := rapid.IntRange(0, 2).Draw(t, "style"); {
		case style == 0:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(b, `\u%04x`, u)
			}
		case style == 1 && r == '/':
			b.WriteString(`\/`)
		case r < 0x20 || r == '"' || r == '\\':
			quoted, err := json.Marshal(string(r))
			if err != nil {
				t.Fatal(err)
			}
			b.Write(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}

// spellNumber moves the point and the exponent against each other and pads with zeros.
func spellNumber(t *rapid.T, d decimal) string {
	pad := rapid.IntRange(0, 5).Draw(t, "pad")
	ds, exp := d.digits+strings.Repeat("0", pad), d.exp-pad
	shift := rapid.IntRange(0, len(ds)+3).Draw(t, "shift") // digits behind the point
	if shift >= len(ds) {
		ds = strings.Repeat("0", shift-len(ds)+1) + ds
	}
	s := ds[:len(ds)-shift]
	if s = strings.TrimLeft(s, "0"); s == "" {
		s = "0"
	}
	if shift > 0 {
		s += "." + ds[len(ds)-shift:]
	}
	exp += shift
	if exp != 0 || rapid.Bool().Draw(t, "e0") {
		s += rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e")
		if exp >= 0 {
			s += rapid.SampledFrom([]string{"", "+", "0", "+00"}).Draw(t, "plus")
		}
		s += strconv.Itoa(exp)
	}
	if d.neg {
		s = "-" + s
	}
	return s
}

func TestSpellingDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := doc(2).Draw(t, "doc")
		var a, b strings.Builder
		spell(t, &a, v)
		spell(t, &b, v)
		ca, err := canon.Append(nil, []byte(a.String()), nil)
		if err != nil {
			t.Fatalf("%s: %v", a.String(), err)
		}
		cb, err := canon.Append(nil, []byte(b.String()), nil)
		if err != nil {
			t.Fatalf("%s: %v", b.String(), err)
		}
		if string(ca) != string(cb) {
			t.Fatalf("%s gives %s\n%s gives %s", a.String(), ca, b.String(), cb)
		}
	})
}

func TestNumbersByValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawDecimal(t)
		b := a
		// Neighbours in value are more telling than any two numbers.
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			b = drawDecimal(t)
		case 1:
			b.exp++
		case 2:
			b.digits += "1"
		}
		sa, sb := spellNumber(t, a), spellNumber(t, b)
		ca, errA := canon.Append(nil, []byte(sa), nil)
		cb, errB := canon.Append(nil, []byte(sb), nil)
		ra, okA := new(big.Rat).SetString(sa)
		rb, okB := new(big.Rat).SetString(sb)
		if errA != nil || errB != nil || !okA || !okB {
			t.Fatalf("%s: %v; %s: %v", sa, errA, sb, errB)
		}
		if same := ra.Cmp(rb) == 0; same != (string(ca) == string(cb)) {
			t.Fatalf("%s gives %s, %s gives %s; same: want %v", sa, ca, sb, cb, same)
		}
	})
}

func TestNamesSortByUTF16(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringOf(rapid.RuneFrom([]rune("ab\n\"\\\x7fé€\ue000\uffff\U00010000\U0010ffff"))),
			0, 24, rapid.ID[string]).Draw(t, "names")
		v := map[string]any{}
		for _, name := range names {
			v[name] = true
		}
		var src strings.Builder
		spell(t, &src, v)
		slices.SortFunc(names, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		out, err := canon.Append(nil, []byte(src.String()), nil)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(strings.NewReader(string(out)))
		var got []string
		for i := 0; d.More() || i == 0; i++ {
			tok, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			if name, ok := tok.(string); ok {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, names) {
			t.Fatalf("got %q, want %q", got, names)
		}
	})
}
