package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/outbox"
)

func TestConflict(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	kept := []justonce.Entry{{Kind: justonce.EntryClaimed}, {Kind: justonce.EntryArrived, Body: json.RawMessage(`{"a":1,"b":{"c":2}}`)}}
	for name, tt := range map[string]struct {
		tool, scope, arguments, fingerprint string
		history                             []justonce.Entry
		failure                             error
		want                                string // paths and what else differs
	}{
		"the same":            {fingerprint: "f", failure: errBroken},
		"arguments":           {arguments: `{"a":1.0,"b":{"c":3},"d":4}`, history: kept, want: "[/b/c /d] []"},
		"scope and arguments": {scope: "other", arguments: `{"a":2,"b":{"c":2}}`, history: kept, want: "[/a] [scope]"},
		"a scope":             {scope: "other", arguments: `{"a":1,"b":{"c":2}}`, history: kept, want: "[] [scope]"},
		"a tool":              {tool: "other", failure: errBroken, want: "[] [tool]"},
		"what is not kept":    {arguments: `{}`, want: "[] [arguments]"},
		"what is no JSON":     {arguments: `{`, history: kept, want: "[] [arguments]"},
	} {
		met := &justonce.Arrival{Operation: &justonce.Operation{Fingerprint: "f"}, MatchedBy: justonce.MatchKey}
		op := &justonce.Operation{Tool: tt.tool, Scope: tt.scope, Fingerprint: tt.fingerprint, Arguments: json.RawMessage(tt.arguments)}
		err := outbox.Conflict(met, op, func() ([]justonce.Entry, error) { return tt.history, tt.failure })
		got := ""
		if e := (*justonce.ConflictError)(nil); errors.As(err, &e) {
			got = fmt.Sprint(e.Paths, e.Differs)
		}
		if got != tt.want || got == "" && err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tt.want)
		}
	}
	met := &justonce.Arrival{Operation: &justonce.Operation{Fingerprint: "f"}}
	err := outbox.Conflict(met, &justonce.Operation{}, func() ([]justonce.Entry, error) { return nil, errBroken })
	if !errors.Is(err, errBroken) || errors.Is(err, justonce.ErrConflict) {
		t.Errorf("where the history cannot be read: %v, want that error", err)
	}
}
