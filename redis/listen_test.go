package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/redis"
)

// listen returns the changes that s hears of. It waits until it listens.
func listen(t *testing.T, s *redis.Store) <-chan justonce.Ref {
	t.Helper()
	heard := make(chan justonce.Ref, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Listen(ctx, func(ref justonce.Ref) { heard <- ref }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Listen: %v, want nil at the end of its context", err)
		}
	})
	waitListening(t, s)
	return heard
}

func waitListening(t *testing.T, s *redis.Store) {
	t.Helper()
	await(t, func() bool { return strings.HasSuffix(do(t, server(t), "PUBSUB", "NUMSUB", s.Channel()), "1") })
}

func TestListen(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	other := open(t, server(t).URL(), &redis.Options{Prefix: s.Prefix()})
	heard := listen(t, s)
	begin(t, s, "own") // is no news to this process
	op := begin(t, other, "k")
	if ref := <-heard; ref != op.Ref {
		t.Errorf("heard of %v, want %v", ref, op.Ref)
	}
	e := end(op, other.Now())
	if err := other.Update(t.Context(), op, e); err != nil {
		t.Fatal(err)
	}
	if ref := <-heard; ref != op.Ref {
		t.Errorf("heard of %v, want %v", ref, op.Ref)
	}
	// Many at once, with long keys and strange tenants.
	want := map[justonce.Ref]bool{}
	for i := range 200 {
		op := pendingOp(fmt.Sprint(i, strings.Repeat("~", 250)), other.Now())
		op.Tenant = "a \"ténant\"\n"
		want[op.Ref] = true
		if _, err := other.Begin(t.Context(), op, arrived(op)); err != nil {
			t.Fatal(err)
		}
	}
	for len(want) > 0 {
		delete(want, <-heard)
	}
}

// Listen connects again when its connection is lost.
// A process that ends right after a change has told of it.
func TestListenHearsOfTheLastChange(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	other := open(t, server(t).URL(), &redis.Options{Prefix: s.Prefix()})
	heard := listen(t, s)
	op := begin(t, other, "k")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if ref := <-heard; ref != op.Ref {
		t.Errorf("heard of %v, want %v", ref, op.Ref)
	}
}

func TestListenReconnects(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s, other := open(t, srv.URL(), nil), open(t, srv.URL(), nil)
	heard := make(chan justonce.Ref, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Listen(ctx, func(ref justonce.Ref) { heard <- ref }) }()
	listening := func() bool { return strings.HasSuffix(do(t, srv, "PUBSUB", "NUMSUB", s.Channel()), "1") }
	await(t, listening)
	do(t, srv, "CLIENT", "KILL", "TYPE", "pubsub")
	await(t, func() bool { return !listening() })
	await(t, listening)
	op := begin(t, other, "k")
	if ref := <-heard; ref != op.Ref {
		t.Errorf("heard of %v, want %v", ref, op.Ref)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Listen: %v", err)
	}
}

func TestNoWakeUps(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{NoWakeUps: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Listen(ctx, func(justonce.Ref) { t.Error("called") }) }()
	begin(t, s, "k")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Listen: %v", err)
	}
}
