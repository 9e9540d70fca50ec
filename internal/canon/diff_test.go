package canon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/canon"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		a, b string
		o    *canon.Options
		want []string
	}{
		{"equal", `{"a":1.0,"b":"x"}`, `{"b":"\u0078","a":1}`, nil, nil},
		{"amount", `{"amount":9900,"to":"x"}`, `{"amount":9901,"to":"x"}`, nil, []string{"/amount"}},
		{"root scalar", `1`, `2`, nil, []string{""}},
		{"root types", `{}`, `[]`, nil, []string{""}},
		{"absent on either side", `{"a":1,"c":3}`, `{"b":2,"c":3}`, nil, []string{"/a", "/b"}},
		{"null and absent", `{"a":null}`, `{}`, nil, []string{"/a"}},
		{"deep", `{"o":{"p":[1,{"q":2}]}}`, `{"o":{"p":[1,{"q":3}]}}`, nil, []string{"/o/p/1/q"}},
		{"absent subtree", `{"o":{"p":{"q":1}}}`, `{"o":{}}`, nil, []string{"/o/p"}},
		{"other type", `{"o":{"p":1}}`, `{"o":[1]}`, nil, []string{"/o"}},
		{"sorted", `{"é":1,"b":{"z":1,"a":1},"a":1}`, `{"é":2,"b":{"z":2,"a":2},"a":2}`, nil, []string{"/a", "/b/a", "/b/z", "/é"}},
		{"escaped", `{"a/b":1,"m~n":1,"q\"\n":1}`, `{"a/b":2,"m~n":2,"q\"\n":2}`, nil, []string{"/a~1b", "/m~0n", "/q\"\n"}},
		{"elements", `[1,2,3]`, `[1,5,6]`, nil, []string{"/1", "/2"}},
		{"added at the end", `[1,2]`, `[1,2,3,4]`, nil, []string{"/2", "/3"}},
		{"first element", `{"l":[]}`, `{"l":[1]}`, nil, []string{"/l/0"}},
		{"moved", `{"l":[1,2,3]}`, `{"l":[2,3]}`, nil, []string{"/l"}},
		{"utf-16 order while merging", "{\"\U0001F600\":1,\"\ufb33\":1}", "{\"\ufb33\":1}", nil, []string{"/\U0001F600"}},

		{"ignored", `{"a":1,"t":1}`, `{"a":1,"t":2}`, &canon.Options{Ignore: ptrs("/t")}, nil},
		{"ignored absent", `{"a":1,"t":1}`, `{"a":2}`, &canon.Options{Ignore: ptrs("/t")}, []string{"/a"}},
		{"set equal", `{"s":[1,2]}`, `{"s":[2,1]}`, &canon.Options{Sets: ptrs("/s")}, nil},
		{"set as a whole", `{"s":[1,2]}`, `{"s":[2,3]}`, &canon.Options{Sets: ptrs("/s")}, []string{"/s"}},
		{"multiset", `[1,1]`, `[1]`, &canon.Options{Sets: ptrs("")}, []string{""}},
		{"shifted indices", `{"l":[0,1,2]}`, `{"l":[0,1,3]}`, &canon.Options{Ignore: ptrs("/l/0")}, []string{"/l"}},
		{"indices shifted by a null", `{"l":[null,1,2]}`, `{"l":[null,1,3]}`, &canon.Options{NullIsAbsent: ptrs("/l/*")}, []string{"/l"}},
		{"default", `{}`, `{"n":1}`, &canon.Options{Defaults: []canon.Default{def("/n", "1")}}, nil},
		{"not the default", `{}`, `{"n":2}`, &canon.Options{Defaults: []canon.Default{def("/n", "1")}}, []string{"/n"}},
		{"instant", `{"at":"2026-01-01T00:00:00Z"}`, `{"at":"2026-01-01T01:00:00+01:00"}`, &canon.Options{Instants: ptrs("/at")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, pair := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
				got, err := canon.Diff([]byte(pair[0]), []byte(pair[1]), tc.o)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("Diff(%s, %s) (-want +got):\n%s", pair[0], pair[1], diff)
				}
			}
		})
	}
}

func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	var a, b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&a, `,"m%04d":1`, i)
		fmt.Fprintf(&b, `,"m%04d":2`, i)
	}
	for _, pair := range [][2]string{
		{"{" + a.String()[1:] + "}", "{" + b.String()[1:] + "}"},
		{"{" + a.String()[1:] + "}", "{}"},
		{"[" + strings.Repeat("1,", 1000) + "1]", "[" + strings.Repeat("2,", 1000) + "1]"},
		{"[" + strings.Repeat("1,", 1000) + "1]", "[]"},
	} {
		got, err := canon.Diff([]byte(pair[0]), []byte(pair[1]), nil)
		if err != nil || len(got) != canon.MaxDiffs {
			t.Errorf("got %d pointers, %v", len(got), err)
		}
	}
}

func TestDiffErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ a, b, want string }{
		{`{`, `{}`, "first document: invalid JSON at byte 1"},
		{`{}`, `{`, "second document: invalid JSON at byte 1"},
	} {
		_, err := canon.Diff([]byte(tc.a), []byte(tc.b), nil)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || kind(err) != canon.KindSyntax {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
}
