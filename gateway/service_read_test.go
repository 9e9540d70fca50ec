package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
)

// The rest of the suite: what is read and decided.

func testDecide(t *testing.T, svc justonce.Service, p *provider) {
	ctx := t.Context()
	ref := must(t, svc, justonce.Call{Tool: "lose", Key: "a"}).Operation.Ref
	a, err := svc.Decide(ctx, ref, justonce.Decision{Verdict: justonce.Happened, Actor: "ann", Reason: "saw it", Reference: "r_1", Result: json.RawMessage(odd)})
	if err != nil || a.Operation.State != justonce.Succeeded || a.Operation.Reference != "r_1" {
		t.Fatalf("%+v, %v", a, err)
	}
	again := must(t, svc, justonce.Call{Tool: "lose", Key: "a"})
	if !again.Replayed || strings.TrimSpace(string(again.Operation.Result)) != strings.TrimSpace(odd) {
		t.Errorf("after happened: %q", again.Operation.Result)
	}
	_, err = svc.Decide(ctx, ref, justonce.Decision{Verdict: justonce.Retry, Actor: "ann", Reason: "r"})
	var move *justonce.TransitionError
	if !errors.Is(err, justonce.ErrNotAllowed) || !errors.As(err, &move) || move.State != justonce.Succeeded || move.Event != justonce.EventRetry || move.Why == "" {
		t.Errorf("a decision about what has ended: %v", err)
	}
	ref = must(t, svc, justonce.Call{Tool: "lose", Key: "b"}).Operation.Ref
	if a, err = svc.Decide(ctx, ref, justonce.Decision{Verdict: justonce.Cancel, Actor: "ann", Reason: "not there"}); err != nil ||
		a.Operation.State != justonce.Failed || a.Operation.Reason != justonce.ReasonCancelled || a.Operation.Failure.Message != "not there" {
		t.Errorf("cancel: %+v, %v", a, err)
	}
	ref = must(t, svc, justonce.Call{Tool: "reject", Key: "c"}).Operation.Ref
	if a, err = svc.Decide(ctx, ref, justonce.Decision{Verdict: justonce.Redrive, Actor: "ann", Reason: "paid in"}); err != nil || a.Operation.State != justonce.Pending {
		t.Fatalf("redrive: %+v, %v", a, err)
	}
	if a, err = svc.Wait(ctx, ref); err != nil || a.Operation.State != justonce.Failed || p.sends.Load() != 4 {
		t.Errorf("after the redrive: %+v, %v, %d sends", a.Operation, err, p.sends.Load())
	}
}

