package justonce_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// processes returns runners of one tool on one ledger.
func processes(t *testing.T, tool *justonce.Tool) (a, b *justonce.Runner, store *inmem.Store) {
	t.Helper()
	store = inmem.New(nil)
	var rs [2]*justonce.Runner
	for i := range rs {
		var err error
		rs[i], err = justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{tool}, ResultLimit: 100, Rand: func() float64 { return 0.5 }})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rs[0], rs[1], store
}

func decide(t *testing.T, r *justonce.Runner, ref justonce.Ref, v justonce.Verdict) *justonce.Answer {
	t.Helper()
	a, err := r.Decide(t.Context(), ref, justonce.Decision{Verdict: v, Actor: "ann", Reason: "seen"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A delivery is known to all processes at once.
func TestUntilDelivered_ByAnotherProcess(t *testing.T) {
	p := &provider{}
	tool := charge(p, justonce.ByNothing)
	tool.Dedupe = justonce.UntilDelivered
	a, b, _ := processes(t, tool)
	call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
	first := mustDo(t, a, call)
	if err := b.Delivered(t.Context(), first.Operation); err != nil {
		t.Fatal(err)
	}
	if again := mustDo(t, a, call); again.Replayed || p.count() != 2 {
		t.Errorf("an equal call after delivery: replayed %v, %d effects", again.Replayed, p.count())
	}
}

// An attempt that never returns does not keep old news alive.
func TestHungAttempt_AnotherProcessGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})} // ignores its context
		a, b, _ := processes(t, charge(p, justonce.ByNothing))
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first, err := a.Do(ctx, call)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // in the bubble; the lease runs out
		work, stop := context.WithCancel(t.Context())
		go a.Work(work)
		synctest.Wait()
		stop()
		if again := mustDo(t, a, call); again.Operation.State != justonce.Review {
			t.Fatalf("%s, want review", again.Operation.State)
		}
		decide(t, b, first.Operation.Ref, justonce.Happened)
		if again := mustDo(t, a, call); again.Operation.State != justonce.Succeeded {
			t.Errorf("after the decision elsewhere: %s, want succeeded", again.Operation.State)
		}
		close(p.block)
	})
}

// A late success is not lost when its operation gave way to another one of the
// same identity under another key.
func TestLateSuccess_AfterItGaveWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})} // ignores its context
		tool := charge(p, justonce.ByNothing)
		tool.DedupeFor = time.Second
		a, b, _ := processes(t, tool)
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true}
		first := mustDo(t, a, call)
		time.Sleep(time.Minute) // in the bubble; the lease runs out
		work, stop := context.WithCancel(t.Context())
		go b.Work(work)
		synctest.Wait()
		stop()
		decide(t, b, first.Operation.Ref, justonce.Cancel)
		time.Sleep(time.Minute) // in the bubble; the key's time is over
		call.Key = "other"
		if second := mustDo(t, b, call); second.MatchedBy != "" {
			t.Fatalf("the second call met %+v", second.Operation)
		}
		close(p.block)
		synctest.Wait()
		page, err := a.List(t.Context(), justonce.Filter{States: []justonce.State{justonce.Review}})
		if err != nil || len(page.Operations) != 1 || !page.Operations[0].Incident || !strings.HasPrefix(page.Operations[0].Key, first.Operation.Key) {
			t.Errorf("in review: %+v, %v; want the first operation's incident", page.Operations, err)
		}
	})
}

// Whoever waits for an operation gets that one's end, though another has taken
// its key before the next look.
func TestJoin_KeyIsTakenMeanwhile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		tool := charge(p, justonce.ByNothing)
		tool.Dedupe = justonce.UntilDelivered
		a, b, _ := processes(t, tool)
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true}
		first := mustDo(t, a, call)
		done := make(chan *justonce.Answer, 1)
		go func() {
			ans, err := b.Wait(t.Context(), first.Operation.Ref)
			if err != nil {
				t.Error(err)
			}
			done <- ans
		}()
		time.Sleep(10 * time.Second) // in the bubble; it looks rarely by now
		close(p.block)
		synctest.Wait()
		if err := a.Delivered(t.Context(), first.Operation); err != nil {
			t.Fatal(err)
		}
		call.NoWait = false
		call.Arguments = order("1", 2)
		second := mustDo(t, a, call)
		if ans := <-done; string(ans.Operation.Result) == string(second.Operation.Result) || ans.Operation.State != justonce.Succeeded {
			t.Errorf("the waiting call got %s of %s, want the first result", ans.Operation.Result, ans.Operation.State)
		}
	})
}

// Two calls share a key that is not recorded, since the first of them meets its
// identity. The second one's intent is another.
func TestJoin_OtherIdentity(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{}
		var gate chan struct{}
		store := inmem.New(&inmem.Options{Fault: func(method string) error {
			if method == "Begin" && gate != nil {
				<-gate
			}
			return nil
		}})
		r, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(p, justonce.ByNothing)}})
		if err != nil {
			t.Fatal(err)
		}
		mustDo(t, r, justonce.Call{Tool: "charge", Key: "first", Arguments: order("1", 1)})
		gate = make(chan struct{})
		var answers [2]*justonce.Answer
		var errs [2]error
		for i, id := range []string{"1", "2"} {
			go func() {
				answers[i], errs[i] = r.Do(t.Context(), justonce.Call{Tool: "charge", Key: "k", Arguments: order(id, 1)})
			}()
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		if errs[0] != nil || answers[0].MatchedBy != justonce.MatchIdentity {
			t.Errorf("the first call: %+v, %v; want it to meet its identity", answers[0], errs[0])
		}
		if errs[1] != nil || answers[1].MatchedBy != "" || p.count() != 2 {
			t.Errorf("the second call: %+v, %v, %d effects; want it to be new", answers[1], errs[1], p.count())
		}
	})
}

