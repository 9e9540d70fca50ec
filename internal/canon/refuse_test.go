package canon_test

import (
	"strings"
	"testing"

	"github.com/justonce-dev/justonce/internal/canon"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		src    string
		kind   canon.Kind
		offset int
	}{
		{"", canon.KindSyntax, 0},
		{"  ", canon.KindSyntax, 2},
		{"\xef\xbb\xbf{}", canon.KindEncoding, 0},
		{"\xff\xfe{\x00", canon.KindEncoding, 0},
		{"{} {}", canon.KindTrailing, 3},
		{"1 2", canon.KindTrailing, 2},
		{"1\x00", canon.KindTrailing, 1},
		{`{"a":1}}`, canon.KindTrailing, 7},

		{`{"a":1,"a":1}`, canon.KindDuplicate, 7},
		{`{"a":1,"\u0061":2}`, canon.KindDuplicate, 7},
		{`{"b":1,"a":1,"b":2}`, canon.KindDuplicate, 13},
		{`[{"x":{"é":1,"\u00e9":1}}]`, canon.KindDuplicate, 14},
		{`{"😀":1,"z":1,"\ud83d\ude00":1}`, canon.KindDuplicate, 16},
		{`{"":1,"":2}`, canon.KindDuplicate, 6},

		{`"\ud800"`, canon.KindSurrogate, 1},
		{`"\ud800\u0041"`, canon.KindSurrogate, 1},
		{`"\udc00\ud800"`, canon.KindSurrogate, 1},
		{`"\ud800\ud800"`, canon.KindSurrogate, 1},
		{`"\ud800x\udc00"`, canon.KindSurrogate, 1},
		{`{"\udfff":1}`, canon.KindSurrogate, 2},
		{"\"a\xff\"", canon.KindEncoding, 2},
		{"\"\xc0\xaf\"", canon.KindEncoding, 1},         // overlong
		{"\"\xed\xa0\x80\"", canon.KindEncoding, 1},     // a surrogate in UTF-8
		{"\"\xf4\x90\x80\x80\"", canon.KindEncoding, 1}, // beyond U+10FFFF
		{"\"\xe2\x82\"", canon.KindEncoding, 1},         // cut off

		{"01", canon.KindSyntax, 0}, {"-01", canon.KindSyntax, 0}, {"+1", canon.KindSyntax, 0},
		{".5", canon.KindSyntax, 0}, {"1.", canon.KindSyntax, 2}, {"1_000", canon.KindTrailing, 1},
		{"-", canon.KindSyntax, 1}, {"-x", canon.KindSyntax, 1}, {"1e", canon.KindSyntax, 2},
		{"1e+", canon.KindSyntax, 3}, {"1.e1", canon.KindSyntax, 2}, {"0x10", canon.KindTrailing, 1},
		{"NaN", canon.KindSyntax, 0}, {"-Infinity", canon.KindSyntax, 1}, {"True", canon.KindSyntax, 0},
		{"nul", canon.KindSyntax, 0}, {"undefined", canon.KindSyntax, 0},

		{`{"a":1,}`, canon.KindSyntax, 7}, {`[1,]`, canon.KindSyntax, 3}, {`[,1]`, canon.KindSyntax, 1},
		{`[1 2]`, canon.KindSyntax, 3}, {`{"a" 1}`, canon.KindSyntax, 5}, {`{a:1}`, canon.KindSyntax, 1},
		{`{'a':1}`, canon.KindSyntax, 1}, {`{1:1}`, canon.KindSyntax, 1}, {`[1}`, canon.KindSyntax, 2},
		{`{"a":1`, canon.KindSyntax, 6}, {`[`, canon.KindSyntax, 1}, {`{"a":`, canon.KindSyntax, 5},
		{`[1] // one`, canon.KindTrailing, 4}, {`/* */ 1`, canon.KindSyntax, 0},
		{`"abc`, canon.KindSyntax, 0}, {`"abc\`, canon.KindSyntax, 4}, {`"\x41"`, canon.KindSyntax, 1},
		{`"\u12g4"`, canon.KindSyntax, 1}, {`"\u12`, canon.KindSyntax, 1}, {`'a'`, canon.KindSyntax, 0},
		{"\"a\nb\"", canon.KindSyntax, 2}, {"\"0123456789\x1f\"", canon.KindSyntax, 11}, {"\u00a01", canon.KindSyntax, 0},
	} {
		err := canon.Valid([]byte(tc.src), nil)
		if err == nil {
			t.Errorf("Valid(%q): accepted", tc.src)
			continue
		}
		se := err.(*canon.SyntaxError)
		if se.Kind != tc.kind || se.Offset != tc.offset {
			t.Errorf("Valid(%q): got %s at %d, want %s at %d (%v)", tc.src, se.Kind, se.Offset, tc.kind, tc.offset, err)
		}
	}
}

// A log line with the error must not become a place where a card number lies.
func TestErrorsDoNotQuote(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	for _, src := range []string{
		`{"s3cr3t":1,"s3cr3t":2}`, `["s3cr3t"`, `"s3cr3t`, `"s3cr3t\ud800"`, `"s3cr3t" s3cr3t`, `s3cr3t`,
		`{"s3cr3t" "s3cr3t"}`, "\"s3cr3t\xff\"",
	} {
		err := canon.Valid([]byte(src), nil)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("Valid(%q): %v", src, err)
		}
	}
	err := canon.Valid([]byte(`{"a":1,"a":2}`), nil)
	const want = "invalid JSON at byte 7: an object has the same member name twice (give each member once; escapes do not make names differ)"
	if got := err.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, tc := range []struct {
		name, src string
		o         *canon.Options
		want      canon.Kind
	}{
		{"depth 128", nested(128), nil, ""},
		{"depth 129", nested(129), nil, canon.KindDepth},
		{"objects 128", objects(128), nil, ""},
		{"objects 129", objects(129), nil, canon.KindDepth},
		{"10,000 deep", nested(10_000), nil, canon.KindDepth},
		{"10,000 deep, unclosed", strings.Repeat("[", 10_000), nil, canon.KindDepth},
		{"10,000 deep, allowed", nested(10_000), &canon.Options{MaxDepth: 10_000}, ""},
		{"wide is not deep", "[" + strings.Repeat("[],", 1000) + "[]]", &canon.Options{MaxDepth: 2}, ""},
		{"1 MiB", `"` + strings.Repeat("x", 1<<20-2) + `"`, nil, ""},
		{"1 MiB and a byte", `"` + strings.Repeat("x", 1<<20-1) + `"`, nil, canon.KindSize},
		{"own size", `[1,2]`, &canon.Options{MaxBytes: 5}, ""},
		{"own size exceeded", `[1,2] `, &canon.Options{MaxBytes: 5}, canon.KindSize},
	} {
		err := canon.Valid([]byte(tc.src), tc.o)
		if kind(err) != tc.want || err != nil && tc.want == "" {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}
