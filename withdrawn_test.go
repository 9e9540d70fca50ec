package justonce_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// script is a tool that answers with one outcome after the other.
func script(outs ...justonce.Outcome) sendFunc {
	next := make(chan justonce.Outcome, len(outs))
	for _, o := range outs {
		next <- o
	}
	return func(context.Context, *justonce.Attempt) justonce.Outcome { return <-next }
}

// A call that was withdrawn gives way at once, whatever its key's source: the
// next equal one is a new operation.
func TestWithdrawn(t *testing.T) {
	for name, call := range map[string]justonce.Call{
		"given":    {Tool: "charge", Key: "k", Arguments: order("1", 1)},
		"identity": {Tool: "charge", Arguments: order("1", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				r := newRunner(t, charge(script(
					justonce.Outcome{Kind: justonce.OutcomeWithdrawn, Failure: &justonce.Failure{Code: "401"}, Note: "not for withdrawn ones"},
					justonce.Outcome{Kind: justonce.OutcomeSucceeded, Result: json.RawMessage(`1`)}), justonce.ByNothing))
				first := mustDo(t, r, call)
				op := first.Operation
				if op.State != justonce.Failed || op.Reason != justonce.ReasonCancelled || op.Failure.Code != "401" || first.Replayed {
					t.Fatalf("%s, %s, %v", op.State, op.Reason, op.Failure)
				}
				if a := first.Advice(); a.Code != justonce.AdviceWait || !strings.Contains(a.Text, "may be called again") {
					t.Errorf("advice %+v", a)
				}
				time.Sleep(time.Millisecond)   // in the bubble
				call.Arguments = order("1", 2) // nothing happened, so that it may differ
				second := mustDo(t, r, call)
				if second.MatchedBy != "" || second.Operation.State != justonce.Succeeded {
					t.Errorf("the next call: %+v", second)
				}
				if again := mustDo(t, r, call); !again.Replayed {
					t.Error("the third call ran, too")
				}
				page, err := r.List(t.Context(), justonce.Filter{})
				if err != nil || len(page.Operations) != 2 {
					t.Errorf("%d operations, %v; want 2", len(page.Operations), err)
				}
			})
		})
	}
}

// In doubt about an earlier send a withdrawal proves nothing.
func TestWithdrawn_InDoubt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := newRunner(t, charge(script(justonce.Outcome{}, justonce.Outcome{Kind: justonce.OutcomeWithdrawn},
			justonce.Outcome{Kind: justonce.OutcomeSucceeded, Reference: "r"}), justonce.ByKey))
		a := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if a.Operation.State != justonce.Succeeded || a.Operation.Attempts != 3 {
			t.Errorf("%s after %d attempts, want succeeded after 3", a.Operation.State, a.Operation.Attempts)
		}
	})
}

// A withdrawal whose recording seemed to fail still gives way: the second try
// finds it recorded and must not take it back.
func TestWithdrawn_AfterRecording(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &faulty{full: map[string]bool{"Update": true}}
		time.AfterFunc(500*time.Millisecond, func() { f.set("Update", false) })
		r, err := justonce.New(inmem.New(&inmem.Options{FaultAfter: f.fault}), &justonce.RunnerOptions{
			Tools: []*justonce.Tool{charge(script(justonce.Outcome{Kind: justonce.OutcomeWithdrawn},
				justonce.Outcome{Kind: justonce.OutcomeSucceeded}), justonce.ByNothing)}})
		if err != nil {
			t.Fatal(err)
		}
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		mustDo(t, r, call)
		if second := mustDo(t, r, call); second.MatchedBy != "" || second.Operation.State != justonce.Succeeded {
			t.Errorf("the next call: %+v", second)
		}
	})
}

// WithdrawnError does the same for a Func, also for one that is not recorded.
func TestWithdrawnError(t *testing.T) {
	for _, effect := range []justonce.Effect{justonce.Write, justonce.Read} {
		sends := 0
		r := newRunner(t, &justonce.Tool{Name: "f", Effect: effect, Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
			sends++
			return nil, justonce.WithdrawnError(errDisk)
		})})
		for range 2 {
			a := mustDo(t, r, justonce.Call{Tool: "f"})
			if op := a.Operation; op.State != justonce.Failed || op.Reason != justonce.ReasonCancelled || op.Failure.Message != errDisk.Error() || a.Advice().Code != justonce.AdviceWait {
				t.Errorf("%s: %+v", effect, op)
			}
		}
		if sends != 2 {
			t.Errorf("%s: %d sends, want 2", effect, sends)
		}
	}
}

