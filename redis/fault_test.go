package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/redistest"
	"github.com/justonce-dev/justonce/redis"
)

// What is there and cannot be read is never taken for absent.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	srv := server(t)
	for name, damage := range map[string]func(s *redis.Store, key string){
		"Empty":  func(s *redis.Store, key string) { do(t, srv, "HSET", key, "r", "x") },
		"Format": func(s *redis.Store, key string) { setRange(t, srv, key, 0, "\x63") },
		"State":  func(s *redis.Store, key string) { setRange(t, srv, key, 1, "\x09") },
		"Short":  func(s *redis.Store, key string) { setRange(t, srv, key, -1, "") },
		"Result": func(s *redis.Store, key string) { do(t, srv, "HDEL", key, "x") },
		"Chunk":  func(s *redis.Store, key string) { do(t, srv, "HSET", key, "x", "xx") },
		"Other": func(s *redis.Store, key string) {
			firstCall(t.Context(), t, s, "o")
			do(t, srv, "COPY", s.OpKey("", "o"), key, "REPLACE")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openNew(t, redis.Options{})
			firstCall(t.Context(), t, s, "k")
			damage(s, s.OpKey("", "k"))
			for range 2 {
				_, err := s.Get(t.Context(), justonce.Ref{Key: "k"})
				wantUnavailable(t, "Get", err, "")
				op := benchOp("k", s.Now())
				_, err = s.Begin(t.Context(), op, justonce.Entry{})
				wantUnavailable(t, "Begin", err, "")
				_, err = s.History(t.Context(), justonce.Ref{Key: "k"})
				wantUnavailable(t, "History", err, "")
				s.Forget()
			}
			begin(t, s, "other")
		})
	}
}

// One that is due and cannot be read is in nobody's way.
func TestDamagedRowIsDue(t *testing.T) {
	t.Parallel()
	srv := server(t)
	for name, damage := range map[string]func(key string){
		"Format": func(key string) { setRange(t, srv, key, 0, "\x63") },
		"String": func(key string) { do(t, srv, "SET", key, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openNew(t, redis.Options{})
			begin(t, s, "damaged")
			damage(s.OpKey("", "damaged"))
			begin(t, s, "sound")
			ops, err := s.Claim(t.Context(), due(1), take)
			if err != nil || len(ops) != 1 || ops[0].Key != "sound" {
				t.Errorf("Claim: %+v, %v, want the one that can be read", ops, err)
			}
			_, err = s.Claim(t.Context(), justonce.Due{Ref: &justonce.Ref{Key: "damaged"}, Limit: 1}, take)
			wantUnavailable(t, "Claim of the damaged one", err, "")
		})
	}
}

// The server may forget scripts at any time.
func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s := open(t, srv.URL(), nil)
	for i := range 3 {
		do(t, srv, "SCRIPT", "FLUSH")
		firstCall(t.Context(), t, s, fmt.Sprint("k", i))
		begin(t, s, fmt.Sprint("j", i))
		if ops, err := s.Claim(t.Context(), due(1), take); err != nil || len(ops) != 1 {
			t.Errorf("Claim: %d, %v", len(ops), err)
		}
	}
	wantIntegrity(t, s)
}

// A server whose memory is used up takes no new operation, but the outcome of
// those that are under way.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s := open(t, srv.URL(), nil)
	op := benchOp("k", s.Now())
	if _, err := s.Begin(t.Context(), op, arrived(op)); err != nil {
		t.Fatal(err)
	}
	do(t, srv, "CONFIG", "SET", "maxmemory", "1")
	other := benchOp("other", s.Now())
	_, err := s.Begin(t.Context(), other, arrived(other))
	wantUnavailable(t, "Begin", err, "memory is used up")
	e := end(op, s.Now())
	if err := s.Update(t.Context(), op, e); err != nil {
		t.Errorf("Update: %v", err)
	}
	if n, err := s.Purge(t.Context(), s.Now().Add(time.Hour), 1); err != nil || n != 1 {
		t.Errorf("Purge: %d, %v", n, err)
	}
	wantIntegrity(t, s)
}

// newOn opens a store whose connections are what wrap makes of them.
func newOn(t *testing.T, srv *redistest.Server, o *redis.Options, wrap func(net.Conn) net.Conn) *redis.Store {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{strings.TrimSuffix(strings.TrimPrefix(srv.URL(), "unix://"), "?")}, DisableCache: true, ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			c, err := d.DialContext(ctx, "unix", addr)
			if err != nil {
				return nil, err
			}
			return wrap(c), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s, err := redis.New(t.Context(), client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A lossy connection breaks instead of giving the answer of the next script.
type lossy struct {
	net.Conn
	lose *atomic.Bool
	sent *atomic.Bool
}

func (l lossy) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("EVALSHA")) && l.lose.CompareAndSwap(true, false) {
		l.sent.Store(true)
	}
	return l.Conn.Write(b)
}

func (l lossy) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 && l.sent.Load() {
		l.Conn.Close()
		return 0, errors.New("the answer is lost")
	}
	return n, err
}

