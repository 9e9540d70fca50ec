package justonce_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// A sleepy provider does nothing until it wakes up.
type sleepy struct {
	effects atomic.Int64
	began   chan struct{}
	wake    chan struct{}
}

func (p *sleepy) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome {
	p.began <- struct{}{}
	select {
	case <-p.wake:
	case <-ctx.Done():
		return justonce.Outcome{}
	}
	p.effects.Add(1)
	return justonce.Outcome{Kind: justonce.OutcomeSucceeded, Reference: "r"}
}

func (p *sleepy) Lookup(context.Context, *justonce.Attempt) justonce.Finding {
	if p.effects.Load() > 0 {
		return justonce.Finding{Kind: justonce.FindingFound, Matches: []justonce.Found{{Reference: "r"}}}
	}
	return justonce.Finding{Kind: justonce.FindingAbsent}
}

// Two processes sleep with the machine, one of them over a call. The other one
// wakes first and finds the lease expired; the call goes on all the same.
func TestNobodyTakesOverAfterSleep(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		store := inmem.New(&inmem.Options{Now: func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }})
		p := &sleepy{began: make(chan struct{}, 10), wake: make(chan struct{})}
		process := func() *justonce.Runner {
			r, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{{Name: "make", Identity: []string{"/id"}, Connector: p,
				Policy: justonce.Policy{Capability: justonce.ByReference, Settle: 5 * time.Second, Timeout: time.Hour, Lease: 20 * time.Second, BackoffBase: time.Millisecond}}}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		calling, working := process(), process()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { working.Work(ctx) })
		var a *justonce.Answer
		var err error
		var call sync.WaitGroup
		call.Go(func() {
			a, err = calling.Do(context.Background(), justonce.Call{Tool: "make", Arguments: json.RawMessage(`{"id":1}`)})
		})
		<-p.began
		for _, r := range []*justonce.Runner{calling, working} {
			r.Slept(2 * time.Hour)
		}
		slept.Store(int64(2 * time.Hour))
		select {
		case <-time.After(time.Minute): // the provider is slow to wake up
		case <-p.began:
			t.Error("it was sent a second time")
		}
		close(p.wake)
		call.Wait()
		cancel()
		all.Wait()
		if err != nil || a.Operation.State != justonce.Succeeded || p.effects.Load() != 1 {
			t.Errorf("%d effects, %+v, %v", p.effects.Load(), a, err)
		}
	})
}
