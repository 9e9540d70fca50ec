package redis_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/redistest"
	"github.com/justonce-dev/justonce/redis"
	"github.com/justonce-dev/justonce/storetest"
)

func TestStore(t *testing.T) {
	srv := server(t)
	conform(t, srv, srv.URL)
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
	conform(t, srv, srv.URL)
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

// conform runs the suite on a server that url names. All ledgers are prefixes of
// one database, and the connections of each store have a name of their own.
func conform(t *testing.T, srv *redistest.Server, url func(...string) string) {
	type opened struct{ prefix, name string }
	var stores sync.Map // opened, of each store
	open := func(t *testing.T, prefix string, now func() time.Time) justonce.Store {
		name := "store-" + newPrefix()
		s, err := redis.Open(context.WithoutCancel(t.Context()), url("client_name="+name), &redis.Options{Prefix: prefix, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		stores.Store(s, opened{prefix, name})
		return s
	}
	of := func(s justonce.Store) opened {
		o, _ := stores.Load(s)
		return o.(opened)
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
		CutNews: func(t *testing.T, s justonce.Store) { cutListener(t, srv, of(s).name) },
		Reopen: func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store {
			return open(t, of(s).prefix, now)
		},
		Durable: true,
		Shared:  true,
		News:    true,
	})
}

// cutListener cuts the connections with a name that listen, and waits until they
// are gone.
func cutListener(t *testing.T, srv *redistest.Server, name string) {
	t.Helper()
	ids := func() (ids []string) {
		for line := range strings.Lines(do(t, srv, "CLIENT", "LIST", "TYPE", "pubsub")) {
			if fields := strings.Fields(line); slices.Contains(fields, "name="+name) {
				ids = append(ids, strings.TrimPrefix(fields[0], "id="))
			}
		}
		return ids
	}
	cut := ids()
	if len(cut) == 0 {
		t.Fatal("the store does not listen")
	}
	for _, id := range cut {
		do(t, srv, "CLIENT", "KILL", "ID", id)
	}
	await(t, func() bool {
		return !slices.ContainsFunc(ids(), func(id string) bool { return slices.Contains(cut, id) })
	})
}
