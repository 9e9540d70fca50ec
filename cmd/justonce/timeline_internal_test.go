package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
)

// A history says on which day and by whom, within the width of a terminal.
func TestTimeline(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 28, 23, 59, 59, 0, time.Local)
	args := `{"order_id":"123","amount":9900,"currency":"CNY","customer":{"name":"Ann Smith","mail":"ann@example.org"},"long":"` + strings.Repeat("x", 80) + `"}`
	history := []justonce.Entry{
		{Kind: justonce.EntryArrived, At: start, Fence: 1, State: justonce.Running, Actor: "host/42", Body: json.RawMessage(args)},
		{Kind: justonce.EntryAttempt, At: start.Add(2 * time.Second), Fence: 1, State: justonce.Unknown, Outcome: justonce.EventUnknown,
			Failure: &justonce.Failure{Code: "no_answer", Message: "EOF"}, Evidence: map[string]string{"error": "EOF", "status": "0"}},
		{Kind: justonce.EntryClaimed, At: start.Add(time.Minute + 1234*time.Millisecond), Fence: 2, State: justonce.Unknown, Actor: "host/43", Note: "lookup"},
		{Kind: justonce.EntryDecision, At: start.Add(50 * time.Hour), Fence: 2, State: justonce.Succeeded, Actor: "ann\x1b[2J", Note: "seen in the dashboard of the provider", Reference: "ch_42"},
	}
	var b bytes.Buffer
	o := &output{world: &world{stdout: &b}}
	o.history(start, history)
	want := `  2026-11-28
  23:59:59.000        +0s  arrived   fence 1 → running  by host/42
                           {"order_id":"123","amount":9900,"currency":"CNY","customer":{"name":"Ann
                           Smith","mail":"ann@example.org"},
                           "long":"` + strings.Repeat("x", 80) + `"}
  2026-11-29
  00:00:01.000        +2s  attempt   unknown fence 1 → unknown  no_answer: EOF, status=0
  00:01:00.234      +1m1s  claimed   fence 2 → unknown  by host/43  lookup
  2026-12-01
  01:59:59.000   +50h0m0s  decision  → succeeded  by ann�[2J
                           seen in the dashboard of the provider, ch_42
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > lineWidth && !strings.Contains(line, "xxx") {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}
