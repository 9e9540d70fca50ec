package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// listen returns the changes that s hears of. It waits until it listens.
func listen(t *testing.T, s *postgres.Store) <-chan justonce.Ref {
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

// listeners returns the pids of the connections that listen to s's channel.
func listeners(t *testing.T, s *postgres.Store) (pids []int32) {
	t.Helper()
	rows, err := connect(t).Query(t.Context(), `SELECT DISTINCT a.pid FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
		WHERE l.locktype = 'advisory' AND l.mode = 'ShareLock' AND a.query LIKE '%advisory_lock_shared%'
		AND (l.classid::bigint << 32 | l.objid::bigint) = $1`, s.ListenLock())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int32
		if err := rows.Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func waitListening(t *testing.T, s *postgres.Store, but ...int32) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		pids := listeners(t, s)
		if slices.ContainsFunc(pids, func(pid int32) bool { return !slices.Contains(but, pid) }) {
			return
		}
		<-tick.C
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	heard := listen(t, s)
	other.ForgetListeners()
	begin(t, s, "own") // is no news to this process
	op := begin(t, other, "k")
	if ref := <-heard; ref != op.Ref {
		t.Errorf("heard of %v, want %v", ref, op.Ref)
	}
	e := end(op, other.Now())
	op.Tenant = ""
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

// A process that ends just after it changed something has told of it.
func TestListenHearsTheLast(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	heard := listen(t, s)
	for i := range 3 {
		other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
		op := begin(t, other, fmt.Sprint("k", i))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		if ref := <-heard; ref != op.Ref {
			t.Errorf("heard of %v, want %v", ref, op.Ref)
		}
	}
}

// Listen connects again when its connection is lost.
func TestListenReconnects(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	heard := listen(t, s)
	pids := listeners(t, s)
	for _, pid := range pids {
		if _, err := connect(t).Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
	}
	waitListening(t, s, pids...)
	other.ForgetListeners()
	op := begin(t, other, "k")
	if ref := <-heard; ref != op.Ref {
		t.Errorf("heard of %v, want %v", ref, op.Ref)
	}
}

func TestNoWakeUps(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{NoWakeUps: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Listen(ctx, func(justonce.Ref) { t.Error("called") }) }()
	begin(t, s, "k")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Listen: %v", err)
	}
}
