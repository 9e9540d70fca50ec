package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 1, time.UTC)
	type op = justonce.Operation
	for _, c := range []struct {
		name      string
		got, want any
		differs   string // what the only line begins with; "": no line
	}{
		{"zero", &op{}, &op{}, ""},
		{"instants", &op{CreatedAt: at}, &op{CreatedAt: at.In(time.FixedZone("", 3600))}, ""},
		{"a nanosecond", &op{CreatedAt: at}, &op{CreatedAt: at.Add(1)}, `CreatedAt: got "2026-03-01T12:00:00.000000001Z", want`},
		{"empty and nil bodies", &op{Result: json.RawMessage{}}, &op{}, ""},
		{"bodies", &op{Result: json.RawMessage(`1`)}, &op{Result: json.RawMessage(`1.0`)}, `Result: got "1", want "1.0"`},
		{"embedded", &op{Status: justonce.Status{Fence: 1}}, &op{}, "Fence: got 1, want 0"},
		{"nil pointer", &op{Failure: &justonce.Failure{}}, &op{}, "Failure: got"},
		{"behind a pointer", &op{Failure: &justonce.Failure{Code: "a"}}, &op{Failure: &justonce.Failure{Code: "b"}}, `Failure.Code: got "a", want "b"`},
		{"no operation", (*op)(nil), &op{}, ": got"},
		{"lengths", []string{"a"}, []string{"a", "b"}, "len: got 1, want 2"},
		{"elements", []string{"a"}, []string{"b"}, `[0]: got "a", want "b"`},
		{"maps", map[string]string{"a": "1"}, map[string]string{"a": "2"}, `[a]: got "1", want "2"`},
		{"empty and nil maps", map[string]string{}, map[string]string(nil), ""},
		{"types", 1, "1", ": got"},
	} {
		got := diff(c.got, c.want)
		line, found := strings.CutPrefix(got, "\t")
		if found != (c.differs != "") || !strings.HasPrefix(line, c.differs) || strings.Contains(line, "\n") {
			t.Errorf("%s: diff = %q, want a line beginning with %q", c.name, got, c.differs)
		}
	}
	// A key that is missing is told once, besides the length if that differs.
	if got := diff(map[string]string{"a": "1"}, map[string]string{"b": "1"}); !strings.Contains(got, "[b]") {
		t.Errorf("diff of maps with other keys = %q", got)
	}
}