// What was withdrawn says nothing of the provider: retries go on however often.
func TestWithdrawn_NoFailureForTheBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		outs := make([]justonce.Outcome, 0, 102)
		for range 100 {
			outs = append(outs, justonce.Outcome{Kind: justonce.OutcomeWithdrawn})
		}
		outs = append(outs, justonce.Outcome{Kind: justonce.OutcomeNotExecuted}, justonce.Outcome{Kind: justonce.OutcomeSucceeded})
		r := newRunner(t, charge(script(outs...), justonce.ByNothing))
		for range 100 {
			mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
			time.Sleep(time.Nanosecond) // in the bubble: each has a moment of its own
		}
		began := time.Now()
		if a := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)}); a.Operation.State != justonce.Succeeded || time.Since(began) > time.Second {
			t.Errorf("%s after %s, want one short retry", a.Operation.State, time.Since(began))
		}
	})
}

// A refusal's answer is replayed as it came, and ends with its operation's
// series.
func TestRejected_Result(t *testing.T) {
	answer := json.RawMessage(`{"content":[ {"text":"no"} ],"isError":true}`)
	rejected := justonce.Outcome{Kind: justonce.OutcomeRejected, Result: answer, Failure: &justonce.Failure{Code: "no"}}
	call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
	r := newRunner(t, charge(script(rejected, justonce.Outcome{Kind: justonce.OutcomeRejected}, rejected,
		justonce.Outcome{Kind: justonce.OutcomeSucceeded}), justonce.ByNothing))
	check := func(what string, want string) *justonce.Operation {
		t.Helper()
		for range 2 { // the answer, then the replay
			op := mustDo(t, r, call).Operation
			if string(op.Result) != want {
				t.Errorf("%s: result %q, want %q", what, op.Result, want)
			}
		}
		return mustDo(t, r, call).Operation
	}
	op := check("rejected with an answer", string(answer))
	if op.State != justonce.Failed || op.Reason != justonce.ReasonRejected || op.Failure.Code != "no" || op.Digest == "" {
		t.Errorf("%+v", op)
	}
	redrive := func() {
		t.Helper()
		a := decide(t, r, op.Ref, justonce.Redrive)
		if a.Operation.Digest != "" || string(a.Operation.Result) != "null" && a.Operation.Result != nil {
			t.Errorf("redriven, it has the result %s", a.Operation.Result)
		}
	}
	redrive()
	if op := check("rejected without one", "null"); op.Digest != "" || op.Failure.Code != "rejected" {
		t.Errorf("%+v, %v", op.Status, op.Failure)
	}
	redrive()
	check("rejected with an answer again", string(answer))
	redrive()
	if op := check("succeeded without a result", "null"); op.State != justonce.Succeeded {
		t.Errorf("%+v", op.Status)
	}
}

// A refusal without an answer is recorded as ever.
func TestRejected_NoResult(t *testing.T) {
	r := newRunner(t, charge(script(justonce.Outcome{Kind: justonce.OutcomeRejected, Note: "not for refusals"}), justonce.ByNothing))
	op := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)}).Operation
	if op.Result != nil || op.Digest != "" || op.Note != "" || op.Failure.Code != "rejected" {
		t.Errorf("%+v", op)
	}
}

