package justonce_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// telling is a store as another process sees it, which tells of changes when the
// test says so.
type telling struct {
	justonce.Store

	mu      sync.Mutex
	fails   []error // of the next Listens
	began   []time.Time
	open    int
	changed func(justonce.Ref)
}

func (s *telling) Listen(ctx context.Context, changed func(justonce.Ref)) error {
	s.mu.Lock()
	s.began = append(s.began, time.Now())
	if len(s.fails) > 0 {
		err := s.fails[0]
		s.fails = s.fails[1:]
		s.mu.Unlock()
		return err
	}
	s.open++
	s.changed = changed
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	return nil
}

func (s *telling) tell(ref justonce.Ref) {
	s.mu.Lock()
	changed := s.changed
	s.mu.Unlock()
	changed(ref)
}

func (s *telling) listening() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// here returns the Runner of another process on store, which never looks by
// itself in the time of a test.
func here(t *testing.T, store justonce.Store, p justonce.Connector) (*justonce.Runner, *telling) {
	t.Helper()
	s := &telling{Store: store}
	r, err := justonce.New(s, &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(p, justonce.ByNothing)}, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil || s.listening() != 0 {
			t.Errorf("Shutdown: %v, with %d listening", err, s.listening())
		}
	})
	return r, s
}

// join waits for a call that another process executes, and returns how long after
// its end the answer came. Of the end there is news if tell is set.
func join(t *testing.T, wait func(*justonce.Runner, justonce.Ref) (*justonce.Answer, error), tell bool) (late time.Duration) {
	p := &provider{block: make(chan struct{})}
	tool := charge(p, justonce.ByNothing)
	tool.Policy.Timeout = 10 * time.Hour
	store := inmem.New(nil)
	there, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan *justonce.Answer)
	go func() {
		a, _ := there.Do(context.Background(), justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		first <- a
	}()
	synctest.Wait()
	page, err := store.List(t.Context(), justonce.Filter{Tenant: justonce.DefaultTenant})
	if err != nil || len(page.Operations) != 1 {
		t.Fatal(page, err)
	}
	ref := page.Operations[0].Ref
	r, s := here(t, store, p)
	second := make(chan time.Time)
	go func() {
		a, err := wait(r, ref)
		if err != nil || a.Operation.State != justonce.Succeeded || !a.Joined {
			t.Errorf("joined: %+v, %v", a, err)
		}
		second <- time.Now()
	}()
	time.Sleep(10 * time.Minute)
	if s.listening() != 1 {
		t.Errorf("%d listen, want one while a call waits", s.listening())
	}
	close(p.block)
	<-first
	end := time.Now()
	if tell {
		s.tell(ref)
	}
	late = (<-second).Sub(end)
	if n := p.count(); n != 1 {
		t.Errorf("%d effects", n)
	}
	return late
}

// A duplicate gets the result the moment news of it comes, and without news once
// it looks.
func TestNews_ADuplicateGetsTheResult(t *testing.T) {
	for name, wait := range map[string]func(*justonce.Runner, justonce.Ref) (*justonce.Answer, error){
		"Do": func(r *justonce.Runner, _ justonce.Ref) (*justonce.Answer, error) {
			return r.Do(context.Background(), justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		},
		"Wait": func(r *justonce.Runner, ref justonce.Ref) (*justonce.Answer, error) {
			return r.Wait(context.Background(), ref)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				if late := join(t, wait, true); late != 0 {
					t.Errorf("with news it took %v", late)
				}
			})
			bubble.Test(t, func(t *testing.T) {
				if late := join(t, wait, false); late == 0 || late > time.Hour {
					t.Errorf("without news it took %v, want up to the poll's hour", late)
				}
			})
		})
	}
}

// A process whose attempt was taken over tells its callers what became of it,
// however long its own attempt still takes.
func TestNews_TakenOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := inmem.New(nil)
		p := &provider{block: make(chan struct{})}
		r, s := here(t, store, p)
		ctx, cancel := context.WithCancel(t.Context())
		work := make(chan error)
		go func() { work <- r.Work(ctx) }()
		answer := make(chan *justonce.Answer)
		go func() {
			a, _ := r.Do(ctx, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
			answer <- a
		}()
		synctest.Wait()
		op := only(t, store)
		op.State, op.Fence, op.Result = justonce.Succeeded, op.Fence+1, nil
		op.Due, op.LeaseUntil = time.Time{}, time.Time{}
		if err := store.Update(t.Context(), op, justonce.Entry{Kind: justonce.EntryLookup, Body: json.RawMessage(`"found"`), IsResult: true}); err != nil {
			t.Fatal(err)
		}
		s.tell(op.Ref)
		if a := <-answer; a == nil || a.Operation.State != justonce.Succeeded || string(a.Operation.Result) != `"found"` {
			t.Errorf("answer %+v", a)
		}
		if n := p.count(); n != 0 {
			t.Errorf("%d attempts have ended", n)
		}
		close(p.block)
		cancel()
		if err := <-work; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		history, err := store.History(t.Context(), op.Ref)
		if err != nil || history[len(history)-1].Kind != justonce.EntryLate {
			t.Errorf("the late answer is not kept: %+v, %v", history, err)
		}
	})
}

