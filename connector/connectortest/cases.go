package connectortest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/faultconn"
)

// patience bounds a send that should end at once.
const patience = 30 * time.Second

func proxy(t testing.TB, addr string) *faultconn.Proxy {
	t.Helper()
	p, err := faultconn.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func send(c justonce.Connector, a *justonce.Attempt) justonce.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Send(ctx, a)
}

// whole sends undisturbed.
func (s Suite) whole(t *testing.T) {
	p := s.Accepting(t)
	pr := proxy(t, p.Addr())
	o := send(s.Connector(t, pr.Addr()), s.attempt())
	pr.Drain()
	n := p.Effects()
	if o.Kind != justonce.OutcomeSucceeded && o.Kind != justonce.OutcomeAccepted || n != 1 {
		t.Fatalf("outcome %s with %d effects, want succeeded with 1: %+v", o.Kind, n, o)
	}
	s.judge(t, "whole", o, n)
}

func (s Suite) nobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	o := send(s.Connector(t, addr), s.attempt())
	if o.Kind != justonce.OutcomeNotExecuted || o.Failure == nil {
		t.Errorf("outcome %+v, want not executed with a failure", o)
	}
}

func (s Suite) contextDone(t *testing.T) {
	p := s.Accepting(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := s.Connector(t, p.Addr()).Send(ctx, s.attempt())
	if n := p.Effects(); o.Kind != justonce.OutcomeNotExecuted || n != 0 {
		t.Errorf("outcome %s with %d effects, want not executed with none: %+v", o.Kind, n, o)
	}
}

// cuts breaks the connection at each position of either direction.
func (s Suite) cuts(t *testing.T, provider func(testing.TB) Provider) {
	p := provider(t)
	pr := proxy(t, p.Addr())
	c := s.Connector(t, pr.Addr())
	pr.Set(faultconn.Fault{})
	send(c, s.attempt())
	pr.Drain()
	length := [2]int64{pr.Passed(faultconn.Up), pr.Passed(faultconn.Down)}
	if length[faultconn.Up] == 0 {
		t.Fatal("the connector sent nothing through its address")
	}
	before := p.Effects()
	seen := map[justonce.OutcomeKind]int{}
	for _, d := range []faultconn.Direction{faultconn.Up, faultconn.Down} {
		for _, action := range []faultconn.Action{faultconn.Close, faultconn.Reset} {
			for _, after := range positions(length[d], s.MaxCuts) {
				pr.Set(faultconn.Fault{Action: action, Direction: d, After: after})
				o := send(c, s.attempt())
				pr.Drain()
				n := p.Effects()
				s.judge(t, fmt.Sprintf("%s %s after %d of %d bytes", action, d, after, length[d]), o, n-before)
				before = n
				seen[o.Kind]++
			}
		}
	}
	t.Logf("request of %d bytes, answer of %d: %v", length[0], length[1], seen)
}

// positions returns at most n of 0 to length, both ends among them.
func positions(length int64, n int) []int64 {
	if n <= 0 || int64(n) > length {
		n = int(length) + 1
	}
	n = max(n, 2)
	out := make([]int64, 0, n)
	for i := range int64(n) {
		out = append(out, i*length/int64(n-1))
	}
	return out
}

// silence ends the context of a send whose answer stops on its way.
func (s Suite) silence(t *testing.T) {
	p := s.Accepting(t)
	before := 0
	for _, after := range []int64{0, 1, 10} {
		pr := proxy(t, p.Addr())
		pr.Set(faultconn.Fault{Action: faultconn.Hold, Direction: faultconn.Down, After: after})
		c := s.Connector(t, pr.Addr())
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		done := make(chan justonce.Outcome, 1)
		go func() { done <- c.Send(ctx, s.attempt()) }()
		<-pr.Struck()
		cancel()
		o := <-done
		if err := pr.Close(); err != nil {
			t.Error(err)
		}
		n := p.Effects()
		s.judge(t, fmt.Sprintf("silence after %d bytes", after), o, n-before)
		if o.Kind == justonce.OutcomeSucceeded {
			t.Errorf("silence after %d bytes: outcome %s without an answer", after, o.Kind)
		}
		before = n
	}
}

// many sends from several goroutines.
func (s Suite) many(t *testing.T) {
	const senders = 8
	p := s.Accepting(t)
	pr := proxy(t, p.Addr())
	c := s.Connector(t, pr.Addr())
	outcomes := make([]justonce.Outcome, senders)
	var all sync.WaitGroup
	for i := range outcomes {
		all.Go(func() { outcomes[i] = send(c, s.attempt()) })
	}
	all.Wait()
	pr.Drain()
	for _, o := range outcomes {
		if o.Kind != justonce.OutcomeSucceeded && o.Kind != justonce.OutcomeAccepted {
			t.Errorf("outcome %+v, want succeeded", o)
		}
	}
	if n := p.Effects(); n != senders {
		t.Errorf("%d sends had %d effects", senders, n)
	}
}

func (s Suite) refused(t *testing.T) {
	p := s.Refusing(t)
	o := send(s.Connector(t, p.Addr()), s.attempt())
	if o.Kind != justonce.OutcomeRejected || o.Failure == nil || o.Failure.Code == "" {
		t.Errorf("outcome %+v, want rejected with a failure", o)
	}
	s.judge(t, "refused", o, 0)
}
