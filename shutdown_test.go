package justonce_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// A call that waits for a retry does not hold up Shutdown: it is told how
// things stand, and the retry is left to the next process.
func TestShutdown_WhileARetryWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{refuse: 1}
		r := newRunner(t, charge(p, justonce.ByNothing))
		var answers [2]*justonce.Answer
		withDone, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i, ctx := range []context.Context{context.Background(), withDone} {
			go func() { answers[i], _ = r.Do(ctx, justonce.Call{Tool: "charge", Arguments: order("1", 1)}) }()
			synctest.Wait()
		}
		time.Sleep(time.Second) // in the bubble
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for _, a := range answers {
			if a == nil || a.Operation.State != justonce.Pending {
				t.Fatalf("answers %v, want pending", answers)
			}
		}
		history, err := r.History(t.Context(), answers[0].Operation.Ref)
		if err != nil || len(history) != 2 || p.sends.Load() != 1 {
			t.Errorf("%d entries, %v, %d sends; want 2 and 1", len(history), err, p.sends.Load())
		}
	})
}

// What is under way ends, and its caller gets the result.
func TestShutdown_WhileItIsSent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		r := newRunner(t, charge(p, justonce.ByNothing))
		var answers [3]*justonce.Answer
		withDone, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i, ctx := range []context.Context{withDone, withDone, context.Background()} {
			go func() { answers[i], _ = r.Do(ctx, justonce.Call{Tool: "charge", Arguments: order("1", 1)}) }()
			synctest.Wait()
		}
		time.AfterFunc(time.Second, func() { close(p.block) })
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for _, a := range answers {
			if a == nil || a.Operation.State != justonce.Succeeded {
				t.Fatalf("answers %v, want succeeded", answers)
			}
		}
	})
}

// Nobody waits for ever once Shutdown gave up.
func TestShutdown_GivesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &faulty{full: map[string]bool{"Update": true}}
		r, err := justonce.New(inmem.New(&inmem.Options{Fault: f.fault}), &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(&provider{}, justonce.ByNothing)}})
		if err != nil {
			t.Fatal(err)
		}
		var answers [2]*justonce.Answer
		for i := range answers {
			go func() {
				answers[i], _ = r.Do(context.Background(), justonce.Call{Tool: "charge", Arguments: order("1", 1)})
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(time.Minute) // in the bubble
		synctest.Wait()
		for _, a := range answers {
			if a == nil || a.Operation.State != justonce.Running || a.Operation.Result != nil {
				t.Errorf("answer %+v, want it running without a result", a)
			}
		}
	})
}

// After Shutdown nothing runs any more, recorded or not.
func TestShutdown_RefusesPassing(t *testing.T) {
	tool := charge(&provider{}, justonce.ByNothing)
	tool.Effect = justonce.Read
	r := newRunner(t, tool)
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 1)}); !errors.Is(err, justonce.ErrUnavailable) {
		t.Errorf("err = %v, want ErrUnavailable", err)
	}
}
