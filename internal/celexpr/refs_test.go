package celexpr_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

func spelled(list []celexpr.Ref) string {
	var out []string
	for _, r := range list {
		s := strings.Join(r.Path, ".")
		if r.Optional {
			s += "?"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestRefs(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"args.a":                     "args.a",
		"args.?a.b":                  "args.a.b?",
		"args.?m.?a.orValue(args.b)": "args.m.a? args.b",
		"args['order-id'] + args[?'x'].orValue('')":   "args.order-id args.x?",
		"args.lines[0].sku":                           "args.lines.*.sku",
		"args.lines[args.n].sku":                      "args.n args.lines.*.sku",
		"has(args.a.b) ? args.a.b : ''":               "args.a.b? args.a.b",
		"args.lines.all(l, l.sku == body.sku)":        "args.lines args.lines.*.sku body.sku",
		"body.data.exists(args, args.id == wire_key)": "body.data body.data.*.id wire_key",
		"[1].map(args, args)":                         "",
		"args.?note.optMap(n, n + tool)":              "args.note? tool",
		"uuid(wire_key)":                              "wire_key",
		"{'a': [args.a], args.k: 1}":                  "args.a args.k",
		"f(args.a).b":                                 "args.a",
		"'args.a'":                                    "",
		"args.":                                       "",
	} {
		if got := spelled(celexpr.Refs(source)); got != want {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
	const text = "${args.a}/$${args.b}/${secret:env/ARGS}/${args.?c}"
	if got, want := spelled(celexpr.TemplateRefs(text)), "args.a args.c?"; got != want {
		t.Errorf("%s: got %q, want %q", text, got, want)
	}
}

func TestEachRef(t *testing.T) {
	t.Parallel()
	v := map[string]any{"t": map[string]any{"a/b": []any{"x", "${args.a}"}}, "x": "args.b", "n": 1, "none": nil}
	var got []string
	celexpr.EachRef(v, func(at string) bool { return at == "/x" }, func(at string, r celexpr.Ref) {
		got = append(got, at+" "+strings.Join(r.Path, "."))
	})
	if diff := cmp.Diff([]string{"/t/a~1b/1 args.a", "/x args.b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