// A refusal's answer is no effect: a success that comes late is an incident,
// and once decided it contradicts nothing.
func TestRejected_LateSuccess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		first := make(chan justonce.Outcome)
		ledger := inmem.New(nil)
		slow := start(t, ledger, charge(sendFunc(func(context.Context, *justonce.Attempt) justonce.Outcome { return <-first }), justonce.ByKey))
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true}
		ref := mustDo(t, slow, call).Operation.Ref
		time.Sleep(time.Minute) // in the bubble; the lease runs out
		other := start(t, ledger, charge(script(justonce.Outcome{Kind: justonce.OutcomeRejected, Conclusive: true, Result: json.RawMessage(`"no"`)}), justonce.ByKey))
		call.NoWait = false
		if a := mustDo(t, other, call); a.Operation.State != justonce.Failed {
			t.Fatalf("%s, want failed", a.Operation.State)
		}
		first <- justonce.Outcome{Kind: justonce.OutcomeSucceeded, Result: json.RawMessage(`"yes"`)}
		synctest.Wait()
		op := stateOf(t, other, ref)
		if op.State != justonce.Review || !op.Incident || op.Digest != "" {
			t.Fatalf("%+v, want an incident", op.Status)
		}
		if a := decide(t, other, ref, justonce.Happened); string(a.Operation.Result) == `"no"` {
			t.Errorf("it succeeded with the refusal %s", a.Operation.Result)
		}
	})
}

func TestOutcome_Note(t *testing.T) {
	const note = "the server answered with an error"
	for name, test := range map[string]struct {
		out  justonce.Outcome
		want string
	}{
		"small":         {justonce.Outcome{Kind: justonce.OutcomeSucceeded, Note: note, Result: json.RawMessage(`1`)}, note},
		"large":         {justonce.Outcome{Kind: justonce.OutcomeSucceeded, Note: note, Result: json.RawMessage(`"` + strings.Repeat("x", 200) + `"`)}, note + "; its result of 202 bytes"},
		"large refusal": {justonce.Outcome{Kind: justonce.OutcomeRejected, Result: json.RawMessage(`"` + strings.Repeat("x", 200) + `"`)}, "its result of 202 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			a, _, _ := processes(t, charge(script(test.out), justonce.ByNothing))
			op := mustDo(t, a, justonce.Call{Tool: "charge", Arguments: order("1", 1)}).Operation
			if !strings.HasPrefix(op.Note, test.want) || (name == "small") != (op.Note == test.want) {
				t.Errorf("note %q, want %q", op.Note, test.want)
			}
			history, err := a.History(t.Context(), op.Ref)
			if err != nil || history[len(history)-1].Note != op.Note {
				t.Errorf("history %+v, %v", history, err)
			}
		})
	}
}

// What is delivered is the operation that was answered, not one that has taken
// its key since.
func TestDelivered_KeyIsTaken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{}
		tool := charge(p, justonce.ByNothing)
		tool.Dedupe = justonce.UntilDelivered
		r := newRunner(t, tool)
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		first := mustDo(t, r, call)
		if err := r.Delivered(t.Context(), first.Operation); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // in the bubble
		second := mustDo(t, r, call)
		if second.Replayed {
			t.Fatal("the second call was replayed")
		}
		if err := r.Delivered(t.Context(), first.Operation); err != nil { // told twice
			t.Fatal(err)
		}
		if third := mustDo(t, r, call); !third.Replayed || p.count() != 2 {
			t.Errorf("replayed %v, %d effects: the second was taken for delivered", third.Replayed, p.count())
		}
		call.Key = "other" // takes the identity
		if err := r.Delivered(t.Context(), second.Operation); err != nil {
			t.Fatal(err)
		}
		mustDo(t, r, call)
		if err := r.Delivered(t.Context(), second.Operation); err != nil {
			t.Errorf("delivered once more after it gave way: %v", err)
		}
	})
}

// Where nothing is recorded nothing is noted.
func TestDelivered_NotRecorded(t *testing.T) {
	tool := charge(&provider{}, justonce.ByNothing)
	tool.Effect, tool.Dedupe = justonce.Read, justonce.UntilDelivered
	r := newRunner(t, tool)
	a := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
	if err := r.Delivered(t.Context(), a.Operation); err != nil {
		t.Error(err)
	}
}

func TestOutcomeKinds(t *testing.T) {
	var got []string
	for k := justonce.OutcomeUnknown; k <= justonce.OutcomeWithdrawn+1; k++ {
		got = append(got, k.String())
	}
	want := []string{"unknown", "succeeded", "rejected", "not_executed", "accepted", "withdrawn", "unknown"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if !errors.Is(justonce.WithdrawnError(errDisk), errDisk) {
		t.Error("the wrapped error is lost")
	}
}
