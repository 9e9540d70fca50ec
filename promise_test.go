package justonce_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

var errDisk = errors.New("disk full")

// faulty is a store whose writes fail while full is set.
type faulty struct {
	mu   sync.Mutex
	full map[string]bool
}

func (f *faulty) set(method string, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full[method] = full
}

func (f *faulty) fault(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full[method] {
		return errDisk
	}
	return nil
}

// G2: without a durable record nothing is sent, and it works again by itself.
func TestLedgerFails_NothingIsSent(t *testing.T) {
	f := &faulty{full: map[string]bool{"Begin": true}}
	p := &provider{}
	r, err := justonce.New(inmem.New(&inmem.Options{Fault: f.fault}), &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(p, justonce.ByNothing)}})
	if err != nil {
		t.Fatal(err)
	}
	call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
	if _, err := r.Do(t.Context(), call); !errors.Is(err, justonce.ErrUnavailable) || !errors.Is(err, errDisk) {
		t.Errorf("err = %v, want ErrUnavailable because of the disk", err)
	}
	if p.sends.Load() != 0 {
		t.Error("it was sent without a record")
	}
	f.set("Begin", false)
	if a := mustDo(t, r, call); a.Operation.State != justonce.Succeeded || a.Replayed {
		t.Errorf("afterwards: %+v", a.Operation)
	}
}

// A result that cannot be recorded is told to nobody, and is recorded once the
// ledger works again.
func TestLedgerFails_AfterTheEffect(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &faulty{full: map[string]bool{"Update": true}}
		p := &provider{}
		r, err := justonce.New(inmem.New(&inmem.Options{Fault: f.fault}), &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(p, justonce.ByNothing)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		a, err := r.Do(ctx, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if err != nil || a.Operation.State != justonce.Running || a.Operation.Result != nil {
			t.Fatalf("%+v, %v; want it to be running without a result", a, err)
		}
		f.set("Update", false)
		a, err = r.Wait(t.Context(), a.Operation.Ref)
		if err != nil || a.Operation.State != justonce.Succeeded || p.count() != 1 {
			t.Errorf("%+v, %v, %d effects", a.Operation, err, p.count())
		}
	})
}

// A change is told of even if the ledger's answer to recording it was lost.
func TestLedgerFails_AfterRecording(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &faulty{full: map[string]bool{"Update": true}}
		time.AfterFunc(500*time.Millisecond, func() { f.set("Update", false) })
		var told []justonce.State
		r, err := justonce.New(inmem.New(&inmem.Options{FaultAfter: f.fault}), &justonce.RunnerOptions{
			Tools:    []*justonce.Tool{charge(&provider{lose: 1}, justonce.ByNothing)},
			Observer: justonce.Observer{Recorded: func(op *justonce.Operation, _ justonce.State) { told = append(told, op.State) }},
		})
		if err != nil {
			t.Fatal(err)
		}
		a := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if a.Operation.State != justonce.Review || len(told) != 2 || told[1] != justonce.Review {
			t.Errorf("%s, and Recorded was told of %v, want running and review", a.Operation.State, told)
		}
	})
}

// G7: no tenant sees, joins or replays another's.
func TestTenantsNeverMeet(t *testing.T) {
	p := &provider{}
	r := newRunner(t, charge(p, justonce.ByNothing))
	a := mustDo(t, r, justonce.Call{Tenant: "a", Tool: "charge", Key: "k", Arguments: order("1", 1)})
	b := mustDo(t, r, justonce.Call{Tenant: "b", Tool: "charge", Key: "k", Arguments: order("1", 2)})
	if b.Replayed || b.Joined || p.count() != 2 || string(a.Operation.Result) == string(b.Operation.Result) {
		t.Errorf("tenant b got %+v", b.Operation)
	}
	if _, err := r.Get(t.Context(), justonce.Ref{Tenant: "c", Key: "k"}); !errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("tenant c: %v", err)
	}
	if page, err := r.List(t.Context(), justonce.Filter{Tenant: "a"}); err != nil || len(page.Operations) != 1 {
		t.Errorf("tenant a lists %v, %v", page, err)
	}
	if _, err := r.Decide(t.Context(), justonce.Ref{Tenant: "c", Key: "k"}, justonce.Decision{Verdict: justonce.Redrive, Actor: "x", Reason: "y"}); !errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("tenant c decides: %v", err)
	}
}

