package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
)

// What a Service promises holds for the Runner, and for the Client of a Server
// in front of one.
func TestService(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, p *provider) justonce.Service{
		"runner": func(t *testing.T, p *provider) justonce.Service { return newRunner(t, p, nil, nil) },
		"gateway": func(t *testing.T, p *provider) justonce.Service {
			return newClient(t, start(t, gateway.NewServer(newRunner(t, p, nil, nil), nil)), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, test := range suite {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					p := newProvider(t)
					test.run(t, open(t, p), p)
				})
			}
		})
	}
}

var suite = []struct {
	name string
	run  func(t *testing.T, svc justonce.Service, p *provider)
}{
	{"replay", testReplay},
	{"conflict", testConflict},
	{"outcomes", testOutcomes},
	{"join", testJoin},
	{"impatient", testImpatient},
	{"cancelled", testCancelled},
	{"nowait", testNoWait},
	{"job", testJob},
	{"errors", testErrors},
	{"decide", testDecide},
	{"list", testList},
	{"history", testHistory},
	{"tools", testTools},
	{"explain", testExplain},
	{"inherited", testInherited},
	{"keys", testKeys},
}

func order(id string, amount int) json.RawMessage {
	return fmt.Appendf(nil, `{"order_id":%q,"amount":%d}`, id, amount)
}

func must(t *testing.T, svc justonce.Service, c justonce.Call) *justonce.Answer {
	t.Helper()
	a, err := svc.Do(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func testReplay(t *testing.T, svc justonce.Service, p *provider) {
	p.result = odd
	c := justonce.Call{Tool: "charge", Arguments: order("1", 9), Scope: "ann", RunID: "run-1", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	first := must(t, svc, c)
	again := must(t, svc, c)
	for i, a := range []*justonce.Answer{first, again} {
		op := a.Operation
		if got := string(op.Result); got != odd {
			t.Errorf("result %d is not as recorded:\n got %q\nwant %q", i, got, odd)
		}
		if op.State != justonce.Succeeded || op.Reference != "ch_1" || op.Attempts != 1 || op.Tool != "charge" || op.Scope != "ann" ||
			op.RunID != "run-1" || op.IntentSeq != 1 || op.KeySource != justonce.KeyIdentity || len(op.Fingerprint) != 64 ||
			len(op.WireKey) != 32 || op.CreatedAt.IsZero() || op.UpdatedAt.IsZero() || op.TraceParent != c.TraceParent || op.Tenant != justonce.DefaultTenant {
			t.Errorf("answer %d: %+v", i, op)
		}
	}
	if first.Replayed || !again.Replayed || again.MatchedBy != justonce.MatchKey || p.sends.Load() != 1 {
		t.Errorf("replayed %v, %v by %q after %d sends", first.Replayed, again.Replayed, again.MatchedBy, p.sends.Load())
	}
	if d := cmp.Diff(first.Operation, again.Operation, ledgersOwn); d != "" {
		t.Error(d)
	}
	other := must(t, svc, justonce.Call{Tool: "charge", Arguments: order("1", 9), Scope: "ann", Key: "fresh"})
	if !other.Replayed || other.MatchedBy != justonce.MatchIdentity || other.Operation.Key != first.Operation.Key {
		t.Errorf("a fresh key: %+v", other)
	}
}

// ledgersOwn leaves out what the wire does not tell.
var ledgersOwn = cmp.Options{
	cmpopts.EquateApproxTime(0), cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(justonce.Operation{}, "Arguments", "DedupeUntil", "Version", "Exclusive", "Series"),
	cmpopts.IgnoreFields(justonce.Status{}, "Fence", "LeaseUntil", "FirstSent", "UnknownAt", "Unknowns", "Doubt", "Digest"),
}

func testConflict(t *testing.T, svc justonce.Service, p *provider) {
	must(t, svc, justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 9)})
	for _, test := range []struct {
		call    justonce.Call
		paths   []string
		differs []string
		by      justonce.Match
	}{
		{justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 10)}, []string{"/amount"}, nil, justonce.MatchKey},
		{justonce.Call{Tool: "charge", Key: "k", Scope: "s", Arguments: order("1", 9)}, nil, []string{"scope"}, justonce.MatchKey},
		{justonce.Call{Tool: "reject", Key: "k", Arguments: order("1", 9)}, nil, []string{"tool"}, justonce.MatchKey},
		{justonce.Call{Tool: "charge", Arguments: order("1", 10)}, []string{"/amount"}, nil, justonce.MatchIdentity},
	} {
		_, err := svc.Do(t.Context(), test.call)
		var c *justonce.ConflictError
		if !errors.Is(err, justonce.ErrConflict) || !errors.As(err, &c) {
			t.Fatalf("%v, want a conflict", err)
		}
		got := []any{c.Paths, c.Differs, c.MatchedBy, c.Operation.Key, c.Operation.Tool, c.Operation.State}
		want := []any{test.paths, test.differs, test.by, "k", "charge", justonce.Succeeded}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	if p.sends.Load() != 1 {
		t.Errorf("%d sends, want 1", p.sends.Load())
	}
}

