package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/redistest"
	"github.com/justonce-dev/justonce/redis"
)

// shared is the server of all tests that do not stop or change it.
var shared struct {
	sync.Once
	server *redistest.Server
	err    error
	n      atomic.Int64 // prefixes handed out
}

func server(tb testing.TB) *redistest.Server {
	tb.Helper()
	redistest.Skip(tb)
	shared.Do(func() { shared.server, shared.err = redistest.Start() })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

func stopServer() {
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// start starts a server of the test's own.
func start(tb testing.TB, settings ...string) *redistest.Server {
	tb.Helper()
	redistest.Skip(tb)
	srv, err := redistest.Start(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { srv.Stop() })
	return srv
}

// do runs a command on a server.
func do(tb testing.TB, srv *redistest.Server, args ...string) string {
	tb.Helper()
	out, err := srv.Do(args...)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// newPrefix returns the name of a ledger that nobody else has.
func newPrefix() string { return fmt.Sprint("ledger-", shared.n.Add(1)) }

// open opens a store that is closed after the test.
func open(tb testing.TB, url string, o *redis.Options) *redis.Store {
	tb.Helper()
	s, err := redis.Open(context.Background(), url, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// openNew opens an empty ledger on the shared server.
func openNew(tb testing.TB, o redis.Options) *redis.Store {
	tb.Helper()
	o.Prefix = newPrefix()
	return open(tb, server(tb).URL(), &o)
}

func pendingOp(key string, now time.Time) *justonce.Operation {
	op := benchOp(key, now)
	op.State, op.LeaseUntil, op.Due, op.FirstSent = justonce.Pending, time.Time{}, now, time.Time{}
	return op
}

// begin records an operation that is due at once.
func begin(tb testing.TB, s *redis.Store, key string) *justonce.Operation {
	tb.Helper()
	op := pendingOp(key, s.Now())
	op.Due = op.Due.Add(-time.Second) // our estimate of the server's clock may be ahead
	a, err := s.Begin(context.Background(), op, arrived(op))
	if err != nil || !a.Fresh {
		tb.Fatalf("Begin(%s): %+v, %v", key, a, err)
	}
	return op
}

func take(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
	op.State, op.LeaseUntil = justonce.Running, now.Add(time.Minute)
	op.Due = op.LeaseUntil
	op.Fence++
	return []justonce.Entry{{Kind: justonce.EntryClaimed, At: now, State: op.State, Fence: op.Fence}}, true
}

// wantUnavailable checks that err is of the ledger, no answer of it, and says
// what.
func wantUnavailable(t *testing.T, call string, err error, what string) {
	t.Helper()
	if !errors.Is(err, justonce.ErrUnavailable) || errors.Is(err, justonce.ErrNotFound) || errors.Is(err, justonce.ErrStale) || !strings.Contains(fmt.Sprint(err), what) {
		t.Errorf("%s: %v, want ErrUnavailable and %q", call, err, what)
	}
}

// await looks now and then until cond is true.
func await(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not come")
		}
	}
}

// setRange overwrites part of a row, or cuts off its end (at -1).
func setRange(t *testing.T, srv *redistest.Server, key string, at int, with string) {
	t.Helper()
	do(t, srv, "EVAL", `local row = redis.call('HGET', KEYS[1], 'r')
		local at = tonumber(ARGV[1])
		if at < 0 then row = row:sub(1, -2) else row = row:sub(1, at) .. ARGV[2] .. row:sub(at + 1 + #ARGV[2]) end
		return redis.call('HSET', KEYS[1], 'r', row)`, "1", key, strconv.Itoa(at), with)
}

func port(srv *redistest.Server) string { return strconv.Itoa(srv.Port) }

func contains(s, what string) bool { return strings.Contains(s, what) }
