package celexpr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

func env(t testing.TB) *celexpr.Env {
	t.Helper()
	e, err := celexpr.NewEnv(map[string]celexpr.Kind{"args": celexpr.Any, "wire_key": celexpr.Text, "status": celexpr.Int,
		"at": celexpr.Time, "headers": celexpr.TextMap})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func vars(t testing.TB, args string) celexpr.Vars {
	t.Helper()
	v, err := celexpr.Value([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	return celexpr.Vars{"args": v, "wire_key": "00112233445566778899aabbccddeeff", "status": 200,
		"at": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "headers": map[string]string{"x-id": "7"}}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	const args = `{"n":9007199254740993,"u":18446744073709551615,"d":10.10,"long":0.12345678901234567890,"huge":1e999,
		"list":[3,1,2],"m":{"b":1,"a":{"z":null,"y":"<&>"}},"s":"x"}`
	for source, want := range map[string]string{
		"args.n":                         "9007199254740993",
		"args.n + 1":                     "9007199254740994",
		"args.u":                         "18446744073709551615",
		"args.d":                         "10.1",
		"args.d * 2.0":                   "20.2",
		"args.long":                      "0.12345678901234567890",
		"args.long < 0.2":                "true",
		"args.huge":                      "1e999",
		"args.list":                      "[3,1,2]",
		"args.m":                         `{"a":{"y":"<&>","z":null},"b":1}`,
		"args":                           `{"d":10.1,"huge":1e999,"list":[3,1,2],"long":0.12345678901234567890,"m":{"a":{"y":"<&>","z":null},"b":1},"n":9007199254740993,"s":"x","u":18446744073709551615}`,
		"args.map(k, k)":                 `["d","huge","list","long","m","n","s","u"]`,
		"args.?none":                     "null",
		"args.?m.?a.?y.orValue('')":      `"<&>"`,
		"has(args.s) && !has(args.none)": "true",
		"args.n == 9007199254740993 && args.n != 9007199254740992": "true",
		"args.d == 10.1 && args.list[0] > 2.5":                     "true",
		"at":                                                       `"2026-01-02T03:04:05Z"`,
		"at - duration('5s') < at":                                 "true",
		"headers['x-id'] + '-' + args.s":                           `"7-x"`,
		"headers[?'y'].orValue('none')":                            `"none"`,
		"uuid(wire_key)":                                           `"00112233-4455-4677-8899-aabbccddeeff"`,
		"uuid('any')[14] == '4'":                                   "",
		"base64.encode(b'hi')":                                     `"aGk="`,
		"{'b': 1, 'a': [args.s]}":                                  `{"a":["x"],"b":1}`,
	} {
		x, err := env(t).Compile(source)
		if want == "" {
			if err == nil {
				t.Errorf("%s: compiled", source)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		r, err := x.Eval(vars(t, args))
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := r.JSON(); string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", source, got, err, want)
		}
	}
}

func TestErrorsAndBounds(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"args.none", "args.s.x", "args.list[9]", "args.s > 1", "status / 0",
		"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))"} {
		x, err := env(t).Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := x.Eval(vars(t, `{"s":"x","list":[]}`)); err == nil {
			t.Errorf("%.40s: gave %v", source, r)
		}
	}
	for _, source := range []string{"", "args.", "attempt", "status.x(", strings.Repeat("1+", 20_000) + "1"} {
		if _, err := env(t).Compile(source); err == nil {
			t.Errorf("%.40s: compiled", source)
		}
	}
	if _, err := env(t).CompileBool("status"); err == nil {
		t.Error("a number is no condition")
	}
	x, err := env(t).CompileBool("args.s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Bool(vars(t, `{"s":"true"}`)); err == nil {
		t.Error("the text true is no condition")
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	v := vars(t, `{"s":"x}y","n":5,"none":null,"list":["a",1]}`)
	secrets := map[string]string{"a/b": "hidden"}
	for source, want := range map[string]string{
		"plain":                   "plain",
		"":                        "",
		"${args.s}":               "x}y",
		"a${args.n}b${args.s}c":   "a5bx}yc",
		"$${args.n} $$ $ {} }":    "${args.n} $$ $ {} }",
		"${'}' + args.s + \"{\"}": "}x}y{",
		"${ {'a': '}'}.a }":       "}",
		"${'it\\'s }'}":           "it's }",
		"${r'\\' + '}'}":          "\\}",
		"${'''a'}b'''}":           "a'}b",
		"${secret:a/b}":           "hidden",
		"Bearer ${ secret:a/b }":  "Bearer hidden",
		"${args.n == 5 ? 'yes' : string(args.n)}": "yes",
	} {
		x, err := env(t).Template(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, ok, err := x.Text(v, secrets, nil); got != want || !ok || err != nil {
			t.Errorf("%s: got %q, %t, %v; want %q", source, got, ok, err, want)
		}
	}
	for _, source := range []string{"${args.?none2}", "${args.none}"} {
		x, _ := env(t).Template(source)
		if _, ok, err := x.Text(v, nil, nil); ok || err != nil {
			t.Errorf("%s: %t, %v; want nothing", source, ok, err)
		}
	}
	for _, source := range []string{"a${args.none}", "${args.list}", "${args.gone}", "${secret:gone}"} {
		x, err := env(t).Template(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := x.Text(v, nil, nil); err == nil {
			t.Errorf("%s: gave %q", source, got)
		}
	}
	for _, source := range []string{"${", "${}", "${ }", "${'}", "${args.", "${secret:}", "${secret:a b}", "${secret:args.s + 'x'}", "${{}"} {
		if _, err := env(t).Template(source); err == nil {
			t.Errorf("%s: accepted", source)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for source, ok := range map[string]bool{"at": true, "'2026-01-02T03:04:05Z'": true, "'2026-01-02T05:04:05+02:00'": true, "1767323045": true,
		"1767323045000": true, "1767323045.0": true, "'soon'": false, "true": false, "1e300": false} {
		x, err := env(t).Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Eval(vars(t, "{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Time(); (err == nil) != ok || ok && !got.Equal(want) {
			t.Errorf("%s: %v, %v", source, got, err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "${args.s}", "$${", "${'}'}", "a?b${args[\"?\"]}?c", "${{}", "$$${args.n}", "${'''}"} {
		f.Add(s)
	}
	e := env(f)
	v := vars(f, `{"s":"x","n":1}`)
	f.Fuzz(func(t *testing.T, source string) {
		before, after := celexpr.Cut(source, '?')
		if whole := before + "?" + after; before != source && whole != source {
			t.Errorf("cut %q into %q and %q", source, before, after)
		}
		x, err := e.Template(source)
		if err != nil {
			return
		}
		got, _, err := x.Text(v, nil, nil)
		if !strings.Contains(source, "${") && (err != nil || got != source) {
			t.Errorf("%q without placeholders gave %q, %v", source, got, err)
		}
	})
}

func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"0", "-0", "1e5", "9007199254740993", "0.1", "1e400", "-1.50", "123456789012345678901234567890"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := celexpr.Value([]byte(text))
		if err != nil {
			return
		}
		out, err := celexpr.ToJSON(v)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		again, err := celexpr.Value(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		if twice, err := celexpr.ToJSON(again); err != nil || string(twice) != string(out) {
			t.Errorf("%q became %q, then %q (%v)", text, out, twice, err)
		}
	})
}