func testList(t *testing.T, svc justonce.Service, _ *provider) {
	ctx := t.Context()
	begin := time.Now()
	for i := range 5 {
		must(t, svc, justonce.Call{Tool: "charge", Key: fmt.Sprint("k", i), RunID: fmt.Sprint("run", i%2), Arguments: order(fmt.Sprint(i), 1)})
	}
	must(t, svc, justonce.Call{Tool: "reject", Key: "k5", Scope: "ann"})
	keys := func(f justonce.Filter) string {
		t.Helper()
		var all []string
		for {
			page, err := svc.List(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range page.Operations {
				if op.Result != nil {
					t.Error("a list has results")
				}
				all = append(all, op.Key)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				return strings.Join(all, " ")
			}
		}
	}
	for _, test := range []struct {
		f    justonce.Filter
		want string
	}{
		{justonce.Filter{}, "k5 k4 k3 k2 k1 k0"},
		{justonce.Filter{Limit: 2}, "k5 k4 k3 k2 k1 k0"},
		{justonce.Filter{States: []justonce.State{justonce.Failed, justonce.Review}}, "k5"},
		{justonce.Filter{Tool: "charge", RunID: "run1"}, "k3 k1"},
		{justonce.Filter{Scope: "ann"}, "k5"},
		{justonce.Filter{Reference: "ch_1", Limit: 3}, "k4 k3 k2 k1 k0"},
		{justonce.Filter{Since: begin, Until: time.Now()}, "k5 k4 k3 k2 k1 k0"},
		{justonce.Filter{Since: time.Now()}, ""},
		{justonce.Filter{Until: begin}, ""},
	} {
		if got := keys(test.f); got != test.want {
			t.Errorf("%+v: %q, want %q", test.f, got, test.want)
		}
	}
}

func testHistory(t *testing.T, svc justonce.Service, _ *provider) {
	a := must(t, svc, justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{ "order_id": "<1>" }`)})
	h, err := svc.History(t.Context(), a.Operation.Ref)
	if err != nil || len(h) != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	if h[0].Kind != justonce.EntryArrived || string(h[0].Body) != `{ "order_id": "<1>" }` || h[0].Actor != "test" || h[0].At.IsZero() {
		t.Errorf("%+v", h[0])
	}
	if h[1].Kind != justonce.EntryAttempt || h[1].Outcome != justonce.EventSucceeded || string(h[1].Body) != `{"id":"ch_1"}` || !h[1].IsResult || h[1].Reference != "ch_1" {
		t.Errorf("%+v", h[1])
	}
}

func testTools(t *testing.T, svc justonce.Service, p *provider) {
	got, err := svc.Tools(t.Context())
	if err != nil || len(got) != len(p.tools()) {
		t.Fatalf("%+v, %v", got, err)
	}
	want := justonce.ToolInfo{Name: "charge", Description: "Charge a card.", Effect: justonce.Write, Capability: justonce.ByNothing, Level: 4, Dedupe: justonce.Strict,
		Identity: []string{"/order_id"}, Ignore: []string{"/trace"}, Schema: json.RawMessage(`{"type":"object","required":["order_id"]}`)}
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Error(d)
	}
}

func testExplain(t *testing.T, svc justonce.Service, p *provider) {
	x := svc.(interface {
		Explain(context.Context, justonce.Call) (*justonce.Explanation, error)
	})
	c := justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"order_id":"<1>","amount":1.0,"trace":7}`)}
	before, err := x.Explain(t.Context(), c)
	if err != nil || before.Meets != "" || before.KeySource != justonce.KeyIdentity || string(before.Canonical) != `{"amount":1,"order_id":"<1>"}` {
		t.Fatalf("%+v, %v", before, err)
	}
	a := must(t, svc, c)
	c.Key = "fresh"
	after, err := x.Explain(t.Context(), c)
	if err != nil || after.Meets != a.Operation.Key || after.MatchedBy != justonce.MatchIdentity || after.State != justonce.Succeeded {
		t.Fatalf("%+v, %v", after, err)
	}
	if _, err := x.Explain(t.Context(), justonce.Call{Tool: "nope"}); !errors.Is(err, justonce.ErrUnknownTool) {
		t.Error(err)
	}
	if p.sends.Load() != 1 {
		t.Errorf("%d sends", p.sends.Load())
	}
}

func testInherited(t *testing.T, svc justonce.Service, _ *provider) {
	ctx := justonce.WithRun(justonce.WithKey(t.Context(), "inherited"), "task")
	a, err := svc.Do(ctx, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
	if err != nil || a.Operation.Key != "inherited" || a.Operation.RunID != "task" {
		t.Fatalf("%+v, %v", a, err)
	}
}

// testKeys takes every key through the header and the path.
func testKeys(t *testing.T, svc justonce.Service, _ *provider) {
	for i, key := range []string{"a/b", "a//b/../c", ".", "..", "a b", `say "hi" \ there`, "100%", "a%2Fb", "?#&=;", "a,b", "history", "k/history",
		`"quoted"`, strings.Repeat("k", 255), "~!@$^*()_+{}|:<>`[]'"} {
		a := must(t, svc, justonce.Call{Tool: "charge", Key: key, Arguments: order(fmt.Sprint(i), 1)})
		if a.Operation.Key != key || a.Replayed {
			t.Fatalf("%q became %q", key, a.Operation.Key)
		}
		if a, err := svc.Get(t.Context(), justonce.Ref{Key: key}); err != nil || a.Operation.Key != key || a.Operation.Attempts != 1 {
			t.Errorf("get %q: %+v, %v", key, a, err)
		}
		if h, err := svc.History(t.Context(), justonce.Ref{Key: key}); err != nil || len(h) != 2 {
			t.Errorf("history of %q: %+v, %v", key, h, err)
		}
	}
}
