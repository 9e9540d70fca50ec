package canon_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/canon"
)

// ptrs parses pointers that are known to be right.
func ptrs(list ...string) []canon.Pointer {
	var out []canon.Pointer
	for _, s := range list {
		p, err := canon.ParsePointer(s)
		if err != nil {
			panic(err)
		}
		out = append(out, p)
	}
	return out
}

func def(p, v string) canon.Default { return canon.Default{Pointer: ptrs(p)[0], Value: []byte(v)} }

// compose stands in for Unicode NFC: it knows one letter.
func compose(s []byte) []byte { return bytes.ReplaceAll(s, []byte("e\u0301"), []byte("\u00e9")) }

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		o         *canon.Options
		src, want string
	}{
		{"ignore a member", &canon.Options{Ignore: ptrs("/trace")}, `{"b":1,"trace":{"x":[1]},"a":2}`, `{"a":2,"b":1}`},
		{"ignore all members", &canon.Options{Ignore: ptrs("/a", "/b")}, `{"a":1,"b":2}`, `{}`},
		{"ignore an escaped name", &canon.Options{Ignore: ptrs("/a~1b", "/q\"")}, `{"\u0061/b":1,"q\"":2,"c":3}`, `{"c":3}`},
		{"ignore deep", &canon.Options{Ignore: ptrs("/a/0/x")}, `{"a":[{"x":1,"y":2},{"x":3}]}`, `{"a":[{"y":2},{"x":3}]}`},
		{"ignore any", &canon.Options{Ignore: ptrs("/a/*/x")}, `{"a":[{"x":1,"y":2},{"x":3}]}`, `{"a":[{"y":2},{}]}`},
		{"ignore any member", &canon.Options{Ignore: ptrs("/*/id")}, `{"p":{"id":1},"q":{"id":2,"n":3},"id":4}`, `{"id":4,"p":{},"q":{"n":3}}`},
		{"ignore elements as sent", &canon.Options{Ignore: ptrs("/0", "/2")}, `["a","b","c","d"]`, `["b","d"]`},
		{"ignore every element", &canon.Options{Ignore: ptrs("/*")}, `[1,2]`, `[]`},
		{"ignore the last", &canon.Options{Ignore: ptrs("/1")}, `[1,2]`, `[1]`},
		{"ignore of another shape", &canon.Options{Ignore: ptrs("/a/b")}, `{"a":1}`, `{"a":1}`},

		{"set", &canon.Options{Sets: ptrs("/tags")}, `{"tags":["b","a","b",{"z":1,"y":2},10,9]}`, `{"tags":["a","b","b",10,9,{"y":2,"z":1}]}`},
		{"root set", &canon.Options{Sets: ptrs("")}, `[3,1,2]`, `[1,2,3]`},
		{"sets in a set", &canon.Options{Sets: ptrs("", "/*")}, `[[2,1],[0,3],[]]`, `[[0,3],[1,2],[]]`},
		{"set of ignored", &canon.Options{Sets: ptrs(""), Ignore: ptrs("/1")}, `[3,1,2]`, `[2,3]`},

		{"instant", &canon.Options{Instants: ptrs("/at")}, `{"at":"2026-01-01T01:30:00.500+01:30"}`, `{"at":"2026-01-01T00:00:00.5Z"}`},
		{"instants in an array", &canon.Options{Instants: ptrs("/*")}, `["2026-01-01t00:00:00.000z","no",7]`, `["2026-01-01T00:00:00Z","no",7]`},

		{"NFC", &canon.Options{NFC: ptrs("/body"), Normalize: compose}, "{\"body\":\"e\u0301\\n\",\"id\":\"e\u0301\"}", "{\"body\":\"\u00e9\\n\",\"id\":\"e\u0301\"}"},

		{"null is absent", &canon.Options{NullIsAbsent: ptrs("/a", "/l/*")}, `{"a":null,"b":null,"l":[null,1,null,"null"]}`, `{"b":null,"l":[1,"null"]}`},
		{"not null stays", &canon.Options{NullIsAbsent: ptrs("/a")}, `{"a":"null"}`, `{"a":"null"}`},

		{"default", &canon.Options{Defaults: []canon.Default{def("/b", ` 1.0 `)}}, `{"c":1,"a":2}`, `{"a":2,"b":1,"c":1}`},
		{"default not needed", &canon.Options{Defaults: []canon.Default{def("/b", `1`)}}, `{"b":2}`, `{"b":2}`},
		{"default into an empty object", &canon.Options{Defaults: []canon.Default{def("/b", `1`)}}, `{}`, `{"b":1}`},
		{"default and null", &canon.Options{Defaults: []canon.Default{def("/b", `1`)}}, `{"b":null}`, `{"b":null}`},
		{"default for null as absent", &canon.Options{Defaults: []canon.Default{def("/b", `1`)}, NullIsAbsent: ptrs("/b")}, `{"b":null,"a":2}`, `{"a":2,"b":1}`},
		{"default without parent", &canon.Options{Defaults: []canon.Default{def("/o/b", `1`)}}, `{}`, `{}`},
		{"default makes the parent", &canon.Options{Defaults: []canon.Default{def("/o/b", `1`), def("/o", `{}`)}}, `{}`, `{"o":{"b":1}}`},
		{"default everywhere", &canon.Options{Defaults: []canon.Default{def("/items/*/n", `1`)}}, `{"items":[{"n":2},{},3]}`, `{"items":[{"n":2},{"n":1},3]}`},
		{"default by the rules of its place", &canon.Options{Defaults: []canon.Default{def("/s", `[2,1]`)}, Sets: ptrs("/s")}, `{}`, `{"s":[1,2]}`},
		{"default ignored", &canon.Options{Defaults: []canon.Default{def("/s", `1`)}, Ignore: ptrs("/s")}, `{"a":1}`, `{"a":1}`},
		{"default on an array", &canon.Options{Defaults: []canon.Default{def("/0", `1`)}}, `[]`, `[]`},
		{"first default holds", &canon.Options{Defaults: []canon.Default{def("/a/x", `1`), def("/*/x", `2`)}}, `{"a":{},"b":{}}`, `{"a":{"x":1},"b":{"x":2}}`},
		{"default with a hard name", &canon.Options{Defaults: []canon.Default{def("/é\"", `1`)}}, `{"z":1}`, `{"z":1,"é\"":1}`},

		{"wildcard and name together", &canon.Options{Ignore: ptrs("/*/x"), Sets: ptrs("/a/l")}, `{"a":{"x":1,"l":[2,1]},"b":{"x":1,"l":[2,1]}}`, `{"a":{"l":[1,2]},"b":{"l":[2,1]}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, form(t, tc.src, tc.o)); diff != "" {
				t.Errorf("Append(%s) (-want +got):\n%s", tc.src, diff)
			}
		})
	}
}

func TestInstants(t *testing.T) {
	t.Parallel()
	o := &canon.Options{Instants: ptrs("")}
	for src, want := range map[string]string{
		"2026-02-03T04:05:06Z":                                  "2026-02-03T04:05:06Z",
		"2026-02-03T04:05:06+00:00":                             "2026-02-03T04:05:06Z",
		"2026-02-03T04:05:06-00:00":                             "2026-02-03T04:05:06Z",
		"2026-02-03T00:05:06+08:00":                             "2026-02-02T16:05:06Z",
		"2026-12-31T20:00:00-05:00":                             "2027-01-01T01:00:00Z",
		"2026-02-03T04:05:06.1234567890120":                     "",
		"2026-02-03T04:05:06.12345678901230000Z":                "2026-02-03T04:05:06.1234567890123Z",
		"2026-02-03T04:05:06." + strings.Repeat("9", 100) + "Z": "2026-02-03T04:05:06." + strings.Repeat("9", 100) + "Z",
		"2024-02-29T00:00:00Z":                                  "2024-02-29T00:00:00Z",
		"2026-02-29T00:00:00Z":                                  "",
		"2026-13-01T00:00:00Z":                                  "",
		"2026-01-00T00:00:00Z":                                  "",
		"2026-01-01T24:00:00Z":                                  "",
		"2016-12-31T23:59:60Z":                                  "",
		"2026-01-01T00:00:00.Z":                                 "",
		"2026-01-01T00:00:00":                                   "",
		"2026-01-01 00:00:00Z":                                  "",
		"2026-01-01T00:00:00+0100":                              "",
		"2026-01-01T00:00:00+24:00":                             "",
		"2026-01-01T00:00:00+01:60":                             "",
		"2026-01-01T00:00:00+1:000":                             "",
		"2026-01-01":                                            "",
		"0000-01-01T00:00:00+00:01":                             "",
		"9999-12-31T23:59:59-00:01":                             "",
		"":                                                      "",
	} {
		if want == "" {
			want = src // not an instant: kept
		}
		if got := form(t, `"`+src+`"`, o); got != `"`+want+`"` {
			t.Errorf("%s gives %s, want %s", src, got, want)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	var many []canon.Pointer
	for _, x := range "abcdefghijklmnop" {
		many = append(many, canon.Pointer{string(x), "*", "*", "*", "*", "*"}, canon.Pointer{"*", string(x), "*", "*", "*"},
			canon.Pointer{"*", "*", string(x), "*", "*"}, canon.Pointer{"*", "*", "*", string(x), "*"})
	}
	for _, tc := range []struct {
		o    *canon.Options
		want string
	}{
		{&canon.Options{NFC: ptrs("/a")}, "Normalize is not set"},
		{&canon.Options{Ignore: ptrs("")}, "whole document"},
		{&canon.Options{NullIsAbsent: ptrs("")}, "whole document"},
		{&canon.Options{Defaults: []canon.Default{def("", "1")}}, "member name"},
		{&canon.Options{Defaults: []canon.Default{def("/a/*", "1")}}, "member name"},
		{&canon.Options{Defaults: []canon.Default{def("/a", "{")}}, "invalid JSON"},
		{&canon.Options{Defaults: []canon.Default{def("/a", "[]")}, MaxDepth: 1}, "nested too deeply"},
		{&canon.Options{MaxBytes: -1}, "MaxBytes"},
		{&canon.Options{MaxDepth: 10_001}, "MaxDepth"},
		{&canon.Options{MaxExponent: 1 << 40}, "MaxExponent"},
		{&canon.Options{Ignore: ptrs("/a/b/c"), MaxDepth: 2}, "deeper than MaxDepth"},
		{&canon.Options{Ignore: many}, "too many"},
	} {
		err := tc.o.Check()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Check: got %v, want %q", err, tc.want)
		}
		if kind(err) != "" {
			t.Errorf("%v looks like a fault of the document", err)
		}
		if _, again := canon.Append(nil, []byte(`{}`), tc.o); again == nil || again.Error() != err.Error() {
			t.Errorf("Append: got %v, want %v", again, err)
		}
		if _, again := canon.Diff([]byte(`{}`), []byte(`{}`), tc.o); again == nil || again.Error() != err.Error() {
			t.Errorf("Diff: got %v, want %v", again, err)
		}
	}
	if err := (*canon.Options)(nil).Check(); err != nil {
		t.Error(err)
	}
	bad := &canon.Options{NFC: ptrs(""), Normalize: func([]byte) []byte { return []byte("\xff") }}
	if err := canon.Valid([]byte(`"a"`), bad); err == nil || kind(err) != "" {
		t.Errorf("invalid UTF-8 from Normalize: got %v", err)
	}
}

// Rules do not soften what is refused, not even in what is ignored.
func TestIgnoredIsStillChecked(t *testing.T) {
	t.Parallel()
	o := &canon.Options{Ignore: ptrs("/x"), NullIsAbsent: ptrs("/n"), Defaults: []canon.Default{def("/n", "1")}}
	for _, src := range []string{`{"x":{"a":1,"a":2}}`, `{"x":01}`, `{"x":1,"x":2}`, `{"n":null,"n":1}`, `{"n":1,"n":null}`, `{"n":null,"n":null}`} {
		if err := canon.Valid([]byte(src), o); err == nil {
			t.Errorf("Valid(%s): accepted", src)
		}
	}
}

func TestOptionsConcurrently(t *testing.T) {
	t.Parallel()
	o := &canon.Options{Ignore: ptrs("/t"), Sets: ptrs("/s"), NFC: ptrs("/b"), Normalize: compose}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got := form(t, "{\"t\":1,\"s\":[2,1],\"b\":\"e\u0301\"}", o); got != `{"b":"é","s":[1,2]}` {
					t.Errorf("got %s", got)
					return
				}
			}
		})
	}
	wg.Wait()
}
