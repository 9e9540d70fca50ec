package jsonrpc_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

func TestSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		path []string
		want string
	}{
		{`{}`, []string{"a"}, `{"a":1}`},
		{` { } `, []string{"a"}, ` { "a":1} `},
		{`{"b" : 1.0, "c":[ ]}`, []string{"a"}, `{"b" : 1.0, "c":[ ],"a":1}`},
		{`{"a" : "x}" , "b":2}`, []string{"a"}, `{"a" : 1 , "b":2}`},
		{`{"\u0061":{"x": 0}}`, []string{"a"}, `{"\u0061":1}`},
		{`{"A":0}`, []string{"a"}, `{"A":0,"a":1}`},
		{`{"a":{"b":{}}}`, []string{"a", "b", "c"}, `{"a":{"b":{"c":1}}}`},
		{`{"a":{"x":"\"{"}}`, []string{"a", "b", "c"}, `{"a":{"x":"\"{","b":{"c":1}}}`},
		{`{"a":[1]}`, []string{"a", "b"}, `{"a":{"b":1}}`},
		{`{"x":{"a":0},"a":0}`, []string{"a"}, `{"x":{"a":0},"a":1}`},
		{`null`, []string{"a"}, `{"a":1}`},
		{``, []string{"a", "<b>"}, `{"a":{"\u003cb\u003e":1}}`},
		{`{"a":0}`, nil, `1`},
	} {
		in := []byte(c.in)
		if got := string(jsonrpc.Set(in, json.RawMessage("1"), c.path...)); got != c.want {
			t.Errorf("%s %v: got %s, want %s", c.in, c.path, got, c.want)
		}
		if string(in) != c.in {
			t.Errorf("%s was changed to %s", c.in, in)
		}
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		path []string
		want string
	}{
		{`{"a":1}`, []string{"a"}, `{}`},
		{`{ "a" : 1 }`, []string{"a"}, `{  }`},
		{`{"a":1, "b":2}`, []string{"a"}, `{"b":2}`},
		{`{"a":1, "b":2, "c":3}`, []string{"b"}, `{"a":1, "c":3}`},
		{`{"a":1 , "b":2 }`, []string{"b"}, `{"a":1 }`},
		{`{"b":1}`, []string{"a"}, `{"b":1}`},
		{`{"x":{"a":[1],"b":2},"a":0}`, []string{"x", "a"}, `{"x":{"b":2},"a":0}`},
		{`{"x":1}`, []string{"x", "a"}, `{"x":1}`},
		{`[1]`, []string{"a"}, `[1]`},
		{`{"a":1}`, nil, `{"a":1}`},
	} {
		in := []byte(c.in)
		if got := string(jsonrpc.Delete(in, c.path...)); got != c.want {
			t.Errorf("%s %v: got %s, want %s", c.in, c.path, got, c.want)
		}
		if string(in) != c.in {
			t.Errorf("%s was changed to %s", c.in, in)
		}
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`[]`: `[9]`, ` [ ] `: ` [ 9] `, `[1]`: `[1,9]`, `[[1, 2 ], "]" ]`: `[[1, 2 ], "]" ,9]`, `null`: `[9]`, ``: `[9]`,
	} {
		if got := string(jsonrpc.Append([]byte(in), json.RawMessage("9"))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestReading(t *testing.T) {
	t.Parallel()
	b := []byte(` {"s":"a\u0062\"c","o":{"n": null ,"e":[{ }, "x,]" ,-1e5]},"s2":5} `)
	if got := jsonrpc.String(b, "s"); got != `ab"c` {
		t.Errorf("got %q", got)
	}
	for _, path := range [][]string{{"s2"}, {"o"}, {"none"}, {"s", "x"}} {
		if got := jsonrpc.String(b, path...); got != "" {
			t.Errorf("%v: got %q", path, got)
		}
	}
	if got := jsonrpc.Get(b, "o", "n"); string(got) != "null" {
		t.Errorf("got %s", got)
	}
	var elements []string
	for _, e := range jsonrpc.Elements(jsonrpc.Get(b, "o", "e")) {
		elements = append(elements, string(e))
	}
	if d := cmp.Diff([]string{"{ }", `"x,]"`, "-1e5"}, elements); d != "" {
		t.Error(d)
	}
	var names []string
	jsonrpc.Members(b, func(name string, _ json.RawMessage) bool {
		names = append(names, name)
		return name != "o"
	})
	if d := cmp.Diff([]string{"s", "o"}, names); d != "" {
		t.Error(d)
	}
	for in, want := range map[string]string{`{"a":1,"b":{"a":2}}`: "", `{"a":1,"\u0061":2}`: "a", `[1,1]`: "", "{\"\xff\":1,\"\xfe\":2}": "\ufffd"} {
		if got := jsonrpc.Duplicate([]byte(in)); got != want {
			t.Errorf("%s: got %q", in, got)
		}
	}
	if jsonrpc.Elements([]byte(`{}`)) != nil || jsonrpc.IsObject([]byte("[]")) || jsonrpc.IsObject(nil) {
		t.Error("an object and an array were taken for each other")
	}
}