// Case G: a derived key stands for its intent for dedupe_for after the end, a
// given one for ever.
func TestDedupeFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{}
		r := newRunner(t, charge(p, justonce.ByNothing))
		derived := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		given := justonce.Call{Tool: "charge", Key: "k", Arguments: order("2", 1)}
		for _, step := range []struct {
			after    time.Duration
			replayed bool
			effects  int
		}{{0, false, 2}, {24*time.Hour - time.Second, true, 2}, {2 * time.Second, false, 3}, {time.Hour, true, 3}} {
			time.Sleep(step.after) // in the bubble
			a := mustDo(t, r, derived)
			b := mustDo(t, r, given)
			if a.Replayed != step.replayed || b.Replayed != (step.after > 0) || p.count() != step.effects {
				t.Errorf("after another %s: derived replayed %v, given %v, %d effects", step.after, a.Replayed, b.Replayed, p.count())
			}
		}
		page, err := r.List(t.Context(), justonce.Filter{})
		if err != nil || len(page.Operations) != 3 {
			t.Errorf("%d operations, %v; want the archived one kept", len(page.Operations), err)
		}
	})
}

// G9: an operation in review answers for its key however long it takes.
func TestUnresolvedNeverExpires(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{lose: 1}
		r := newRunner(t, charge(p, justonce.ByNothing))
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		a := mustDo(t, r, call)
		time.Sleep(90 * 24 * time.Hour) // in the bubble
		again := mustDo(t, r, call)
		if again.Operation.State != justonce.Review || p.sends.Load() != 1 {
			t.Errorf("after 90 days: %s, %d sends", again.Operation.State, p.sends.Load())
		}
		if _, err := r.Decide(t.Context(), a.Operation.Ref, justonce.Decision{Verdict: justonce.Happened, Actor: "ann", Reason: "seen"}); err != nil {
			t.Fatal(err)
		}
		if again = mustDo(t, r, call); !again.Replayed || p.sends.Load() != 1 {
			t.Errorf("after the decision: %+v, %d sends", again, p.sends.Load())
		}
	})
}

func TestUntilDelivered(t *testing.T) {
	p := &provider{}
	tool := charge(p, justonce.ByNothing)
	tool.Dedupe = justonce.UntilDelivered
	r := newRunner(t, tool)
	call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
	a := mustDo(t, r, call)
	if again := mustDo(t, r, call); !again.Replayed {
		t.Error("an equal call before delivery ran")
	}
	if err := r.Delivered(t.Context(), a.Operation); err != nil {
		t.Fatal(err)
	}
	if again := mustDo(t, r, call); again.Replayed || p.count() != 2 {
		t.Errorf("an equal call after delivery: replayed %v, %d effects", again.Replayed, p.count())
	}
}

// A result over the limit ends the operation all the same.
func TestLargeResult(t *testing.T) {
	effects := 0
	r, err := justonce.New(inmem.New(nil), &justonce.RunnerOptions{ResultLimit: 100, Tools: []*justonce.Tool{{Name: "export",
		Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
			effects++
			return strings.Repeat("x", 200), nil
		})}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := mustDo(t, r, justonce.Call{Tool: "export"})
		op := a.Operation
		if op.State != justonce.Succeeded || op.Result != nil || op.Digest == "" || !strings.Contains(op.Note, "exceeds the limit of 100") {
			t.Errorf("%+v", op)
		}
	}
	if effects != 1 {
		t.Errorf("%d effects, want 1", effects)
	}
}

// Key and run travel in the context, down to the func, which reads the wire
// key; calls that the func makes do not inherit its key.
func TestContextCarriesNames(t *testing.T) {
	var r *justonce.Runner
	var wire, innerKey, innerRun string
	outer := justonce.Func(func(ctx context.Context, _ json.RawMessage) (any, error) {
		wire = justonce.WireKey(ctx)
		a, err := r.Do(ctx, justonce.Call{Tool: "inner"})
		if err != nil {
			return nil, err
		}
		innerKey, innerRun = a.Operation.Key, a.Operation.RunID
		return "done", nil
	})
	inner := justonce.Func(func(ctx context.Context, _ json.RawMessage) (any, error) { return "in", nil })
	r = newRunner(t, &justonce.Tool{Name: "outer", Connector: outer}, &justonce.Tool{Name: "inner", Connector: inner})
	ctx := justonce.WithRun(justonce.WithKey(t.Context(), "order-1"), "run-7")
	a, err := r.Do(ctx, justonce.Call{Tool: "outer"})
	if err != nil {
		t.Fatal(err)
	}
	if op := a.Operation; op.Key != "order-1" || op.RunID != "run-7" || op.KeySource != justonce.KeyInherited {
		t.Errorf("outer: %+v", op)
	}
	if wire != a.Operation.WireKey || len(wire) != 32 {
		t.Errorf("the func saw wire key %q, want %q", wire, a.Operation.WireKey)
	}
	if innerKey == "order-1" || innerRun != "run-7" {
		t.Errorf("inner: key %q, run %q", innerKey, innerRun)
	}
}

