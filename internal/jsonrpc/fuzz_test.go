package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// FuzzSplice holds what this package does by looking for commas against what
// encoding/json does by decoding all of it.
func FuzzSplice(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": 1}}`), "id", []byte(`{"x":[]}`))
	f.Add([]byte(` { "\u0061" : "}" , "b":[ 1 , {} ] } `), "a", []byte(`"\""`))
	f.Add([]byte(`[1,[2],{"a":"]"}]`), "", []byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte, name string, value []byte) {
		value = bytes.TrimSpace(value)
		if !json.Valid(b) || !utf8.Valid(b) || !utf8.ValidString(name) || !json.Valid(value) {
			_, _ = jsonrpc.Parse(b) // must not panic
			return
		}
		var object map[string]json.RawMessage
		var array []json.RawMessage
		switch {
		case json.Unmarshal(b, &object) == nil && object != nil:
			parsed(t, b, object)
			if jsonrpc.Duplicate(b) == "" {
				spliced(t, b, object, name, value)
			}
		case json.Unmarshal(b, &array) == nil && array != nil:
			appended(t, b, array, value)
		}
	})
}

func spliced(t *testing.T, b []byte, object map[string]json.RawMessage, name string, value []byte) {
	got := map[string]json.RawMessage{}
	jsonrpc.Members(b, func(n string, v json.RawMessage) bool {
		got[n] = v
		return true
	})
	if d := cmp.Diff(object, got); d != "" {
		t.Fatalf("members of %s: %s", b, d)
	}
	old, there := object[name]
	if g := jsonrpc.Get(b, name); !bytes.Equal(g, old) || (g != nil) != there {
		t.Fatalf("get %q of %s: %s", name, b, g)
	}

	set := jsonrpc.Set(b, value, name)
	want := maps.Clone(object)
	want[name] = value
	same(t, "set", b, set, want)
	changed(t, "set", b, set, len(old), there && len(set) == len(b)-len(old)+len(value) || !there)

	deleted := jsonrpc.Delete(b, name)
	delete(want, name)
	same(t, "delete", b, deleted, want)
	changed(t, "delete", b, deleted, len(b)-len(deleted), true)
	if !there && !bytes.Equal(b, deleted) {
		t.Errorf("delete of nothing made %s of %s", deleted, b)
	}
}

func appended(t *testing.T, b []byte, array []json.RawMessage, value []byte) {
	if d := cmp.Diff(array, append([]json.RawMessage{}, jsonrpc.Elements(b)...)); d != "" {
		t.Fatalf("elements of %s: %s", b, d)
	}
	out := jsonrpc.Append(b, value)
	var got []json.RawMessage
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("append made %s of %s: %v", out, b, err)
	}
	if d := cmp.Diff(append(array, value), got); d != "" {
		t.Errorf("append made %s of %s: %s", out, b, d)
	}
	changed(t, "append", b, out, 0, true)
}

func same(t *testing.T, what string, b, out []byte, want map[string]json.RawMessage) {
	var got map[string]json.RawMessage
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s made %s of %s: %v", what, out, b, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s made %s of %s: %s", what, out, b, d)
	}
}

// changed checks that n bytes in a row were replaced, and no other.
func changed(t *testing.T, what string, b, out []byte, n int, length bool) {
	prefix, suffix := 0, 0
	for prefix < min(len(b), len(out)) && b[prefix] == out[prefix] {
		prefix++
	}
	for suffix < min(len(b), len(out)) && b[len(b)-1-suffix] == out[len(out)-1-suffix] {
		suffix++
	}
	if length && len(out) >= len(b)-n && prefix+n+suffix >= len(b) {
		return
	}
	t.Errorf("%s touched other bytes: %s became %s", what, b, out)
}

func parsed(t *testing.T, b []byte, object map[string]json.RawMessage) {
	m, err := jsonrpc.Parse(b)
	var version, method string
	_ = json.Unmarshal(object["method"], &method)
	if err != nil {
		_ = json.Unmarshal(object["jsonrpc"], &version)
		plain := bytes.Equal(object["jsonrpc"], []byte(`"2.0"`)) && method != "" && object["id"] == nil &&
			object["result"] == nil && object["error"] == nil && jsonrpc.Duplicate(b) == ""
		if plain {
			t.Errorf("%s: %v", b, err)
		}
		return
	}
	if jsonrpc.Duplicate(b) != "" {
		t.Errorf("%s: a member that is there twice was let through", b)
	}
	got := []json.RawMessage{m.ID, m.Params, m.Result, m.Error}
	want := []json.RawMessage{object["id"], object["params"], object["result"], object["error"]}
	if d := cmp.Diff(want, got); d != "" || m.Method != method || !bytes.Equal(m.Raw, b) {
		t.Errorf("%s: method %q %s", b, m.Method, d)
	}
}
