package justonce_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
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
	// Nobody needs the result of another call yet.
	mustDo(t, r, justonce.Call{Tool: "charge", Key: "another", Arguments: order("2", 1)})
	if s.asked.Load() != 3 {
		t.Errorf("the store was asked %d times, want 3", s.asked.Load())
	}
}
