package justonce_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
	"github.com/justonce-dev/justonce/sqlite"
)

var success = justonce.Outcome{Kind: justonce.OutcomeSucceeded, Result: json.RawMessage(`{"id": 1}`), Reference: "r"}

func observe(t *testing.T, r *justonce.Runner, c justonce.Call) *justonce.Observation {
	t.Helper()
	o, err := r.Observe(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func settle(t *testing.T, o *justonce.Observation, out justonce.Outcome) {
	t.Helper()
	if err := o.Settle(t.Context(), out); err != nil {
		t.Fatal(err)
	}
}

// never is a connector that must not be reached.
func never(t *testing.T) justonce.Connector {
	return findableFunc{sendFunc(func(context.Context, *justonce.Attempt) justonce.Outcome {
		t.Error("what was observed only was sent")
		return justonce.Outcome{}
	}), t}
}

type findableFunc struct {
	sendFunc
	t *testing.T
}

func (f findableFunc) Lookup(context.Context, *justonce.Attempt) justonce.Finding {
	f.t.Error("what was observed only was looked up")
	return justonce.Finding{}
}

func TestObserve(t *testing.T) {
	var told []string
	tool := charge(never(t), justonce.ByReference)
	read := &justonce.Tool{Name: "read", Effect: justonce.Read, Connector: never(t)}
	store := inmem.New(nil)
	r, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{tool, read}, Observer: justonce.Observer{
		Observed: func(tool string, d justonce.Decided) { told = append(told, string(d)) },
		Recorded: func(op *justonce.Operation, _ justonce.State) { t.Errorf("told of %s", op.State) },
		Call:     func(string, justonce.Decided, time.Duration) { t.Error("counted as a call") },
	}})
	if err != nil {
		t.Fatal(err)
	}
	call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
	first := observe(t, r, call)
	joined := observe(t, r, call)
	settle(t, joined, justonce.Outcome{}) // no matter
	settle(t, first, success)
	replayed := observe(t, r, call)
	fresh := call
	fresh.Key = "fresh"
	byIdentity := observe(t, r, fresh)
	other := call
	other.Arguments = order("1", 2)
	conflict := observe(t, r, other)
	refused := observe(t, r, justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{}`)})
	passed := observe(t, r, justonce.Call{Tool: "read"})
	for _, o := range []*justonce.Observation{refused, passed} {
		if o.Operation != nil || o.Settle(t.Context(), success) != nil || o.Delivered(t.Context()) != nil {
			t.Errorf("%s: %+v", o.Would, o.Operation)
		}
	}
	want := []string{"executed", "joined", "replayed", "replayed", "conflict", "refused", "passed"}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	if byIdentity.MatchedBy != justonce.MatchIdentity || !cmp.Equal(conflict.Paths, []string{"/amount"}) || !errors.Is(refused.Refusal, justonce.ErrInvalid) {
		t.Errorf("matched by %q, paths %v, refusal %v", byIdentity.MatchedBy, conflict.Paths, refused.Refusal)
	}
	if string(replayed.Operation.Result) != `{"id": 1}` || replayed.Operation.Reference != "r" {
		t.Errorf("recorded %+v", replayed.Operation)
	}
	// It is recorded apart, so that nothing is left of it when calls are run.
	page, err := r.List(t.Context(), justonce.Filter{})
	if err != nil || len(page.Operations) != 0 {
		t.Errorf("%d operations beside the observed ones, %v", len(page.Operations), err)
	}
	ref := justonce.Ref{Tenant: justonce.ObservedTenant(""), Key: first.Operation.Key}
	history, err := r.History(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range history {
		lines = append(lines, fmt.Sprint(e.Kind, " ", e.State, " ", e.Note, e.Evidence["paths"]))
	}
	if d := cmp.Diff([]string{"arrived running ", "observed running joined", "attempt succeeded ", "observed succeeded replayed",
		"observed succeeded replayed", `observed succeeded conflict["/amount"]`}, lines); d != "" {
		t.Error(d)
	}
}

// Nobody calls in a tenant of observed calls.
func TestObserve_TenantIsItsOwn(t *testing.T) {
	r := newRunner(t, charge(never(t), justonce.ByReference))
	call := justonce.Call{Tenant: justonce.ObservedTenant("acme"), Tool: "charge", Arguments: order("1", 1)}
	if _, err := r.Do(t.Context(), call); !errors.Is(err, justonce.ErrInvalid) {
		t.Errorf("Do: %v", err)
	}
	if _, err := r.Explain(t.Context(), call); !errors.Is(err, justonce.ErrInvalid) {
		t.Errorf("Explain: %v", err)
	}
	if o := observe(t, r, call); o.Would != justonce.CallRefused {
		t.Errorf("Observe: %s", o.Would)
	}
	if _, err := r.Observe(t.Context(), justonce.Call{Tool: "no such"}); !errors.Is(err, justonce.ErrUnknownTool) {
		t.Errorf("an unknown tool: %v", err)
	}
}

// Without its end in time the outcome is unknown: a person would have had to
// decide. Nothing is sent or looked up, by whoever works or waits.
func TestObserve_Unknown(t *testing.T) {
	for name, take := range map[string]func(r *justonce.Runner, ref justonce.Ref){
		"worked on":  func(r *justonce.Runner, _ justonce.Ref) { defer work(r)(); time.Sleep(time.Minute) },
		"waited for": func(r *justonce.Runner, ref justonce.Ref) { r.Wait(context.Background(), ref) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				tool := charge(never(t), justonce.ByKey)
				tool.Policy.Fallback = justonce.ByReference
				store := inmem.New(nil)
				a := start(t, store, tool)
				b, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{tool}, Observer: justonce.Observer{
					Recorded: func(op *justonce.Operation, _ justonce.State) { t.Errorf("told of %s", op.State) },
				}})
				if err != nil {
					t.Fatal(err)
				}
				o := observe(t, a, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
				if left := time.Until(o.Operation.LeaseUntil); left != 30*time.Second {
					t.Errorf("leased for %s, want the timeout", left)
				}
				time.Sleep(30 * time.Second) // in the bubble
				take(b, o.Operation.Ref)
				if op := stateOf(t, b, o.Operation.Ref); op.State != justonce.Review || op.Attempts != 1 {
					t.Fatalf("%s after %d attempts, want review after 1", op.State, op.Attempts)
				}
				if again := observe(t, b, justonce.Call{Tool: "charge", Arguments: order("1", 1)}); again.Would != justonce.CallJoined {
					t.Errorf("an equal call would have been %s", again.Would)
				}
				for _, v := range []justonce.Verdict{justonce.Retry, justonce.Redrive} {
					_, err := b.Decide(t.Context(), o.Operation.Ref, justonce.Decision{Verdict: v, Actor: "ann", Reason: "why not"})
					if !errors.Is(err, justonce.ErrNotAllowed) {
						t.Errorf("%s: %v", v, err)
					}
				}
				settle(t, o, success) // late
				if op := stateOf(t, b, o.Operation.Ref); op.State != justonce.Succeeded {
					t.Errorf("%s after the late success", op.State)
				}
			})
		})
	}
}

// How the first call ended decides what the next one would have met.
func TestObserve_Settle(t *testing.T) {
	for _, test := range []struct {
		out   justonce.OutcomeKind
		state justonce.State
		next  justonce.Decided
	}{
		{justonce.OutcomeUnknown, justonce.Review, justonce.CallJoined},
		{justonce.OutcomeSucceeded, justonce.Succeeded, justonce.CallReplayed},
		{justonce.OutcomeAccepted, justonce.Succeeded, justonce.CallReplayed},
		{justonce.OutcomeRejected, justonce.Failed, justonce.CallReplayed},
		{justonce.OutcomeNotExecuted, justonce.Failed, justonce.CallExecuted},
		{justonce.OutcomeWithdrawn, justonce.Failed, justonce.CallExecuted},
	} {
		t.Run(test.out.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				r := newRunner(t, charge(never(t), justonce.ByReference))
				call := justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 1)}
				o := observe(t, r, call)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := o.Settle(ctx, justonce.Outcome{Kind: test.out}); err != nil {
					t.Fatal(err)
				}
				if op := stateOf(t, r, o.Operation.Ref); op.State != test.state || o.Operation.State != test.state {
					t.Errorf("%s, told as %s, want %s", op.State, o.Operation.State, test.state)
				}
				time.Sleep(time.Second) // in the bubble
				if o := observe(t, r, call); o.Would != test.next {
					t.Errorf("the next call would have been %s, want %s", o.Would, test.next)
				}
			})
		})
	}
}

// An observed operation stands for its key as long as it would otherwise.
func TestObserve_Delivered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tool := charge(never(t), justonce.ByReference)
		tool.Dedupe = justonce.UntilDelivered
		r := newRunner(t, tool)
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		o := observe(t, r, call)
		settle(t, o, success)
		time.Sleep(time.Second) // in the bubble
		if again := observe(t, r, call); again.Would != justonce.CallReplayed {
			t.Errorf("before it was delivered: %s", again.Would)
		}
		if err := o.Delivered(t.Context()); err != nil {
			t.Fatal(err)
		}
		if again := observe(t, r, call); again.Would != justonce.CallExecuted {
			t.Errorf("after it was delivered: %s", again.Would)
		}
	})
}

// What the ledger cannot tell is an error, soon; the call goes on without it.
func TestObserve_LedgerFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &faulty{full: map[string]bool{"Begin": true}}
		r := start(t, inmem.New(&inmem.Options{Fault: f.fault}), charge(never(t), justonce.ByReference))
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		if o, err := r.Observe(t.Context(), call); !errors.Is(err, justonce.ErrUnavailable) || o != nil {
			t.Errorf("%+v, %v; want ErrUnavailable", o, err)
		}
		f.set("Begin", false)
		o := observe(t, r, call)
		f.set("Update", true)
		if _, err := r.Observe(t.Context(), call); !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("a duplicate: %v, want ErrUnavailable", err)
		}
		if err := o.Settle(t.Context(), success); !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("Settle: %v, want ErrUnavailable", err)
		}
		f.set("Update", false)
		settle(t, o, success)

		hangs := start(t, hanging{inmem.New(nil)}, charge(never(t), justonce.ByReference))
		began := time.Now()
		if _, err := hangs.Observe(t.Context(), call); !errors.Is(err, justonce.ErrUnavailable) || time.Since(began) > 2*time.Second {
			t.Errorf("a ledger that hangs: %v after %s", err, time.Since(began))
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Observe(t.Context(), call); !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("after Shutdown: %v", err)
		}
	})
}

// hanging is a ledger that never answers a call.
type hanging struct{ *inmem.Store }

func (hanging) Begin(ctx context.Context, _ *justonce.Operation, _ justonce.Entry) (*justonce.Arrival, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// However many duplicates come, a history stays readable.
func TestObserve_Many(t *testing.T) {
	r := newRunner(t, charge(never(t), justonce.ByReference))
	call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
	o := observe(t, r, call)
	for range 1100 {
		if o := observe(t, r, call); o.Would != justonce.CallJoined {
			t.Fatal(o.Would)
		}
	}
	settle(t, o, success)
	history, err := r.History(t.Context(), o.Operation.Ref)
	if err != nil || len(history) > 1002 || len(history) < 1000 {
		t.Errorf("%d entries, %v; want about 1000", len(history), err)
	}
	rep, err := r.Report(t.Context(), nil)
	if err != nil || rep.Tools[0].Full != 1 || rep.Tools[0].Would[justonce.CallJoined] != 1000 {
		t.Errorf("%+v, %v", rep, err)
	}
}

func TestReport(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := inmem.New(nil)
		mail := &justonce.Tool{Name: "mail", Connector: never(t)}
		r, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(never(t), justonce.ByReference), mail}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range 1200 { // more than a page
			settle(t, observe(t, r, justonce.Call{Tool: "mail", Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}), success)
		}
		observe(t, r, justonce.Call{Tool: "mail", Arguments: json.RawMessage(`{"n":1199}`)})
		time.Sleep(time.Second) // in the bubble
		later := time.Now()
		for i := range 4 {
			c := justonce.Call{Tool: "charge", Arguments: order(fmt.Sprint(i), 1)}
			o := observe(t, r, c)
			time.Sleep(time.Second) // in the bubble
			observe(t, r, c)
			settle(t, o, success)
			if i == 3 {
				c.Arguments = json.RawMessage(`{"order_id":"3","amount":2,"text":"` + strings.Repeat("ü", 300) + `"}`)
				observe(t, r, c)
			}
		}
		long := justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"order_id":"4","text":"` + strings.Repeat("ü", 300) + `"}`)}
		observe(t, r, long) // nobody learns how it ends
		long.Arguments = json.RawMessage(`{"order_id":"4","text":"u"}`)
		observe(t, r, long)
		time.Sleep(time.Hour) // in the bubble

		// Told by a process without the tools.
		reader, err := justonce.New(store, nil)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := reader.Report(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(rep.Tools) != 2 || rep.Tools[0].Tool != "charge" || rep.Tenant != justonce.DefaultTenant {
			t.Fatalf("%+v", rep)
		}
		c, m := rep.Tools[0], rep.Tools[1]
		got := []any{c.Calls, c.First, c.Duplicates(), c.Unknown, c.Full, c.Would, len(c.Examples), m.Calls, m.First, m.Would}
		if d := cmp.Diff([]any{11, 5, 6, 1, 0, map[justonce.Decided]int{justonce.CallJoined: 4, justonce.CallConflict: 2}, 3,
			1201, 1200, map[justonce.Decided]int{justonce.CallReplayed: 1}}, got); d != "" {
			t.Error(d)
		}
		x := c.Examples[0]
		if x.Decided != justonce.CallConflict || !cmp.Equal(x.Paths, []string{"/text"}) || len(x.Arguments) > 300 || len(x.Arguments) < 290 ||
			!strings.HasSuffix(x.Arguments, "ü…") || x.DuplicateAt.Before(x.FirstAt) {
			t.Errorf("the first example: %+v", x)
		}
		if e := m.Examples[0]; e.Arguments != `{"n":1199}` || e.Key == "" || !e.FirstAt.Equal(began) {
			t.Errorf("the example of mail: %+v", e)
		}
		b, err := json.Marshal(rep)
		if err != nil || !strings.Contains(string(b), `"would":{"conflict":2,"joined":4}`) {
			t.Errorf("%s, %v", b, err)
		}
		rep, err = reader.Report(t.Context(), &justonce.ReportOptions{Since: later, Examples: 1})
		if err != nil || len(rep.Tools) != 1 || len(rep.Tools[0].Examples) != 1 {
			t.Errorf("since later: %+v, %v", rep, err)
		}
		rep, err = reader.Report(t.Context(), &justonce.ReportOptions{Tenant: "other"})
		if err != nil || rep.Tools == nil || len(rep.Tools) != 0 {
			t.Errorf("another tenant: %+v, %v", rep, err)
		}
	})
}

