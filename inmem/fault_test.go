package inmem_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

var errBroken = errors.New("the line is broken")

// failing fails the methods it holds.
type failing map[string]bool

func (f failing) fault(method string) error {
	if f[method] {
		return errBroken
	}
	return nil
}

func take(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
	op.State, op.Fence, op.Due = justonce.Running, op.Fence+1, time.Time{}
	return []justonce.Entry{{Kind: justonce.EntryClaimed, At: now}}, true
}

// calls are the methods that take a context. They are called in the order of
// methods with an operation "k" that is due.
var (
	methods = []string{"Begin", "Update", "Claim", "Get", "List", "History", "Stats", "Purge"}
	calls   = map[string]func(context.Context, *inmem.Store, *justonce.Operation) error{
		"Begin": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			_, err := s.Begin(ctx, op, justonce.Entry{Kind: justonce.EntryArrived})
			return err
		},
		"Update": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			return s.Update(ctx, op, justonce.Entry{Kind: justonce.EntryDecision})
		},
		"Claim": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			_, err := s.Claim(ctx, justonce.Due{Limit: 1}, take)
			return err
		},
		"Get": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			_, err := s.Get(ctx, op.Ref)
			return err
		},
		"List": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			_, err := s.List(ctx, justonce.Filter{Tenant: op.Tenant})
			return err
		},
		"History": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			_, err := s.History(ctx, op.Ref)
			return err
		},
		"Stats": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			_, err := s.Stats(ctx)
			return err
		},
		"Purge": func(ctx context.Context, s *inmem.Store, op *justonce.Operation) error {
			_, err := s.Purge(ctx, s.Now().Add(time.Hour), 1)
			return err
		},
	}
)

func newOp(key string) *justonce.Operation {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return &justonce.Operation{
		Ref:    justonce.Ref{Tenant: "acme", Key: key},
		Tool:   "charge",
		Status: justonce.Status{State: justonce.Pending, Due: at},

		CreatedAt: at,
		UpdatedAt: at,
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			ctx, fail := t.Context(), failing{}
			s := inmem.New(&inmem.Options{Fault: fail.fault})
			op := newOp("k")
			if method != "Begin" {
				if err := calls["Begin"](ctx, s, op); err != nil {
					t.Fatal(err)
				}
			}
			version := op.Version
			fail[method] = true
			err := calls[method](ctx, s, op)
			if !errors.Is(err, justonce.ErrUnavailable) || !errors.Is(err, errBroken) {
				t.Errorf("error %v, want ErrUnavailable and the fault", err)
			}
			if op.Version != version {
				t.Errorf("Version = %d, want %d still", op.Version, version)
			}
			delete(fail, method)
			got, err := s.Get(ctx, op.Ref)
			if method == "Begin" {
				if !errors.Is(err, justonce.ErrNotFound) {
					t.Errorf("Get after a Begin that failed: error %v, want ErrNotFound", err)
				}
				return
			}
			if err != nil || got.Version != version {
				t.Errorf("Get = version %d, %v, want %d: nothing happened", got.Version, err, version)
			}
			if err := calls[method](ctx, s, op); err != nil {
				t.Errorf("without a fault: %v", err)
			}
		})
	}
}

func TestFaultAfter(t *testing.T) {
	t.Parallel()
	ctx, fail := t.Context(), failing{}
	s := inmem.New(&inmem.Options{FaultAfter: fail.fault})
	op := newOp("k")
	for i, method := range []string{"Begin", "Update", "Claim"} {
		version := op.Version
		fail[method] = true
		if err := calls[method](ctx, s, op); !errors.Is(err, justonce.ErrUnavailable) || !errors.Is(err, errBroken) {
			t.Errorf("%s: error %v, want ErrUnavailable and the fault", method, err)
		}
		if op.Version != version {
			t.Errorf("%s: Version = %d, want %d still: nobody was told", method, op.Version, version)
		}
		got, err := s.Get(ctx, op.Ref)
		if err != nil {
			t.Fatalf("%s: nothing is recorded: %v", method, err)
		}
		history, err := s.History(ctx, op.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if got.Version != int64(i+1) || len(history) != i+1 {
			t.Errorf("%s: version %d and %d entries are recorded, want %d", method, got.Version, len(history), i+1)
		}
		op = got
	}
	// A call that changed nothing has nothing to lose.
	op.Version--
	if err := calls["Update"](ctx, s, op); !errors.Is(err, justonce.ErrStale) {
		t.Errorf("Update: error %v, want ErrStale", err)
	}
}

// Two operations with one key and one creation time both find a place.
func TestArchiveOfSameAge(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	at := newOp("k").CreatedAt
	s := inmem.New(&inmem.Options{Now: func() time.Time { return at }})
	for range 3 {
		op := newOp("k")
		if err := calls["Begin"](ctx, s, op); err != nil || op.Version != 1 {
			t.Fatalf("Begin = version %d, %v, want it to be fresh", op.Version, err)
		}
		op.State, op.DedupeUntil = justonce.Succeeded, at
		if err := calls["Update"](ctx, s, op); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.List(ctx, justonce.Filter{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, op := range page.Operations {
		keys = append(keys, op.Key)
	}
	const suffix = "~1772366400000000000"
	if d := cmp.Diff([]string{"k" + suffix + suffix, "k" + suffix, "k"}, keys); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := inmem.New(nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := calls["Begin"](t.Context(), s, newOp("k")); err != nil {
		t.Errorf("Begin after Close: %v", err)
	}
}
