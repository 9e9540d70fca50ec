package canon_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/canon"
)

var seeds = []string{
	small, `{"b":[1.0,-0,1e2],"a":{"é":null,"\u00e8":"\ud83d\ude00"}}`, `[[],{},"",true,false,null]`,
	`{"a":1,"\u0061":2}`, `"\ud800"`, "\"\xff\"", `1e400`, `1e-401`, `0e99999999999`, `{"😀":1,"דּ":2,"a\n":3}`,
	`{"t":1,"s":[3,{"n":null},1],"at":"2026-01-01T01:00:00.10+01:00","o":{"x":null}}`,
	`123456789012345678901234567890.1234567890e-3`, "[1,2", `{"a":`, `"\u00`, strings.Repeat("[", 200),
}

// value decodes JSON with numbers kept apart by value, as an independent reading.
func value(t *testing.T, src []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", src, err)
	}
	return exact(v)
}

// exact replaces numbers by the canonical text of math/big.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		mantissa, _, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if strings.Trim(mantissa, "-0.") == "" {
			return big.NewRat(0, 1).String() // math/big would write out the exponent
		}
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			panic("math/big refuses " + v.String())
		}
		return r.String() + " as a number"
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

func FuzzAppend(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		canon.Find(src, canon.Pointer{"a", "0", ""}) // no panic, whatever it is given
		before := bytes.Clone(src)
		out, err := canon.Append(nil, src, nil)
		if !bytes.Equal(before, src) {
			t.Fatal("src was changed")
		}
		if err != nil {
			switch kind(err) {
			case canon.KindSyntax, canon.KindTrailing:
				if json.Valid(src) {
					t.Fatalf("encoding/json accepts %q: %v", src, err)
				}
			case "":
				t.Fatalf("%v is no SyntaxError", err)
			}
			return
		}
		if !json.Valid(src) {
			t.Fatalf("encoding/json refuses %q", src)
		}
		if diff := cmp.Diff(value(t, src), value(t, out)); diff != "" {
			t.Fatalf("the canonical form of %q means something else:\n%s", src, diff)
		}
		if len(out) > canon.DefaultMaxBytes {
			return
		}
		again, err := canon.Append(nil, out, nil)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("canonical form of %q: %q, %v", out, again, err)
		}
	})
}

// Two numbers have one canonical form exactly if they have one value.
func FuzzNumbers(f *testing.F) {
	f.Add("1.0", "10e-1")
	f.Add("9007199254740993", "9007199254740992")
	f.Add("-0.00", "0e5")
	f.Add("1e41", "100000000000000000000000000000000000000000")
	f.Add("0.1", "0.10000000000000001")
	f.Fuzz(func(t *testing.T, a, b string) {
		ca, errA := canon.Append(nil, []byte(a), nil)
		cb, errB := canon.Append(nil, []byte(b), nil)
		if errA != nil || errB != nil {
			return
		}
		same := cmp.Equal(value(t, []byte(a)), value(t, []byte(b)))
		if bytes.Equal(ca, cb) != same {
			t.Fatalf("%s gives %s, %s gives %s; same: want %v", a, ca, b, cb, same)
		}
	})
}

// Diff is empty exactly if the canonical forms are equal, and what it names does differ.
func FuzzDiff(f *testing.F) {
	for i, s := range seeds {
		f.Add([]byte(s), []byte(seeds[(i+1)%len(seeds)]))
	}
	f.Add([]byte(`{"a":[1,{"b":2}],"c":3}`), []byte(`{"a":[1,{"b":3}],"d":3}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ca, errA := canon.Append(nil, a, nil)
		cb, errB := canon.Append(nil, b, nil)
		diff, err := canon.Diff(a, b, nil)
		if (err != nil) != (errA != nil || errB != nil) {
			t.Fatalf("Diff: %v; Append: %v, %v", err, errA, errB)
		}
		if err != nil {
			return
		}
		if bytes.Equal(ca, cb) != (len(diff) == 0) {
			t.Fatalf("%s and %s differ at %q", ca, cb, diff)
		}
		for _, s := range diff {
			p, err := canon.ParsePointer(s)
			if err != nil {
				t.Fatal(err)
			}
			va, okA := canon.Find(ca, p)
			vb, okB := canon.Find(cb, p)
			if !okA && !okB || okA && okB && bytes.Equal(va, vb) {
				t.Fatalf("%s and %s do not differ at %q", ca, cb, s)
			}
		}
	})
}

// Rules without array indices are idempotent, and never let through what is refused without them.
func FuzzRules(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	o := &canon.Options{
		Ignore: ptrs("/t", "/*/t"), Sets: ptrs("/s", "/s/*"), Instants: ptrs("/at", "/s/*"),
		NFC: ptrs("/b", "/o/*"), Normalize: compose, NullIsAbsent: ptrs("/o/*", "/n", "/s/*/n"),
		Defaults: []canon.Default{def("/n", `{"m":[1.0]}`), def("/o/x", `"e"`), def("/s/*/z", "0"), def("/é", "1")},
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := canon.Append(nil, src, o)
		if plain := canon.Valid(src, nil); (err == nil) != (plain == nil) {
			t.Fatalf("with rules %v, without %v", err, plain)
		}
		if err != nil || len(out) > canon.DefaultMaxBytes {
			return
		}
		again, err := canon.Append(nil, out, o)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%q under rules: %q, then %q, %v", src, out, again, err)
		}
		if canon.Valid(out, nil) != nil {
			t.Fatalf("%q under rules is %q, which is not valid", src, out)
		}
		if diff, err := canon.Diff(src, out, o); err != nil || len(diff) > 0 {
			t.Fatalf("%q and its form %q differ at %q, %v", src, out, diff, err)
		}
	})
}
