package redis_test

import (
	"context"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/redistest"
	"github.com/justonce-dev/justonce/redis"
	"github.com/justonce-dev/justonce/storetest"
)

func TestStore(t *testing.T) {
	url := server(t).URL()
	conform(t, func(ctx context.Context, o *redis.Options) (*redis.Store, error) { return redis.Open(ctx, url, o) })
}

func TestStoreOnValkey(t *testing.T) {
	redistest.SkipValkey(t)
	srv, err := redistest.StartValkey()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	if info := do(t, srv, "INFO", "server"); !contains(info, "valkey_version:") {
		t.Fatalf("the server is no Valkey:\n%s", info)
	}
	conform(t, func(ctx context.Context, o *redis.Options) (*redis.Store, error) {
		return redis.Open(ctx, srv.URL(), o)
	})
}

// wantIntegrity checks that rows and indexes of s agree with each other.
func wantIntegrity(t *testing.T, s *redis.Store) {
	t.Helper()
	for i, problem := range s.Problems(t) {
		if i == 5 {
			t.Errorf("and more")
			break
		}
		t.Error(problem)
	}
}

// conform runs the suite. All ledgers are prefixes of one database.
func conform(t *testing.T, new func(context.Context, *redis.Options) (*redis.Store, error)) {
	var prefixes sync.Map // of the stores that are open
	open := func(t *testing.T, prefix string, now func() time.Time) justonce.Store {
		s, err := new(context.WithoutCancel(t.Context()), &redis.Options{Prefix: prefix, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		prefixes.Store(s, prefix)
		return s
	}
	storetest.Run(t, func(t *testing.T, now func() time.Time) justonce.Store {
		prefix := newPrefix()
		t.Cleanup(func() {
			s := open(t, prefix, now).(*redis.Store)
			defer s.Close()
			wantIntegrity(t, s)
		})
		return open(t, prefix, now)
	}, storetest.Features{
		Reopen: func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store {
			prefix, _ := prefixes.Load(s)
			return open(t, prefix.(string), now)
		},
		Durable: true,
		Shared:  true,
		News:    true,
	})
}
