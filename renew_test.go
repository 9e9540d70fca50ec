package justonce_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// writes counts a store's updates and holds them up while blocked.
type writes struct {
	*inmem.Store
	mu      sync.Mutex
	blocked chan struct{} // nil: not
	fail    bool
	bare    int         // renewals
	at      []time.Time // of all
}

func newWrites() *writes { return &writes{Store: inmem.New(nil)} }

func (w *writes) Update(ctx context.Context, op *justonce.Operation, entries ...justonce.Entry) error {
	w.mu.Lock()
	blocked, fail := w.blocked, w.fail
	w.mu.Unlock()
	if blocked != nil {
		select {
		case <-blocked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fail {
		return errDisk
	}
	w.mu.Lock()
	w.at = append(w.at, time.Now())
	if len(entries) == 0 {
		w.bare++
	}
	w.mu.Unlock()
	return w.Store.Update(ctx, op, entries...)
}

func (w *writes) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *writes) count() (renewals, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bare, len(w.at)
}

// slow is a tool whose attempts last an hour at most and whose leases are short.
func slow(c justonce.Connector, level justonce.Capability) *justonce.Tool {
	t := charge(c, level)
	t.Policy.Timeout, t.Policy.Lease = time.Hour, 15*time.Second
	return t
}

func start(t *testing.T, store justonce.Store, tool *justonce.Tool) *justonce.Runner {
	t.Helper()
	r, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{tool}, Rand: func() float64 { return 0.5 }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// work runs the worker loop of r until the returned func is called.
func work(r *justonce.Runner) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Work(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func stateOf(t *testing.T, r *justonce.Runner, ref justonce.Ref) *justonce.Operation {
	t.Helper()
	a, err := r.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return a.Operation
}

// An attempt of many leases' length stays its process's, and is written of no
// more once it is settled.
func TestRenew_LongAttempt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		w := newWrites()
		r, other := start(t, w, slow(p, justonce.ByNothing)), start(t, w, slow(&provider{}, justonce.ByNothing))
		defer work(other)()
		first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
		time.Sleep(150 * time.Second) // in the bubble
		if op := stateOf(t, other, first.Operation.Ref); op.State != justonce.Running || op.Fence != 1 {
			t.Fatalf("after ten leases it is %s under fence %d", op.State, op.Fence)
		}
		if n, _ := w.count(); n < 28 || n > 31 {
			t.Errorf("%d renewals in ten leases, want about 30", n)
		}
		close(p.block)
		synctest.Wait()
		op := stateOf(t, other, first.Operation.Ref)
		if op.State != justonce.Succeeded || op.Attempts != 1 {
			t.Errorf("%s after %d attempts, want succeeded after 1", op.State, op.Attempts)
		}
		_, before := w.count()
		time.Sleep(time.Hour) // in the bubble
		if _, after := w.count(); after != before {
			t.Errorf("%d writes after the end", after-before)
		}
		if n := renewers(); n != 0 {
			t.Errorf("%d renewals still run", n)
		}
	})
}

// renewers counts the goroutines that renew a lease.
func renewers() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), ".renewing(")
}

// Leases that outlast their attempts cost no renewals.
func TestRenew_NotNeeded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		w := newWrites()
		r := start(t, w, charge(p, justonce.ByNothing))
		mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
		time.Sleep(29 * time.Second) // in the bubble
		if n := renewers(); n != 0 {
			t.Errorf("%d renewals run", n)
		}
		close(p.block)
		synctest.Wait()
		if n, all := w.count(); n != 0 || all != 1 {
			t.Errorf("%d renewals and %d writes, want 0 and 1", n, all)
		}
	})
}

// A process whose writes hang is taken for lost; what it reports late counts as
// that: a success is kept, anything else changes nothing.
func TestRenew_Frozen(t *testing.T) {
	for _, test := range []struct {
		name string
		out  justonce.Outcome
		want justonce.State
	}{
		{"success", justonce.Outcome{Kind: justonce.OutcomeSucceeded, Reference: "r"}, justonce.Succeeded},
		{"not executed", justonce.Outcome{Kind: justonce.OutcomeNotExecuted}, justonce.Review},
		{"withdrawn", justonce.Outcome{Kind: justonce.OutcomeWithdrawn}, justonce.Review},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				ledger := inmem.New(nil)
				frozen := &writes{Store: ledger}
				r := start(t, frozen, slow(sendFunc(func(context.Context, *justonce.Attempt) justonce.Outcome {
					<-release
					return test.out
				}), justonce.ByNothing))
				other := start(t, ledger, slow(&provider{}, justonce.ByNothing))
				defer work(other)()
				first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
				time.Sleep(time.Minute) // in the bubble; it is renewed
				frozen.set(func() { frozen.blocked = make(chan struct{}) })
				time.Sleep(20 * time.Second) // in the bubble; it cannot be
				if op := stateOf(t, other, first.Operation.Ref); op.State != justonce.Review {
					t.Fatalf("%s, want review", op.State)
				}
				frozen.set(func() { close(frozen.blocked); frozen.blocked = nil })
				time.Sleep(5 * time.Second) // in the bubble; it tries to renew
				tried, _ := frozen.count()
				time.Sleep(time.Minute) // in the bubble
				if again, _ := frozen.count(); again != tried {
					t.Errorf("it tried %d times more to renew what it had lost", again-tried)
				}
				if op := stateOf(t, other, first.Operation.Ref); op.State != justonce.Review || !op.LeaseUntil.IsZero() {
					t.Fatalf("thawed, it made it %s, leased until %s", op.State, op.LeaseUntil)
				}
				close(release)
				synctest.Wait()
				op := stateOf(t, other, first.Operation.Ref)
				if op.State != test.want {
					t.Errorf("after the late report it is %s, want %s", op.State, test.want)
				}
				history, err := other.History(t.Context(), op.Ref)
				if err != nil || history[len(history)-1].Kind != justonce.EntryLate {
					t.Errorf("the last entry is %+v, %v; want the late one", history[len(history)-1], err)
				}
			})
		})
	}
}

