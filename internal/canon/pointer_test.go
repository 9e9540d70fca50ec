package canon_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/canon"
)

// The document and the answers of RFC 6901, section 5, and some more.
func TestLookup(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6,
		" ": 7, "m~n": 8, "o": {"z": 1.0, "y": [[], {"é": "\u00e9"}]}, "*": "star", "0": null}`)
	for p, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/foo/1": `"baz"`, "/": `0`, "/a~1b": `1`, "/c%d": `2`,
		"/e^f": `3`, "/g|h": `4`, "/i\\j": `5`, "/k\"l": `6`, "/ ": `7`, "/m~0n": `8`,
		"/o/z": `1`, "/o/y/1/é": `"é"`, "/o/y/0": `[]`, "/*": `"star"`, "/0": `null`, "/o": `{"y":[[],{"é":"é"}],"z":1}`,
		"/foo/2": "", "/foo/-": "", "/foo/01": "", "/foo/+1": "", "/foo/*": "", "/foo/99999999999999999999": "",
		"/nope": "", "/foo/0/x": "", "/o/z/0": "", "/o/y/0/0": "", "//": "",
	} {
		got, ok, err := canon.Lookup(doc, ptrs(p)[0])
		if err != nil || ok != (want != "") || string(got) != want {
			t.Errorf("Lookup(%s) = %s, %v, %v; want %s", p, got, ok, err, want)
		}
	}
	if got, ok, err := canon.Lookup([]byte(` [1.0] `), nil); string(got) != "[1]" || !ok || err != nil {
		t.Errorf("root: %s, %v, %v", got, ok, err)
	}
	if _, _, err := canon.Lookup([]byte(`{"a":1,"b":}`), canon.Pointer{"a"}); err == nil {
		t.Error("invalid document: no error")
	}
}

func TestPointer(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]canon.Pointer{
		"": {}, "/": {""}, "/a/b": {"a", "b"}, "/a~1b/~0/~01/~10": {"a/b", "~", "~1", "/0"}, "//": {"", ""}, "/é\n": {"é\n"},
	} {
		got, err := canon.ParsePointer(s)
		if err != nil {
			t.Errorf("ParsePointer(%q): %v", s, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParsePointer(%q) (-want +got):\n%s", s, diff)
		}
		if got.String() != s {
			t.Errorf("String() = %q, want %q", got.String(), s)
		}
	}
	for _, s := range []string{"a", "#/a", "#", "/~", "/a~", "/~2", "/~~0", "/\xff", " /a"} {
		if p, err := canon.ParsePointer(s); err == nil {
			t.Errorf("ParsePointer(%q) = %q", s, p)
		}
	}
	var list []canon.Pointer
	if err := json.Unmarshal([]byte(`["/a~1b",""]`), &list); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(list); err != nil || string(out) != `["/a~1b",""]` {
		t.Errorf("got %s, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`["a"]`), &list); err == nil {
		t.Error("a bad pointer was unmarshalled")
	}
}