func testOutcomes(t *testing.T, svc justonce.Service, p *provider) {
	for tool, want := range map[string]struct {
		state  justonce.State
		reason justonce.Reason
		advice justonce.AdviceCode
	}{
		"charge": {justonce.Succeeded, "", justonce.AdviceDone},
		"lose":   {justonce.Review, "", justonce.AdviceAskAPerson},
		"reject": {justonce.Failed, justonce.ReasonRejected, justonce.AdviceFixArguments},
		"lookup": {justonce.Succeeded, "", justonce.AdviceDone},
	} {
		a := must(t, svc, justonce.Call{Tool: tool, Arguments: order("1", 9)})
		if op := a.Operation; op.State != want.state || op.Reason != want.reason || a.Advice().Code != want.advice {
			t.Errorf("%s: %s, %s, %s", tool, op.State, op.Reason, a.Advice().Code)
		}
		if tool == "reject" {
			if d := cmp.Diff(&justonce.Failure{Code: "card_declined", Message: "no <money>"}, a.Operation.Failure); d != "" {
				t.Error(d)
			}
		}
		if recorded := a.Operation.Key != ""; recorded == (tool == "lookup") {
			t.Errorf("%s: recorded %v", tool, recorded)
		}
	}
}

func testJoin(t *testing.T, svc justonce.Service, p *provider) {
	type result struct {
		a   *justonce.Answer
		err error
	}
	c := justonce.Call{Tool: "slow", Key: "k"}
	answers := make(chan result)
	do := func() {
		a, err := svc.Do(t.Context(), c)
		answers <- result{a, err}
	}
	go do()
	<-p.started
	go do()
	go func() {
		a, err := svc.Wait(t.Context(), justonce.Ref{Key: "k"})
		answers <- result{a, err}
	}()
	if a, err := svc.Get(t.Context(), justonce.Ref{Key: "k"}); err != nil || a.Operation.State != justonce.Running || a.Replayed {
		t.Errorf("while it runs: %+v, %v", a, err)
	}
	p.finish()
	executed := 0
	for range 3 {
		r := <-answers
		if r.err != nil || r.a.Operation.State != justonce.Succeeded || string(r.a.Operation.Result) != `"at last"` {
			t.Fatalf("%+v, %v", r.a, r.err)
		}
		if !r.a.Joined && !r.a.Replayed {
			executed++
		}
	}
	if executed != 1 || p.sends.Load() != 1 {
		t.Errorf("%d of the calls say they were the first; %d sends", executed, p.sends.Load())
	}
}