// sendFunc is a connector.
type sendFunc func(context.Context, *justonce.Attempt) justonce.Outcome

func (f sendFunc) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome { return f(ctx, a) }

// A ledger that fails for less than a lease loses nothing; a lease that ran out
// and that nobody took over is renewed all the same.
func TestRenew_LedgerFails(t *testing.T) {
	for name, outage := range map[string]time.Duration{"short": 8 * time.Second, "long": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := &provider{block: make(chan struct{})}
				w := newWrites()
				r := start(t, w, slow(p, justonce.ByNothing))
				first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
				time.Sleep(time.Minute) // in the bubble
				w.set(func() { w.fail = true })
				time.Sleep(outage) // in the bubble
				w.set(func() { w.fail = false })
				time.Sleep(5 * time.Second) // in the bubble
				op := stateOf(t, r, first.Operation.Ref)
				if op.State != justonce.Running || !op.Leased(time.Now()) {
					t.Fatalf("%s, leased until %s at %s", op.State, op.LeaseUntil, time.Now())
				}
				close(p.block)
				synctest.Wait()
				if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Succeeded {
					t.Errorf("%s, want succeeded", op.State)
				}
			})
		})
	}
}

// The end of an attempt is recorded without waiting for a renewal that hangs.
func TestRenew_HangsAtTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		w := newWrites()
		r := start(t, w, slow(p, justonce.ByNothing))
		done := make(chan *justonce.Answer, 1)
		go func() { done <- mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)}) }()
		synctest.Wait()
		w.set(func() { w.blocked = make(chan struct{}) })
		time.Sleep(6 * time.Second) // in the bubble; a renewal hangs
		w.set(func() { w.blocked = nil })
		began := time.Now()
		close(p.block)
		if a := <-done; a.Operation.State != justonce.Succeeded || time.Since(began) > time.Second {
			t.Errorf("%s after %s, want succeeded at once", a.Operation.State, time.Since(began))
		}
	})
}

// An attempt that outstays its time is renewed no more, so that others go on;
// its result counts whenever it comes.
func TestRenew_Hung(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})} // ignores its context
		w := newWrites()
		r, other := start(t, w, slow(p, justonce.ByNothing)), start(t, w, slow(&provider{}, justonce.ByNothing))
		first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
		defer work(other)()
		time.Sleep(time.Hour - time.Second) // in the bubble
		if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Running {
			t.Fatalf("%s before its time was up", op.State)
		}
		time.Sleep(20 * time.Second) // in the bubble
		if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Review {
			t.Fatalf("%s after its time, want review", op.State)
		}
		close(p.block)
		synctest.Wait()
		if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Succeeded {
			t.Errorf("%s after the late result, want succeeded", op.State)
		}
	})
}

// Shutdown waits for a long attempt, which is renewed until it ends.
func TestRenew_Shutdown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		w := newWrites()
		r, other := start(t, w, slow(p, justonce.ByNothing)), start(t, w, slow(&provider{}, justonce.ByNothing))
		defer work(other)()
		first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
		time.AfterFunc(10*time.Minute, func() { close(p.block) })
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if op := stateOf(t, other, first.Operation.Ref); op.State != justonce.Succeeded {
			t.Errorf("%s, want succeeded", op.State)
		}
	})
}

// Once Shutdown gave up nothing is renewed, and others take over soon.
func TestRenew_ShutdownGivesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{block: make(chan struct{})}
		w := newWrites()
		r, other := start(t, w, slow(p, justonce.ByNothing)), start(t, w, slow(&provider{}, justonce.ByNothing))
		defer work(other)()
		first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
		time.Sleep(time.Minute) // in the bubble
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r.Shutdown(ctx) == nil {
			t.Error("Shutdown did not give up")
		}
		time.Sleep(20 * time.Second) // in the bubble
		if op := stateOf(t, other, first.Operation.Ref); op.State != justonce.Review {
			t.Errorf("%s, want review", op.State)
		}
		close(p.block)
		synctest.Wait()
	})
}