// A report needs the ledger alone: another process may have written it, and
// still does.
func TestReport_AnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var stores [2]*sqlite.Store
	for i := range stores {
		var err error
		if stores[i], err = sqlite.Open(t.Context(), path, nil); err != nil {
			t.Fatal(err)
		}
		defer stores[i].Close()
	}
	writer := start(t, stores[0], charge(never(t), justonce.ByReference))
	call := justonce.Call{Tenant: "acme", Tool: "charge", Arguments: order("1", 1)}
	o := observe(t, writer, call)
	settle(t, o, success)
	if again := observe(t, writer, call); again.Would != justonce.CallReplayed || string(again.Operation.Result) != `{"id": 1}` {
		t.Errorf("%s with %s", again.Would, again.Operation.Result)
	}
	call.Arguments = order("1", 2)
	observe(t, writer, call)
	reader, err := justonce.New(stores[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := reader.Report(t.Context(), &justonce.ReportOptions{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	want := []justonce.ToolReport{{Tool: "charge", Calls: 3, First: 1,
		Would:    map[justonce.Decided]int{justonce.CallReplayed: 1, justonce.CallConflict: 1},
		Examples: []justonce.ReportExample{{Key: o.Operation.Key, Tool: "charge", Decided: justonce.CallReplayed, Arguments: `{"order_id":"1","amount":1}`}}}}
	if d := cmp.Diff(want, rep.Tools, cmpopts.IgnoreTypes(time.Time{})); d != "" {
		t.Error(d)
	}
}