func only(t *testing.T, store justonce.Store) *justonce.Operation {
	t.Helper()
	page, err := store.List(t.Context(), justonce.Filter{Tenant: justonce.DefaultTenant})
	if err != nil || len(page.Operations) != 1 {
		t.Fatal(page, err)
	}
	op, err := store.Get(t.Context(), page.Operations[0].Ref)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// What another process changed after the end is not replayed from memory any
// more once news of it comes.
func TestNews_ForgetsWhatItKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := inmem.New(nil)
		r, s := here(t, store, &provider{})
		ctx, cancel := context.WithCancel(t.Context())
		work := make(chan error)
		go func() { work <- r.Work(ctx) }()
		synctest.Wait()
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		mustDo(t, r, call)
		mustDo(t, r, call) // what is replayed is kept
		op := only(t, store)
		op.State, op.Incident = justonce.Review, true
		if err := store.Update(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		if a := mustDo(t, r, call); a.Operation.State != justonce.Succeeded {
			t.Errorf("before the news: %s; it was not replayed from memory", a.Operation.State)
		}
		s.tell(op.Ref)
		if a := mustDo(t, r, call); a.Operation.State != justonce.Review {
			t.Errorf("after the news: %s, want review", a.Operation.State)
		}
		cancel()
		if err := <-work; err != nil || s.listening() != 0 {
			t.Errorf("Work: %v, with %d listening afterwards", err, s.listening())
		}
	})
}

// What another process made pending is taken up at once.
func TestNews_WakesWork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := inmem.New(nil)
		p := &provider{}
		r, s := here(t, store, p)
		ctx, cancel := context.WithCancel(t.Context())
		work := make(chan error)
		go func() { work <- r.Work(ctx) }()
		time.Sleep(time.Minute)
		for i := range 3 {
			op, err := r.Prepare(t.Context(), justonce.Call{Tool: "charge", Arguments: order(string(rune('a'+i)), 1)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Begin(t.Context(), op, justonce.Entry{Kind: justonce.EntryArrived, Body: op.Arguments}); err != nil {
				t.Fatal(err)
			}
			s.tell(op.Ref)
			synctest.Wait()
			if p.count() != 1 {
				t.Errorf("%d effects after %d pieces of news, want one look only", p.count(), i+1)
			}
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if n := p.count(); n != 3 {
			t.Errorf("%d effects, want 3", n)
		}
		cancel()
		<-work
	})
}

