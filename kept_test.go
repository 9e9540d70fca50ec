package justonce_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// A countedStore counts the questions for one operation.
type countedStore struct {
	*inmem.Store
	asked atomic.Int32
}

func (s *countedStore) Begin(ctx context.Context, op *justonce.Operation, e justonce.Entry) (*justonce.Arrival, error) {
	s.asked.Add(1)
	return s.Store.Begin(ctx, op, e)
}

func (s *countedStore) Get(ctx context.Context, ref justonce.Ref) (*justonce.Operation, error) {
	s.asked.Add(1)
	return s.Store.Get(ctx, ref)
}

// A result is kept from its first replay on.
func TestWhatIsReplayedIsKept(t *testing.T) {
	t.Parallel()
	s := &countedStore{Store: inmem.New(nil)}
	r, err := justonce.New(s, &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(&provider{}, justonce.ByNothing)}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{1, 2, 2, 2} {
		a := mustDo(t, r, justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 1)})
		if got := s.asked.Load(); got != want || a.Replayed != (i > 0) {
			t.Errorf("call %d: the store was asked %d times, want %d; replayed: %t", i+1, got, want, a.Replayed)
		}
	}
}

// A heldStore answers a Begin that met something only when it may go on.
type heldStore struct {
	*inmem.Store
	hold         atomic.Bool
	answer, goOn chan struct{}
}

func (s *heldStore) Begin(ctx context.Context, op *justonce.Operation, e justonce.Entry) (*justonce.Arrival, error) {
	a, err := s.Store.Begin(ctx, op, e)
	if err == nil && !a.Fresh && s.hold.CompareAndSwap(true, false) {
		close(s.answer)
		<-s.goOn
	}
	return a, err
}

// What a replay read before the news of something newer is not kept.
func TestWhatIsOutdatedIsNotKept(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		held := &heldStore{Store: inmem.New(nil), answer: make(chan struct{}), goOn: make(chan struct{})}
		s := &telling{Store: held}
		r, err := justonce.New(s, &justonce.RunnerOptions{Tools: []*justonce.Tool{charge(&provider{}, justonce.ByNothing)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		work := make(chan error)
		go func() { work <- r.Work(ctx) }()
		synctest.Wait()
		call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
		mustDo(t, r, call)
		held.hold.Store(true)
		replayed := make(chan struct{})
		go func() {
			defer close(replayed)
			if a := mustDo(t, r, call); a.Operation.State != justonce.Succeeded {
				t.Errorf("the replay: %s, want what it has read", a.Operation.State)
			}
		}()
		<-held.answer
		op := only(t, held.Store)
		op.State, op.Incident = justonce.Review, true
		if err := held.Update(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		s.tell(op.Ref)
		close(held.goOn)
		<-replayed
		if a := mustDo(t, r, call); a.Operation.State != justonce.Review {
			t.Errorf("after the news: %s, want review", a.Operation.State)
		}
		cancel()
		<-work
	})
}