// job is a long-running tool whose end shows as result.
type job struct{ result json.RawMessage }

func (job) Send(context.Context, *justonce.Attempt) justonce.Outcome {
	return justonce.Outcome{Kind: justonce.OutcomeAccepted, Reference: "j", Result: json.RawMessage(`{"percent":1}`)}
}

func (j job) Lookup(context.Context, *justonce.Attempt) justonce.Finding {
	return justonce.Finding{Kind: justonce.FindingFound, Matches: []justonce.Found{{Reference: "j", Result: j.result}}}
}

// A job's progress is not taken for its result, and all get the same one.
func TestLongRunning_ProgressIsNoResult(t *testing.T) {
	for name, result := range map[string]string{"none": "", "large": `"` + strings.Repeat("x", 200) + `"`} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				a, b, _ := processes(t, &justonce.Tool{Name: "export", Effect: justonce.LongRunning, Connector: job{json.RawMessage(result)}})
				first := mustDo(t, a, justonce.Call{Tool: "export"})
				again := mustDo(t, b, justonce.Call{Tool: "export"})
				if first.Operation.State != justonce.Succeeded || string(first.Operation.Result) != string(again.Operation.Result) {
					t.Errorf("%s got %s, then a duplicate %s", first.Operation.State, first.Operation.Result, again.Operation.Result)
				}
				if strings.Contains(string(again.Operation.Result), "percent") {
					t.Errorf("the progress %s is given as the result", again.Operation.Result)
				}
				if name == "large" && !strings.Contains(again.Advice().Text, "exceeds the limit") {
					t.Errorf("advice %q does not tell why there is no result", again.Advice().Text)
				}
			})
		})
	}
}

// An operation whose arguments are gone can still be decided, but not sent.
func TestDecide_Tombstone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})} // ignores its context
		a, b, store := processes(t, charge(p, justonce.ByNothing))
		first := mustDo(t, a, justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 1), NoWait: true})
		ref := first.Operation.Ref
		time.Sleep(time.Minute) // in the bubble; the lease runs out
		work, stop := context.WithCancel(t.Context())
		go b.Work(work)
		synctest.Wait()
		stop()
		decide(t, b, ref, justonce.Cancel)
		if n, err := store.Purge(t.Context(), time.Now().Add(time.Hour), 10); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		close(p.block) // a late success contradicts the cancellation
		synctest.Wait()
		if op := decide(t, b, ref, justonce.Cancel).Operation; op.State != justonce.Failed || op.Note != justonce.NotePurged {
			t.Errorf("%s, note %q", op.State, op.Note)
		}
		if _, err := b.Decide(t.Context(), ref, justonce.Decision{Verdict: justonce.Redrive, Actor: "ann", Reason: "again"}); err == nil {
			t.Error("it was redriven without its arguments")
		}
	})
}

// A provider's wish is a floor, however absurd it is.
func TestRetryAfter_Absurd(t *testing.T) {
	for _, wish := range []time.Duration{1<<63 - 1, -1 << 63} {
		bubble.Test(t, func(t *testing.T) {
			sent := 0
			r := newRunner(t, &justonce.Tool{Name: "f", Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
				sent++
				return nil, justonce.NotExecutedError(errDisk, wish)
			})})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			a, err := r.Do(ctx, justonce.Call{Tool: "f"})
			if err != nil || a.Operation.State != justonce.Pending || sent != 1 {
				t.Errorf("a wish of %s: %s after %d sends, %v; want it pending after 1", wish, a.Operation.State, sent, err)
			}
		})
	}
}

// A result that nobody ever got answers for dedupe_for, not for ever.
func TestUntilDelivered_NeverDelivered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{}
		tool := charge(p, justonce.ByNothing)
		tool.Dedupe, tool.DedupeFor = justonce.UntilDelivered, time.Hour
		a, b, _ := processes(t, tool)
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		mustDo(t, a, call)
		time.Sleep(time.Hour - time.Minute)
		if again := mustDo(t, b, call); !again.Replayed || p.count() != 1 {
			t.Errorf("before: replayed %v, %d effects", again.Replayed, p.count())
		}
		time.Sleep(2 * time.Minute)
		if again := mustDo(t, a, call); again.Replayed || p.count() != 2 {
			t.Errorf("after: replayed %v, %d effects", again.Replayed, p.count())
		}
	})
}

// Tools may take larger arguments than most need.
func TestArgumentsLimit(t *testing.T) {
	p := &provider{}
	tool := charge(p, justonce.ByNothing)
	args := json.RawMessage(`{"order_id":"1","text":"` + strings.Repeat("x", 2<<20) + `"}`)
	a, _, _ := processes(t, tool)
	if _, err := a.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: args}); !errors.Is(err, justonce.ErrInvalid) {
		t.Errorf("by default: %v", err)
	}
	tool.ArgumentsLimit = 4 << 20
	a, _, _ = processes(t, tool)
	if ans := mustDo(t, a, justonce.Call{Tool: "charge", Arguments: args}); ans.Operation.State != justonce.Succeeded {
		t.Errorf("%s", ans.Operation.State)
	}
}
