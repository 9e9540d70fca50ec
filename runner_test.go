package justonce_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// provider is a tool whose provider loses replies on demand. It honours the
// wire key when keyed.
type provider struct {
	mu      sync.Mutex
	keyed   bool
	effects []string          // wire keys, in order
	stored  map[string]string // wire key to result
	lose    int               // so many replies
	refuse  int               // so many sends are not executed
	block   chan struct{}     // sends wait for it
	sends   atomic.Int64
}

func (p *provider) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome {
	p.sends.Add(1)
	if p.block != nil {
		<-p.block
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse > 0 {
		p.refuse--
		return justonce.Outcome{Kind: justonce.OutcomeNotExecuted, RetryAfter: 3 * time.Second}
	}
	res, ok := p.stored[a.WireKey]
	if !ok || !p.keyed {
		p.effects = append(p.effects, a.WireKey)
		res = fmt.Sprintf(`{"id":"ch_%d"}`, len(p.effects))
		if p.stored == nil {
			p.stored = map[string]string{}
		}
		p.stored[a.WireKey] = res
	}
	if p.lose > 0 {
		p.lose--
		return justonce.Outcome{}
	}
	var v struct{ ID string }
	json.Unmarshal([]byte(res), &v)
	return justonce.Outcome{Kind: justonce.OutcomeSucceeded, Result: json.RawMessage(res), Reference: v.ID}
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.effects)
}

// findable is a provider that can be asked by the wire key.
type findable struct{ *provider }

func (p findable) Lookup(ctx context.Context, a *justonce.Attempt) justonce.Finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	res, ok := p.stored[a.WireKey]
	if !ok {
		return justonce.Finding{Kind: justonce.FindingAbsent}
	}
	return justonce.Finding{Kind: justonce.FindingFound, Matches: []justonce.Found{{Reference: "found", Result: json.RawMessage(res)}}}
}