// A lookup may last, too. After a crash the effect counts as soon as it is
// found; absence only once the lost process can no longer be at it.
func TestRenew_Lookup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		gone := &provider{block: make(chan struct{})}
		w := newWrites()
		crashed := start(t, w, slow(findable{gone}, justonce.ByReference))
		first := mustDo(t, crashed, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
		began := time.Now()
		now, cancel := context.WithCancel(t.Context())
		cancel()
		crashed.Shutdown(now) // renews no more

		alive := &asked{provider: &provider{}, takes: 5 * time.Minute}
		r := start(t, w, slow(alive, justonce.ByReference))
		defer work(r)()
		time.Sleep(17 * time.Second) // in the bubble
		if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Unknown || op.Lookups != 1 {
			t.Fatalf("%s after %d lookups; want the first under way soon after the crash", op.State, op.Lookups)
		}
		time.Sleep(4 * time.Minute) // in the bubble; many leases
		if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Unknown || op.Lookups != 1 {
			t.Fatalf("%s after %d lookups; want the first still under way", op.State, op.Lookups)
		}
		time.Sleep(50 * time.Minute) // in the bubble
		if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Unknown || alive.sends.Load() != 0 {
			t.Fatalf("%s after %d sends while the lost process may be at it", op.State, alive.sends.Load())
		}
		time.Sleep(20 * time.Minute) // in the bubble
		if op := stateOf(t, r, first.Operation.Ref); op.State != justonce.Succeeded || alive.sends.Load() != 1 {
			t.Errorf("%s after %d sends, %s after the crash; want it sent again", op.State, alive.sends.Load(), time.Since(began))
		}
		close(gone.block)
		synctest.Wait()
	})
}

// asked is a provider that takes its time to answer a lookup.
type asked struct {
	*provider
	takes time.Duration
}

func (a *asked) Lookup(ctx context.Context, at *justonce.Attempt) justonce.Finding {
	time.Sleep(a.takes) // in the bubble
	return findable{a.provider}.Lookup(ctx, at)
}

func TestPolicy_Lease(t *testing.T) {
	for _, test := range []struct {
		timeout, lease time.Duration
		ok             bool
	}{
		{time.Hour, time.Second, true}, {time.Hour, time.Second - 1, false}, {time.Hour, -1, false},
		{100 * time.Millisecond, 200 * time.Millisecond, true}, {time.Minute, time.Minute, true}, {time.Hour, 0, true},
	} {
		tool := charge(&provider{}, justonce.ByNothing)
		tool.Policy.Timeout, tool.Policy.Lease = test.timeout, test.lease
		if _, err := justonce.New(inmem.New(nil), &justonce.RunnerOptions{Tools: []*justonce.Tool{tool}}); (err == nil) != test.ok {
			t.Errorf("a lease of %s with a timeout of %s: %v", test.lease, test.timeout, err)
		}
	}
	if p := (justonce.Policy{Timeout: time.Hour, Lease: 10 * time.Second, Settle: 2 * time.Minute}).WithDefaults(); p.Margin != time.Hour+2*time.Minute {
		t.Errorf("margin %s, want timeout and settle", p.Margin)
	}
	if p := (justonce.Policy{}).WithDefaults(); p.Lease != 45*time.Second || p.Margin != 105*time.Second {
		t.Errorf("lease %s and margin %s by default", p.Lease, p.Margin)
	}
}

// Whoever lost its lease to somebody at work reports late, though it read of the
// new fence when it tried to renew.
func TestRenew_TakenOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ledger := inmem.New(nil)
		frozen := &writes{Store: ledger}
		r := start(t, frozen, slow(sendFunc(func(context.Context, *justonce.Attempt) justonce.Outcome {
			<-release
			return justonce.Outcome{Kind: justonce.OutcomeRejected, Conclusive: true}
		}), justonce.ByKey))
		p := &provider{block: make(chan struct{})}
		other := start(t, ledger, slow(p, justonce.ByKey))
		defer work(other)()
		first := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1), NoWait: true})
		frozen.set(func() { frozen.blocked = make(chan struct{}) })
		time.Sleep(20 * time.Second) // in the bubble
		frozen.set(func() { close(frozen.blocked); frozen.blocked = nil })
		time.Sleep(20 * time.Second) // in the bubble
		close(release)
		synctest.Wait()
		if op := stateOf(t, other, first.Operation.Ref); op.State != justonce.Running || op.Fence != 2 || p.sends.Load() != 1 {
			t.Errorf("%s under fence %d after %d sends, want the other's attempt under way", op.State, op.Fence, p.sends.Load())
		}
		close(p.block)
		synctest.Wait()
		if op := stateOf(t, other, first.Operation.Ref); op.State != justonce.Succeeded {
			t.Errorf("%s, want succeeded", op.State)
		}
	})
}
