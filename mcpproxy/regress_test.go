package mcpproxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// heard returns how many of the lines that the server got contain part.
func (u *upstream) heard(part string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, l := range u.lines {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}

// held returns an upstream whose tools answer with the number of their run once
// release is called.
func held() (up *upstream, release func()) {
	hold := make(chan struct{})
	up = &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte {
		go func() {
			<-hold
			p.handle(jsonrpc.Response(m.ID, text(fmt.Sprint("run ", n))))
		}()
		return nil
	}}
	return up, sync.OnceFunc(func() { close(hold) })
}

// cancel takes a request back and returns once the proxy knows, without reading
// anything.
func (c *session) cancel(up *upstream, id string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"timeout"}}`)
	c.passed(up)
}

// passed returns once the proxy has taken in all that was sent.
func (c *session) passed(up *upstream) {
	c.t.Helper()
	c.id++
	mark := fmt.Sprintf("test/%d", c.id)
	c.send(`{"jsonrpc":"2.0","method":"` + mark + `"}`)
	waitFor(c.t, func() bool { return up.heard(`"`+mark+`"`) == 1 })
}

// setOn is set with a store of the caller's.
func setOn(t testing.TB, store justonce.Store, up *upstream, o mcpproxy.Options, tools func(late *lateCaller) []*justonce.Tool) *setup {
	t.Helper()
	up.ran = map[string]int{}
	s := &setup{store: store, up: up}
	var late lateCaller
	if tools != nil {
		s.tools = tools(&late)
	}
	var err error
	s.runner, err = justonce.New(store, &justonce.RunnerOptions{Tools: s.tools, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	o.Name = "u"
	if s.server, err = mcpproxy.New(s.runner, &o); err != nil {
		t.Fatal(err)
	}
	late.c = s.server
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { s.runner.Work(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return s
}

// A gate is a store whose Begin waits, once it has begun, until it is opened.
type gate struct {
	justonce.Store
	in, open chan struct{}
}

func newGate(s justonce.Store) *gate {
	return &gate{Store: s, in: make(chan struct{}, 10), open: make(chan struct{})}
}

func (s *gate) Begin(ctx context.Context, op *justonce.Operation, e justonce.Entry) (*justonce.Arrival, error) {
	a, err := s.Store.Begin(ctx, op, e)
	s.in <- struct{}{}
	<-s.open
	return a, err
}

// A bubbled is a client in a bubble of synctest. It shook no hands.
type bubbled struct {
	t     testing.TB
	in    *io.PipeWriter
	lines chan *jsonrpc.Message // what it read; closed at the end
	ended chan error            // what ServeStdio returned
	id    int
}

// startBubbled starts a client that reads at once all that it gets, or nothing.
func startBubbled(t testing.TB, server *mcpproxy.Server, linger time.Duration, reads bool, start func(func([]byte)) (mcpproxy.Peer, error)) *bubbled {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &bubbled{t: t, in: inW, lines: make(chan *jsonrpc.Message, 100), ended: make(chan error, 1)}
	go func() {
		err := server.ServeStdio(context.Background(), &mcpproxy.StdioOptions{In: inR, Out: outW, Start: start, Linger: linger})
		inR.Close()
		outW.Close()
		c.ended <- err
	}()
	if reads {
		go func() {
			defer close(c.lines)
			for s := bufio.NewScanner(outR); s.Scan(); {
				if m, err := jsonrpc.Parse(append([]byte(nil), s.Bytes()...)); err == nil {
					c.lines <- m
				}
			}
		}()
	}
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
	})
	return c
}

func (c *bubbled) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *bubbled) start(method, params string) (id string) {
	c.t.Helper()
	c.id++
	id = fmt.Sprint(c.id)
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return id
}

func (c *bubbled) request(method, params string) *jsonrpc.Message {
	c.t.Helper()
	id := c.start(method, params)
	for m := range c.lines {
		if m.IsResponse() && m.IDKey() == id {
			return m
		}
	}
	c.t.Fatalf("no answer to %s", method)
	return nil
}

func (c *bubbled) call(tool, args string) *jsonrpc.Message {
	c.t.Helper()
	return c.request("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
}

func (c *bubbled) greet() {
	c.t.Helper()
	if m := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`); m.Result == nil {
		c.t.Fatalf("%s", m.Raw)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// lingered closes the client's side and returns how long the proxy went on;
// most: it did not end.
func (c *bubbled) lingered(most time.Duration) time.Duration {
	c.t.Helper()
	began := time.Now()
	c.in.Close()
	select {
	case <-c.ended:
		return time.Since(began)
	case <-time.After(most):
		return most
	}
}

// A process is a peer that ends like one: once all that it said was handled.
type process struct {
	*peer
	ended chan struct{}
}

func (u *upstream) process(handle func([]byte)) (mcpproxy.Peer, error) {
	p := &process{&peer{u: u, handle: handle, in: make(chan []byte, 100), done: make(chan struct{})}, make(chan struct{})}
	go func() {
		p.run()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) Done() <-chan struct{} { return p.ended }

func (p *process) Close() {
	p.peer.Close()
	<-p.ended
}

// What an agent is told when the ledger cannot record, and when it is gone.
func TestRefusedByTheLedger(t *testing.T) {
	t.Parallel()
	for fault, want := range map[error]string{
		errors.New("the disk is full"): "Call again in a while",
		justonce.ErrLedgerGone:         "Do not call again, here or elsewhere, before a person has restored it",
	} {
		store := inmem.New(&inmem.Options{Fault: func(method string) error {
			if method == "Begin" {
				return fault
			}
			return nil
		}})
		up := &upstream{}
		c := setOn(t, store, up, mcpproxy.Options{}, nil).open(t)
		if m := c.call("send", `{}`); !isError(m) || !strings.Contains(words(m), want) || up.count("send") != 0 {
			t.Errorf("%v: %s", fault, m.Raw)
		}
		c.wait()
	}
}
