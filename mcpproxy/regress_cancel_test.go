package mcpproxy_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// However often a call that was sent is taken back, the server does not learn of
// it.
func TestSecondCancelIsSwallowed(t *testing.T) {
	t.Parallel()
	up, release := held()
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	defer release()
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	waitFor(t, func() bool { return up.count("send") == 1 })
	for range 3 {
		c.cancel(up, id)
		waitFor(t, func() bool { return s.server.Answering() == 0 })
	}
	if n := up.heard("notifications/cancelled"); n != 0 {
		t.Errorf("the server was told %d times", n)
	}
	release()
	if m := c.call("send", `{"to":"a"}`); state(m) != "succeeded" || up.count("send") != 1 {
		t.Errorf("%d executions: %s", up.count("send"), m.Raw)
	}
}

// An answer that the client had not read when it took the call back did not
// arrive.
func TestCancelOfUnreadAnswer(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	s := set(t, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	waitFor(t, func() bool { return s.server.Unconfirmed() == 1 && s.server.Answering() == 0 })
	c.cancel(up, id)
	c.result(id) // and throws it away
	if m := c.call("send", `{"to":"a"}`); !replayed(m) || up.count("send") != 1 {
		t.Errorf("%d executions: %s", up.count("send"), m.Raw)
	}
}

// A message between an answer and the cancellation that crossed it does not prove
// that the answer was wanted: both may have been sent before it came.
func TestCancelBehindMessage(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) { // where no time passes meanwhile
		up := &upstream{}
		s := set(t, up, mcpproxy.Options{}, nil)
		c := startBubbled(t, s.server, time.Second, true, up.start)
		c.greet()
		m := c.call("send", `{"to":"a"}`)
		synctest.Wait() // its receipt is kept
		c.request("ping", `{}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + m.IDKey() + `}}`)
		if m = c.call("send", `{"to":"a"}`); !replayed(m) || up.count("send") != 1 {
			t.Errorf("%d executions: %s", up.count("send"), m.Raw)
		}
		c.lingered(time.Minute)
	})
}

// An answer is half written when the client takes the call back: it is not
// waiting for it any more.
func TestCancelDuringWrite(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("y", 1<<18) // more than a pipe holds, twice
	up := &upstream{on: func(p *peer, m *jsonrpc.Message, n int) []byte { return jsonrpc.Response(m.ID, text(big)) }}
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	if _, err := c.out.Peek(1); err != nil { // the writing has begun
		t.Fatal(err)
	}
	c.cancel(up, id)
	c.result(id)
	if m := c.call("send", `{"to":"a"}`); !replayed(m) || up.count("send") != 1 {
		t.Errorf("%d executions, replayed: %v", up.count("send"), replayed(m))
	}
}

// The id of a call that was sent and taken back stays taken: the server's answer
// to the call comes under it.
func TestIDOfSentCallStaysTaken(t *testing.T) {
	t.Parallel()
	up, release := held()
	s := set(t, up, mcpproxy.Options{Timeout: time.Second}, nil)
	c := s.open(t)
	defer release()
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	waitFor(t, func() bool { return up.count("send") == 1 })
	c.cancel(up, id)
	waitFor(t, func() bool { return s.server.Answering() == 0 })
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
	if m := c.line(); m.Error == nil || !strings.Contains(string(m.Error), "in use") {
		t.Errorf("%s", m.Raw)
	}
	release()
	if m := c.call("send", `{"to":"a"}`); state(m) != "succeeded" {
		t.Errorf("the server's answer was lost: %s", m.Raw)
	}
}

// A cancellation does not slip past in a batch.
func TestCancelInBatchIsRefused(t *testing.T) {
	t.Parallel()
	up, release := held()
	c := set(t, up, mcpproxy.Options{}, nil).open(t)
	defer release()
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	waitFor(t, func() bool { return up.count("send") == 1 })
	c.send(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}]`)
	c.passed(up)
	if n := up.heard("notifications/cancelled"); n != 0 {
		t.Errorf("the server was told %d times", n)
	}
	release()
	if m := c.result(id); words(m) != "run 1" {
		t.Errorf("%s", m.Raw)
	}
}

// Observing holds nothing back, cancellations neither.
func TestObservePassesCancelOn(t *testing.T) {
	t.Parallel()
	up, release := held()
	c := set(t, up, mcpproxy.Options{Mode: mcpproxy.Observe}, nil).open(t)
	defer release()
	id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
	waitFor(t, func() bool { return up.count("send") == 1 })
	c.cancel(up, id)
	if n := up.heard("notifications/cancelled"); n != 1 {
		t.Errorf("the server was told %d times", n)
	}
}

// Who joined a call that its client takes back before it was sent still wants it.
func TestJoinerOfTakenBackCall(t *testing.T) {
	t.Parallel()
	up := &upstream{}
	store := newGate(inmem.New(nil))
	s := setOn(t, store, up, mcpproxy.Options{}, nil)
	c := s.open(t)
	a := c.start("tools/call", `{"name":"send","arguments":{}}`)
	<-store.in
	b := c.start("tools/call", `{"name":"send","arguments":{}}`)
	waitFor(t, func() bool { return s.server.Waiting() == 2 })
	c.cancel(up, a)
	close(store.open)
	if m := c.result(b); words(m) != "send 1" {
		t.Errorf("%s", m.Raw)
	}
}

// Asking about a call delivers nothing, and nobody waits for it to.
func TestStatusIsNoDelivery(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		up, release := held()
		s := set(t, up, mcpproxy.Options{}, nil)
		c := startBubbled(t, s.server, time.Second, true, up.start)
		c.greet()
		id := c.start("tools/call", `{"name":"send","arguments":{"to":"a"}}`)
		waitFor(t, func() bool { return up.count("send") == 1 })
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		c.request("ping", `{}`)
		release()
		waitFor(t, func() bool { return ended(t, s, "u/send") == 1 })
		if m := c.call("justonce_status", `{"tool":"send","arguments":{"to":"a"}}`); state(m) != "succeeded" {
			t.Errorf("%s", m.Raw)
		}
		began := time.Now()
		m := c.call("send", `{"to":"a"}`)
		if took := time.Since(began); took > 500*time.Millisecond || !replayed(m) {
			t.Errorf("after %s: %s", took, m.Raw)
		}
		c.lingered(time.Minute)
	})
}