func testImpatient(t *testing.T, svc justonce.Service, p *provider) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a, err := svc.Do(ctx, justonce.Call{Tool: "slow", Key: "k"})
	if err != nil || !a.Operation.State.Open() || a.Operation.Key != "k" {
		t.Fatalf("%+v, %v", a, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if a, err = svc.Wait(ctx, a.Operation.Ref); err != nil || a.Operation.State != justonce.Running {
		t.Fatalf("%+v, %v", a, err)
	}
	p.finish()
	if a, err = svc.Wait(t.Context(), a.Operation.Ref); err != nil || a.Operation.State != justonce.Succeeded {
		t.Fatalf("%+v, %v", a, err)
	}
}

func testCancelled(t *testing.T, svc justonce.Service, p *provider) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-p.started
		cancel()
	}()
	a, err := svc.Do(ctx, justonce.Call{Tool: "slow"})
	if err != nil || a.Operation.State != justonce.Running {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err = svc.Do(ctx, justonce.Call{Tool: "slow"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call with a context that has ended: %v", err)
	}
	if p.sends.Load() != 1 {
		t.Errorf("%d sends", p.sends.Load())
	}
}

func testNoWait(t *testing.T, svc justonce.Service, p *provider) {
	a := must(t, svc, justonce.Call{Tool: "slow", NoWait: true})
	if !a.Operation.State.Open() {
		t.Fatal(a.Operation.State)
	}
	p.finish()
	a, err := svc.Wait(t.Context(), a.Operation.Ref)
	if err != nil || a.Operation.State != justonce.Succeeded || p.sends.Load() != 1 {
		t.Fatalf("%+v, %v, %d sends", a, err, p.sends.Load())
	}
}

func testJob(t *testing.T, svc justonce.Service, p *provider) {
	a := must(t, svc, justonce.Call{Tool: "job", Key: "k", NoWait: true})
	for !a.Operation.Accepted {
		runtime.Gosched()
		var err error
		if a, err = svc.Get(t.Context(), a.Operation.Ref); err != nil {
			t.Fatal(err)
		}
	}
	if op := a.Operation; op.State != justonce.Running || string(op.Result) != `{"percent": 10}` || op.Reference != "job_1" || op.Due.IsZero() {
		t.Errorf("accepted: %+v", op)
	}
	p.finish()
	a, err := svc.Wait(t.Context(), a.Operation.Ref)
	if err != nil || a.Operation.State != justonce.Succeeded || string(a.Operation.Result) != `"done"` || a.Operation.Accepted {
		t.Errorf("%+v, %v", a.Operation, err)
	}
}

func testErrors(t *testing.T, svc justonce.Service, p *provider) {
	ctx, ref := t.Context(), justonce.Ref{Key: "nothing"}
	do := func(c justonce.Call) error { _, err := svc.Do(ctx, c); return err }
	get := func(_ any, err error) error { return err }
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	for name, test := range map[string]struct {
		err  error
		want error
		is   *justonce.InvalidError
	}{
		"unknown tool":  {do(justonce.Call{Tool: "nope"}), justonce.ErrUnknownTool, nil},
		"not JSON":      {do(justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"order_id":`)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "arguments"}},
		"smuggled":      {do(justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"order_id":"1"},"scope":"x"`)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "arguments"}},
		"too deep":      {do(justonce.Call{Tool: "charge", Arguments: json.RawMessage(deep)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "arguments"}},
		"no object":     {do(justonce.Call{Tool: "charge", Arguments: json.RawMessage(`[1]`)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "arguments"}},
		"too large":     {do(justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "arguments", TooLarge: true}},
		"no identity":   {do(justonce.Call{Tool: "charge"}), justonce.ErrInvalid, &justonce.InvalidError{Field: "/order_id", Schema: true}},
		"schema":        {do(justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"order_id":"1","note":"refuse me"}`)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "/note", Schema: true}},
		"long key":      {do(justonce.Call{Tool: "charge", Key: strings.Repeat("k", 256), Arguments: order("1", 1)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "key", TooLarge: true}},
		"strange scope": {do(justonce.Call{Tool: "charge", Scope: "a\nb", Arguments: order("1", 1)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "scope"}},
		"sequence":      {do(justonce.Call{Tool: "charge", IntentSeq: -1, Arguments: order("1", 1)}), justonce.ErrInvalid, &justonce.InvalidError{Field: "intent_seq"}},
		"get":           {get(svc.Get(ctx, ref)), justonce.ErrNotFound, nil},
		"wait":          {get(svc.Wait(ctx, ref)), justonce.ErrNotFound, nil},
		"history":       {get(svc.History(ctx, ref)), justonce.ErrNotFound, nil},
		"no key":        {get(svc.Get(ctx, justonce.Ref{})), justonce.ErrNotFound, nil},
		"decide":        {get(svc.Decide(ctx, ref, justonce.Decision{Verdict: justonce.Retry, Actor: "a", Reason: "r"})), justonce.ErrNotFound, nil},
		"no actor":      {get(svc.Decide(ctx, ref, justonce.Decision{Verdict: justonce.Retry, Reason: "r"})), justonce.ErrInvalid, &justonce.InvalidError{Field: "actor"}},
		"no verdict":    {get(svc.Decide(ctx, ref, justonce.Decision{Actor: "a", Reason: "r"})), justonce.ErrInvalid, &justonce.InvalidError{Field: "verdict"}},
		"result":        {get(svc.Decide(ctx, ref, justonce.Decision{Verdict: justonce.Happened, Actor: "a", Reason: "r", Result: json.RawMessage(`1,"actor":"x"`)})), justonce.ErrInvalid, &justonce.InvalidError{Field: "result"}},
		"state":         {get(svc.List(ctx, justonce.Filter{States: []justonce.State{"odd"}})), justonce.ErrInvalid, &justonce.InvalidError{Field: "state"}},
		"limit":         {get(svc.List(ctx, justonce.Filter{Limit: 1001})), justonce.ErrInvalid, &justonce.InvalidError{Field: "limit"}},
		"cursor":        {get(svc.List(ctx, justonce.Filter{Cursor: "odd"})), justonce.ErrInvalid, &justonce.InvalidError{Field: "cursor"}},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", name, test.err, test.want)
		}
		if test.is == nil {
			continue
		}
		var e *justonce.InvalidError
		if !errors.As(test.err, &e) {
			t.Errorf("%s: %v is no InvalidError", name, test.err)
			continue
		}
		if d := cmp.Diff(test.is, e, cmpopts.IgnoreFields(justonce.InvalidError{}, "Detail")); d != "" || e.Detail == "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if page, err := svc.List(ctx, justonce.Filter{}); err != nil || len(page.Operations) != 0 || p.sends.Load() != 0 {
		t.Errorf("recorded: %v, %v, %d sends", page, err, p.sends.Load())
	}
}
