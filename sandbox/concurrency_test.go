package sandbox_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/sandbox"
)

// together runs n goroutines that begin at the same moment.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}

func TestOneKeyOneEffect(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	var mu sync.Mutex
	bodies, busy := map[string]int{}, 0
	together(64, func(int) {
		r := w.post("/payments", payment, "Idempotency-Key", "k")
		mu.Lock()
		defer mu.Unlock()
		switch r.status {
		case http.StatusCreated:
			bodies[r.body]++
		case http.StatusConflict:
			busy++
		default:
			t.Errorf("got %+v", r)
		}
	})
	w.count(sandbox.Payment, 1)
	if len(bodies) != 1 {
		t.Errorf("got %d different answers and %d conflicts", len(bodies), busy)
	}
}

func TestOneReferenceOneEffect(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	var mu sync.Mutex
	got := map[int]int{}
	together(64, func(int) {
		r := w.post("/tickets", `{"title":"x","external_id":"T-1"}`)
		mu.Lock()
		defer mu.Unlock()
		got[r.status]++
	})
	w.count(sandbox.Ticket, 1)
	if got[201] != 1 || got[409] != 63 {
		t.Errorf("got %v", got)
	}
}

// TestCountIsTrue compares what many clients did with what was counted, faults, journal and all.
func TestCountIsTrue(t *testing.T) {
	t.Parallel()
	opt := &sandbox.Options{Seed: 1, Journal: filepath.Join(t.TempDir(), "effects.jsonl")}
	w := start(t, opt)
	for _, kind := range []sandbox.Kind{sandbox.LostReply, sandbox.CutBefore, sandbox.CutMid, sandbox.Error500After, sandbox.Error500Before, sandbox.Error503} {
		w.inject(sandbox.Fault{Kind: kind, Times: -1, Probability: 0.1})
	}
	const workers, each = 16, 25
	together(workers, func(i int) {
		for n := range each {
			body := fmt.Sprintf(`{"amount":1,"currency":"EUR","order_id":"%d-%d"}`, i, n)
			for { // until the key has an answer of its own
				r := w.post("/payments", body, "Idempotency-Key", fmt.Sprint(i, "-", n))
				if r.err == nil && (r.status == 201 || r.header.Get("Idempotent-Replayed") != "") {
					break
				}
			}
			w.get("/effects/duplicates?by=order_id")
		}
	})
	check := func(w *world) {
		t.Helper()
		w.count(sandbox.Payment, workers*each)
		if got := w.Duplicates("order_id"); len(got) != 0 {
			t.Errorf("duplicates: %+v", got)
		}
		if got := len(w.Groups("order_id")); got != workers*each {
			t.Errorf("got %d groups", got)
		}
	}
	check(w)
	w.Close()
	check(start(t, opt))
}

func TestResetWhileRunning(t *testing.T) {
	t.Parallel()
	timers := newTimers()
	w := start(t, &sandbox.Options{After: timers.After})
	first := make(chan response, 1)
	go func() {
		first <- w.post("/payments", payment, "Idempotency-Key", "k", "Sandbox-Fault", "slow; delay=1s")
	}()
	<-timers.started
	if err := w.Reset(); err != nil {
		t.Fatal(err)
	}
	w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusConflict) // the key is still in use
	timers.fire <- time.Time{}
	w.must(<-first, 201)
	w.count(sandbox.Payment, 1)
}