func newRunner(t *testing.T, tools ...*justonce.Tool) *justonce.Runner {
	t.Helper()
	r, err := justonce.New(inmem.New(nil), &justonce.RunnerOptions{Tools: tools, Rand: func() float64 { return 0.5 }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func charge(p justonce.Connector, c justonce.Capability) *justonce.Tool {
	return &justonce.Tool{Name: "charge", Identity: []string{"/order_id"}, Ignore: []string{"/trace"},
		Connector: p, Policy: justonce.Policy{Capability: c}}
}

func order(id string, amount int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"order_id":%q,"amount":%d}`, id, amount))
}

func mustDo(t *testing.T, r *justonce.Runner, c justonce.Call) *justonce.Answer {
	t.Helper()
	a, err := r.Do(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDo_Replay(t *testing.T) {
	p := &provider{}
	r := newRunner(t, charge(p, justonce.ByNothing))
	first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 99)})
	again := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: json.RawMessage(`{"amount":99.0,"order_id":"1","trace":"x"}`)})
	if first.Replayed || !again.Replayed || p.count() != 1 {
		t.Fatalf("replayed %v then %v with %d effects, want false, true, 1", first.Replayed, again.Replayed, p.count())
	}
	if got, want := string(again.Operation.Result), string(first.Operation.Result); got != want || got == "" {
		t.Errorf("replay = %s, want %s", got, want)
	}
	if again.Operation.Key != first.Operation.Key {
		t.Error("the keys differ")
	}
	other := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("2", 99)})
	scoped := mustDo(t, r, justonce.Call{Tool: "charge", Scope: "bob", Arguments: order("1", 99)})
	second := mustDo(t, r, justonce.Call{Tool: "charge", IntentSeq: 2, Arguments: order("1", 99)})
	tenant := mustDo(t, r, justonce.Call{Tool: "charge", Tenant: "acme", Arguments: order("1", 99)})
	for _, a := range []*justonce.Answer{other, scoped, second, tenant} {
		if a.Replayed {
			t.Errorf("%+v was replayed", a.Operation.Ref)
		}
	}
	if p.count() != 5 {
		t.Errorf("%d effects, want 5", p.count())
	}
}

func TestDo_Conflict(t *testing.T) {
	p := &provider{}
	r := newRunner(t, charge(p, justonce.ByNothing), &justonce.Tool{Name: "other", Connector: p})
	mustDo(t, r, justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 99)})
	for name, test := range map[string]struct {
		call    justonce.Call
		paths   []string
		differs []string
		by      justonce.Match
	}{
		"amount":           {call: justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 100)}, paths: []string{"/amount"}, by: justonce.MatchKey},
		"scope":            {call: justonce.Call{Tool: "charge", Key: "k", Scope: "s", Arguments: order("1", 99)}, differs: []string{"scope"}, by: justonce.MatchKey},
		"tool":             {call: justonce.Call{Tool: "other", Key: "k", Arguments: order("1", 99)}, differs: []string{"tool"}, by: justonce.MatchKey},
		"identity":         {call: justonce.Call{Tool: "charge", Key: "k2", Arguments: order("1", 100)}, paths: []string{"/amount"}, by: justonce.MatchIdentity},
		"derived identity": {call: justonce.Call{Tool: "charge", Arguments: order("1", 100)}, paths: []string{"/amount"}, by: justonce.MatchIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Do(context.Background(), test.call)
			var c *justonce.ConflictError
			if !errors.Is(err, justonce.ErrConflict) || !errors.As(err, &c) {
				t.Fatalf("err = %v, want a conflict", err)
			}
			if d := cmp.Diff([]any{test.paths, test.differs, test.by}, []any{c.Paths, c.Differs, c.MatchedBy}); d != "" {
				t.Error(d)
			}
		})
	}
	if p.count() != 1 {
		t.Errorf("%d effects, want 1", p.count())
	}
	again := mustDo(t, r, justonce.Call{Tool: "charge", Key: "fresh", Arguments: order("1", 99)})
	if !again.Replayed || again.MatchedBy != justonce.MatchIdentity || again.Operation.Key != "k" {
		t.Errorf("a fresh key for the same order = %+v, want the first operation by identity", again)
	}
}

func TestDo_Joins(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		r := newRunner(t, charge(p, justonce.ByNothing))
		var wg sync.WaitGroup
		answers := make([]*justonce.Answer, 6)
		for i := range answers {
			ctx := t.Context()
			if i == 5 { // an impatient one
				c, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = c
			}
			c := justonce.Call{Tool: "charge", Arguments: order("1", 99)}
			if i%2 == 1 {
				c.Key = fmt.Sprintf("fresh %d", i)
			}
			wg.Go(func() {
				a, err := r.Do(ctx, c)
				if err != nil {
					t.Error(err)
				}
				answers[i] = a
			})
			synctest.Wait()
		}
		time.Sleep(2 * time.Second) // in the bubble
		close(p.block)
		wg.Wait()
		for i, a := range answers {
			want := justonce.Succeeded
			if i == 5 {
				want = justonce.Running
			}
			if a.Operation.State != want || a.Joined != (i > 0) {
				t.Errorf("call %d: %s, joined %v", i, a.Operation.State, a.Joined)
			}
		}
		if p.sends.Load() != 1 {
			t.Errorf("%d sends, want 1", p.sends.Load())
		}
	})
}

func TestDo_LostReply(t *testing.T) {
	for _, test := range []struct {
		capability justonce.Capability
		find       bool
		state      justonce.State
		sends      int64
	}{
		{justonce.ByKey, false, justonce.Succeeded, 2},
		{justonce.ByReference, true, justonce.Succeeded, 1},
		{justonce.ByList, true, justonce.Succeeded, 1},
		{justonce.ByNothing, false, justonce.Review, 1},
	} {
		t.Run(string(test.capability), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := &provider{lose: 1, keyed: test.capability == justonce.ByKey}
				var c justonce.Connector = p
				if test.find {
					c = findable{p}
				}
				r := newRunner(t, charge(c, test.capability))
				a, err := r.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 99)})
				if err != nil {
					t.Fatal(err)
				}
				if a.Operation.State != test.state || p.sends.Load() != test.sends || p.count() != 1 {
					t.Errorf("%s after %d sends with %d effects, want %s, %d, 1", a.Operation.State, p.sends.Load(), p.count(), test.state, test.sends)
				}
			})
		})
	}
}

func TestDo_NeverArrived(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{refuse: 2}
		r := newRunner(t, charge(p, justonce.ByNothing))
		start := time.Now()
		a := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 99)})
		if a.Operation.State != justonce.Succeeded || p.count() != 1 || p.sends.Load() != 3 {
			t.Errorf("%s, %d effects, %d sends", a.Operation.State, p.count(), p.sends.Load())
		}
		if took := time.Since(start); took < 6*time.Second {
			t.Errorf("it took %s although the provider twice asked for 3s", took)
		}
	})
}

func TestWork_RunsWhatNobodyWaitsFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{lose: 1, keyed: true}
		r := newRunner(t, charge(p, justonce.ByKey))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Work(ctx) }()
		a, err := r.Do(ctx, justonce.Call{Tool: "charge", NoWait: true, Arguments: order("1", 99)})
		if err != nil || a.Operation.State.Ended() {
			t.Fatal(a, err)
		}
		a, err = r.Wait(ctx, a.Operation.Ref)
		if err != nil || a.Operation.State != justonce.Succeeded || p.count() != 1 {
			t.Fatal(a.Operation.State, err, p.count())
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := r.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("2", 1)}); !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("after Shutdown: %v", err)
		}
	})
}

func TestDecide(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{lose: 2}
		r := newRunner(t, charge(p, justonce.ByNothing))
		decide := func(a *justonce.Answer, d justonce.Decision) *justonce.Answer {
			t.Helper()
			d.Actor, d.Reason = "ann", "looked at the provider"
			a, err := r.Decide(t.Context(), a.Operation.Ref, d)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		one := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		one = decide(one, justonce.Decision{Verdict: justonce.Happened, Reference: "ch_x", Result: json.RawMessage(`{"ok":1}`)})
		again := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if one.Operation.State != justonce.Succeeded || string(again.Operation.Result) != `{"ok":1}` || !again.Replayed {
			t.Errorf("after happened: %+v", again.Operation)
		}
		two := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("2", 1)})
		two = decide(two, justonce.Decision{Verdict: justonce.Retry})
		if two, _ = r.Wait(t.Context(), two.Operation.Ref); two.Operation.State != justonce.Succeeded {
			t.Errorf("after retry: %+v", two.Operation)
		}
		if _, err := r.Decide(t.Context(), two.Operation.Ref, justonce.Decision{Verdict: justonce.Retry, Actor: "a", Reason: "b"}); !errors.Is(err, justonce.ErrNotAllowed) {
			t.Errorf("a decision about an ended operation: %v", err)
		}
		h, err := r.History(t.Context(), one.Operation.Ref)
		if err != nil || len(h) != 3 || h[2].Actor != "ann" {
			t.Errorf("history: %+v, %v", h, err)
		}
	})
}