// A write whose answer is lost is an error, whatever became of it, and it is
// sent no second time.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	s := newOn(t, server(t), &redis.Options{Prefix: newPrefix(), NoWakeUps: true}, func(c net.Conn) net.Conn {
		return lossy{c, &lose, new(atomic.Bool)}
	})
	// So that the server knows the scripts.
	firstCall(t.Context(), t, s, "warm")
	if _, err := s.Claim(t.Context(), due(1), take); err != nil {
		t.Fatal(err)
	}
	op := pendingOp("k", s.Now())
	op.Due = op.Due.Add(-time.Second)
	// want runs one write whose answer is lost, and checks that it was done once.
	want := func(call string, version int64, write func() error) {
		t.Helper()
		lose.Store(true)
		wantUnavailable(t, call, write(), "the answer is lost")
		got, err := s.Get(t.Context(), op.Ref)
		if err != nil || got.Version != version {
			t.Fatalf("after %s: %+v, %v, want version %d", call, got, err, version)
		}
		op = got
	}
	want("Begin", 1, func() error { _, err := s.Begin(t.Context(), op, arrived(op)); return err })
	if a, err := s.Begin(t.Context(), op, arrived(op)); err != nil || a.Fresh {
		t.Errorf("Begin again: %+v, %v", a, err)
	}
	want("Update", 2, func() error { return s.Update(t.Context(), op, justonce.Entry{Kind: justonce.EntryDecision}) })
	if err := s.Update(t.Context(), &justonce.Operation{Ref: op.Ref, Status: op.Status, Version: 1, CreatedAt: op.CreatedAt}); !errors.Is(err, justonce.ErrStale) {
		t.Errorf("Update again: %v, want ErrStale", err)
	}
	want("Claim, finding", 2, func() error { _, err := s.Claim(t.Context(), due(1), take); return err })
	freeCandidates(t, s)
	want("Claim, writing", 3, func() error {
		lose.Store(false)
		_, err := s.Claim(t.Context(), due(1), func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
			lose.Store(true)
			return take(op, now)
		})
		return err
	})
	if h, err := s.History(t.Context(), op.Ref); err != nil || len(h) != 3 {
		t.Errorf("History: %d entries, %v, want 3", len(h), err)
	}
	wantIntegrity(t, s)
}

// A write that the server does not answer in time may happen all the same.
func TestTimeout(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s := open(t, srv.URL(), &redis.Options{Timeout: 300 * time.Millisecond})
	firstCall(t.Context(), t, s, "before")
	do(t, srv, "CLIENT", "PAUSE", "60000", "WRITE")
	op := pendingOp("k", s.Now())
	_, err := s.Begin(t.Context(), op, arrived(op))
	wantUnavailable(t, "Begin", err, "")
	do(t, srv, "CLIENT", "UNPAUSE")
	await(t, func() bool {
		a, err := s.Begin(t.Context(), op, arrived(op))
		return err == nil && a != nil
	})
	wantIntegrity(t, s)
}

// A watched connection calls answered with what the server says, before the
// client has it.
type watched struct {
	net.Conn
	answered func([]byte)
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.answered(b[:n])
	return n, err
}

// A Begin that looks again has no more time for that.
func TestTimeoutOfSeveralTries(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	srv := start(t)
	started := make(chan time.Time, 1)
	var met sync.Once // the old one
	s := newOn(t, srv, &redis.Options{Timeout: timeout, NoWakeUps: true}, func(c net.Conn) net.Conn {
		return watched{c, func(answer []byte) {
			if !bytes.Contains(answer, []byte("\r\nold\r\n")) {
				return
			}
			met.Do(func() {
				if _, err := srv.Do("CLIENT", "PAUSE", "600000", "WRITE"); err != nil {
					t.Error(err)
				}
				<-time.After(time.Until((<-started).Add(timeout * 2 / 5))) // the first try takes so long
			})
		}}
	})
	old := benchOp("k", s.Now())
	if _, err := s.Begin(t.Context(), old, arrived(old)); err != nil {
		t.Fatal(err)
	}
	e := end(old, s.Now())
	old.DedupeUntil = s.Now().Add(-time.Minute)
	if err := s.Update(t.Context(), old, e); err != nil {
		t.Fatal(err)
	}
	s.Forget()
	op := pendingOp("k", s.Now())
	start := time.Now()
	started <- start
	_, err := s.Begin(t.Context(), op, arrived(op))
	wantUnavailable(t, "Begin", err, "")
	if took := time.Since(start); took > timeout*6/5 {
		t.Errorf("Begin took %v, want %v at most", took, timeout)
	}
	met.Do(func() { t.Error("Begin met no old one") })
}

// The end of its context does not leave a write behind: its caller learns what
// became of it.
func TestCancelledWrite(t *testing.T) {
	t.Parallel()
	srv := start(t)
	s := open(t, srv.URL(), &redis.Options{Timeout: time.Minute})
	firstCall(t.Context(), t, s, "before")
	do(t, srv, "CLIENT", "PAUSE", "60000", "WRITE")
	ctx, cancel := context.WithCancel(t.Context())
	ops := make([]*justonce.Operation, 16) // many, or the client does not look at the context
	var wg sync.WaitGroup
	for i := range ops {
		op := pendingOp(fmt.Sprint("k", i), s.Now())
		ops[i] = op
		wg.Go(func() {
			_, err := s.Begin(ctx, op, arrived(op))
			if errors.Is(err, context.Canceled) && !errors.Is(err, justonce.ErrUnavailable) {
				return // it had not begun
			}
			if err != nil || op.Version != 1 {
				t.Errorf("Begin: version %d, %v", op.Version, err)
			}
		})
	}
	await(t, func() bool { return contains(do(t, srv, "CLIENT", "LIST"), "flags=b") })
	cancel()
	do(t, srv, "CLIENT", "UNPAUSE")
	wg.Wait()
	if err := s.Update(ctx, ops[0]); !errors.Is(err, context.Canceled) || ops[0].Version != 1 {
		t.Errorf("Update after the end of its context: %v", err)
	}
}