// An answer that comes after somebody else took over is kept and believed.
func TestLateSuccess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})} // ignores its context
		r := newRunner(t, charge(p, justonce.ByNothing))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		a, err := r.Do(ctx, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if err != nil || a.Operation.State == justonce.Succeeded {
			t.Fatal(a, err)
		}
		if a, _ = r.Get(t.Context(), a.Operation.Ref); a.Operation.State != justonce.Review && a.Operation.State != justonce.Running {
			t.Errorf("while nothing is heard: %s", a.Operation.State)
		}
		close(p.block)
		synctest.Wait()
		a, err = r.Get(t.Context(), a.Operation.Ref)
		if err != nil || a.Operation.State != justonce.Succeeded || a.Operation.Result == nil || p.sends.Load() != 1 {
			t.Errorf("after the late answer: %+v, %v", a.Operation, err)
		}
	})
}

func TestPanicIsUnknown(t *testing.T) {
	r := newRunner(t, &justonce.Tool{Name: "bad", Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) { panic("no") })})
	if a := mustDo(t, r, justonce.Call{Tool: "bad"}); a.Operation.State != justonce.Review {
		t.Errorf("after a panic: %s", a.Operation.State)
	}
}

func TestFuncErrors(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		tries := 0
		var err error
		r := newRunner(t, &justonce.Tool{Name: "f", Policy: justonce.Policy{MaxAttempts: 3}, Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
			tries++
			return nil, err
		})})
		for _, test := range []struct {
			err    error
			state  justonce.State
			reason justonce.Reason
			tries  int
		}{
			{errors.New("lost"), justonce.Review, "", 1},
			{justonce.RejectedError(errors.New("no such card")), justonce.Failed, justonce.ReasonRejected, 1},
			{justonce.NotExecutedError(errors.New("busy"), time.Second), justonce.Failed, justonce.ReasonExhausted, 3},
		} {
			tries, err = 0, test.err
			a := mustDo(t, r, justonce.Call{Tool: "f", Key: test.err.Error()})
			if a.Operation.State != test.state || a.Operation.Reason != test.reason || tries != test.tries {
				t.Errorf("%v: %s %s after %d tries", test.err, a.Operation.State, a.Operation.Reason, tries)
			}
			if e := (*justonce.StateError)(nil); !errors.As(a.Err(), &e) || !strings.Contains(a.Err().Error(), test.err.Error()) {
				t.Errorf("Err() = %v", a.Err())
			}
		}
	})
}

// Nothing malformed is recorded or sent.
func TestBadCalls(t *testing.T) {
	p := &provider{}
	r := newRunner(t, charge(p, justonce.ByNothing))
	for name, c := range map[string]justonce.Call{
		"duplicate member": {Arguments: json.RawMessage(`{"order_id":"1","order_id":"2"}`)},
		"trailing data":    {Arguments: json.RawMessage(`{"order_id":"1"} x`)},
		"lone surrogate":   {Arguments: json.RawMessage(`{"order_id":"\ud800"}`)},
		"huge exponent":    {Arguments: json.RawMessage(`{"order_id":"1","amount":1e999999999}`)},
		"deep":             {Arguments: json.RawMessage(`{"order_id":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`)},
		"no object":        {Arguments: json.RawMessage(`[1]`)},
		"no identity":      {Arguments: json.RawMessage(`{"amount":1}`)},
		"null identity":    {Arguments: json.RawMessage(`{"order_id":null}`)},
		"large":            {Arguments: json.RawMessage(`{"order_id":"` + strings.Repeat("x", 2<<20) + `"}`)},
		"long key":         {Key: strings.Repeat("k", 256), Arguments: order("1", 1)},
		"control in key":   {Key: "a\nb", Arguments: order("1", 1)},
		"negative seq":     {IntentSeq: -1, Arguments: order("1", 1)},
	} {
		c.Tool = "charge"
		if _, err := r.Do(t.Context(), c); !errors.Is(err, justonce.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Do(t.Context(), justonce.Call{Tool: "nope"}); !errors.Is(err, justonce.ErrUnknownTool) {
		t.Errorf("unknown tool: %v", err)
	}
	if page, err := r.List(t.Context(), justonce.Filter{}); err != nil || len(page.Operations) != 0 || p.sends.Load() != 0 {
		t.Errorf("%d operations and %d sends, %v", len(page.Operations), p.sends.Load(), err)
	}
	mustDo(t, r, justonce.Call{Tool: "charge", Key: strings.Repeat("k", 255), Arguments: order("1", 1)})
}