// A failing Listen is logged and begun again, less and less often; there is one
// at a time, and none once nobody needs it.
func TestNews_ListensAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		s := &telling{Store: inmem.New(nil), fails: []error{gone, gone, nil, gone}}
		var log bytes.Buffer
		r, err := justonce.New(s, &justonce.RunnerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			var workers sync.WaitGroup
			for range 2 {
				workers.Go(func() { r.Work(ctx) })
			}
			time.Sleep(time.Minute)
			if n := s.listening(); n != 1 {
				t.Errorf("%d listen, want 1", n)
			}
			cancel()
			workers.Wait()
			if n := s.listening(); n != 0 {
				t.Errorf("%d listen after Work", n)
			}
		}
		var waits []time.Duration
		for i := range s.began[1:5] {
			waits = append(waits, s.began[i+1].Sub(s.began[i]))
		}
		for i, want := range []time.Duration{100, 200, 400, 800} {
			if waits[i] != want*time.Millisecond {
				t.Errorf("it was begun again after %v", waits)
				break
			}
		}
		if n := strings.Count(log.String(), "no news of other processes"); n != 4 {
			t.Errorf("%d failures logged, want 4:\n%s", n, &log)
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	tool := charge(&provider{}, justonce.ByNothing)
	r := newRunner(t, tool)
	call := justonce.Call{Tool: "charge", Scope: "s", RunID: "run", Arguments: order("1", 9)}
	op, err := r.Prepare(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(t.Context(), op.Ref); !errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("it is recorded: %v", err)
	}
	if op.State != justonce.Pending || op.Attempts != 0 || op.Fence != 0 || !op.DedupeUntil.Equal(op.CreatedAt.Add(24*time.Hour)) || len(op.WireKey) != 32 {
		t.Errorf("prepared %+v", op)
	}
	a := mustDo(t, r, call)
	if got := a.Operation; got.Ref != op.Ref || got.Fingerprint != op.Fingerprint || got.Identity != op.Identity || got.Scope != op.Scope ||
		got.RunID != op.RunID || got.KeySource != op.KeySource || got.IntentSeq != op.IntentSeq || got.Algorithm != op.Algorithm {
		t.Errorf("Do recorded %+v, prepared was %+v", got, op)
	}
	call.Key = "given"
	if op, err := r.Prepare(t.Context(), call); err != nil || op.Key != "given" || !op.DedupeUntil.IsZero() {
		t.Errorf("a given key: %+v, %v", op, err)
	}
	if _, err := r.Prepare(t.Context(), justonce.Call{Tool: "nothing"}); !errors.Is(err, justonce.ErrUnknownTool) {
		t.Errorf("an unknown tool: %v", err)
	}
	if _, err := r.Prepare(t.Context(), justonce.Call{Tool: "charge"}); !errors.Is(err, justonce.ErrInvalid) {
		t.Errorf("without identity: %v", err)
	}
	reads := charge(&provider{}, justonce.ByNothing)
	reads.Name, reads.Effect = "look", justonce.Read
	if err := r.Register(reads); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Prepare(t.Context(), justonce.Call{Tool: "look", Arguments: order("1", 1)}); !errors.Is(err, justonce.ErrInvalid) {
		t.Errorf("a read: %v", err)
	}
}

// emptied is a store whose records are gone once gone is set.
type emptied struct {
	justonce.Store
	gone atomic.Bool
}

func (s *emptied) Get(ctx context.Context, ref justonce.Ref) (*justonce.Operation, error) {
	if s.gone.Load() {
		return nil, fmt.Errorf("reading: %w", justonce.ErrLedgerGone)
	}
	return s.Store.Get(ctx, ref)
}

// Who waits for another process is told that the ledger is gone, and does not wait
// for ever.
func TestLedgerGoneWhileWaiting(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		store := inmem.New(nil)
		p := &provider{block: make(chan struct{})}
		var ends sync.WaitGroup
		runner := func(s justonce.Store) *justonce.Runner {
			r, err := justonce.New(s, &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(p, justonce.ByNothing)}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		ends.Go(func() { runner(store).Do(context.Background(), call) })
		synctest.Wait()
		here := &emptied{Store: store}
		r := runner(here)
		time.AfterFunc(3*time.Second, func() { here.gone.Store(true) })
		began := time.Now()
		a, err := r.Do(t.Context(), call)
		if !errors.Is(err, justonce.ErrLedgerGone) || !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("%+v, %v; want ErrLedgerGone", a, err)
		}
		if waited := time.Since(began); waited < 3*time.Second || waited > 5*time.Second {
			t.Errorf("it took %v", waited)
		}
		close(p.block)
		ends.Wait()
	})
}

// unclaimable is a store that can be read, and nothing more.
type unclaimable struct {
	justonce.Store
	gets atomic.Int64
}

func (s *unclaimable) Get(ctx context.Context, ref justonce.Ref) (*justonce.Operation, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, ref)
}

func (s *unclaimable) Claim(context.Context, justonce.Due, func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) ([]*justonce.Operation, error) {
	return nil, errors.New("read only")
}

// What is due and cannot be claimed is looked at from time to time, no more.
func TestDueButUnclaimable(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		store := inmem.New(nil)
		tools := []*justonce.Tool{charge(&provider{}, justonce.ByNothing)}
		enqueuer, err := justonce.New(store, &justonce.RunnerOptions{Tools: tools})
		if err != nil {
			t.Fatal(err)
		}
		op, err := enqueuer.Prepare(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if err != nil {
			t.Fatal(err)
		}
		op.Due = time.Now()
		if _, err := store.Begin(t.Context(), op, justonce.Entry{Kind: justonce.EntryArrived, At: time.Now(), State: op.State, Body: op.Arguments}); err != nil {
			t.Fatal(err)
		}
		looking := &unclaimable{Store: store}
		r, err := justonce.New(looking, &justonce.RunnerOptions{Tools: tools})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a, err := r.Wait(ctx, op.Ref)
		if err != nil || a.Operation.State != justonce.Pending {
			t.Errorf("Wait: %+v, %v", a, err)
		}
		if n := looking.gets.Load(); n < 60 || n > 200 {
			t.Errorf("in a minute it was looked at %d times", n)
		}
	})
}
