package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/mcpproxy"
	"github.com/justonce-dev/justonce/sqlite"
)

// What a server of the same name in another folder left behind is left to it,
// unless somebody here waits for it.
func TestTheWorkOfAnotherInstanceIsLeftToIt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), &sqlite.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	later := justonce.Func(func(context.Context, json.RawMessage) (any, error) {
		return nil, justonce.NotExecutedError(errors.New("not now"), time.Minute)
	})
	var tools []*justonce.Tool
	for _, name := range []string{"git/commit", "git/declared", "other/x", "plain"} {
		tools = append(tools, &justonce.Tool{Name: name, Connector: later})
	}
	runner, err := justonce.New(store, &justonce.RunnerOptions{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	var refs []justonce.Ref
	for _, tool := range tools {
		for _, scope := range []string{"", "here", "here/auth-1", "here/team", "there", "team"} {
			a, err := runner.Do(t.Context(), justonce.Call{Tool: tool.Name, Scope: scope, NoWait: true})
			for err == nil && a.Operation.State != justonce.Pending {
				a, err = runner.Get(t.Context(), a.Operation.Ref)
			}
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, a.Operation.Ref)
		}
	}
	if err := runner.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	claim := func(o *mcpproxy.Options, shared bool, ref *justonce.Ref) []string {
		t.Helper()
		w := newOwnWork(store)
		w.runs(o, []justonce.ToolInfo{{Name: "git/declared"}}, shared)
		var got []string
		_, err := w.Claim(t.Context(), justonce.Due{Ref: ref, Limit: 100}, func(op *justonce.Operation, _ time.Time) ([]justonce.Entry, bool) {
			if op.Tool == "git/commit" || op.Tool == "git/declared" || ref != nil {
				got = append(got, op.Tool+" "+op.Scope)
			}
			return nil, false
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		return got
	}
	for _, x := range []struct {
		o      mcpproxy.Options
		shared bool
		want   []string
	}{
		{mcpproxy.Options{Name: "git", Instance: "here"}, false,
			[]string{"git/commit here", "git/commit here/auth-1", "git/commit here/team", "git/declared "}},
		{mcpproxy.Options{Name: "git", Instance: "here", Scope: "team"}, false,
			[]string{"git/commit here/team", "git/declared team"}},
		{mcpproxy.Options{Name: "git", Instance: "here"}, true,
			[]string{"git/commit here", "git/commit here/auth-1", "git/commit here/team", "git/declared ", "git/declared here", "git/declared here/auth-1", "git/declared here/team", "git/declared team", "git/declared there"}},
	} {
		if d := cmp.Diff(x.want, claim(&x.o, x.shared, nil)); d != "" {
			t.Errorf("%+v (-want +got):\n%s", x.o, d)
		}
	}
	if got := claim(&mcpproxy.Options{Name: "git", Instance: "elsewhere"}, false, &refs[0]); len(got) != 1 {
		t.Errorf("what somebody waits for is left: %v", got)
	}
}
