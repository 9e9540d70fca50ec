package justonce_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

// A node is one process: a Runner with its worker loop, and all that it can
// reach. Once dead it reaches nothing, while frozen it gets no further.
type node struct {
	*inmem.Store // the ledger, shared by all
	sim          *sim
	name         string
	runner       *justonce.Runner

	life   context.Context
	end    context.CancelFunc
	worked chan struct{}

	dead   atomic.Bool
	frozen atomic.Int64 // until then, in Unix nanoseconds
}

var errDead = errors.New("the process is dead")

func (s *sim) boot() *node {
	s.booted++
	n := &node{Store: s.ledger, sim: s, name: "node" + strconv.Itoa(s.booted), worked: make(chan struct{})}
	n.life, n.end = context.WithCancel(context.Background())
	tool := *s.tool
	tool.Connector = nodeConnector{n}
	if s.canLookup {
		tool.Connector = nodeFinder{nodeConnector{n}}
	}
	rng := s.draw.about(n.name, "jitter")
	jitter := make(chan float64, 1)
	jitter <- 0
	var err error
	n.runner, err = justonce.New(n, &justonce.RunnerOptions{
		Tools: []*justonce.Tool{&tool}, Worker: n.name, Poll: between(rng, time.Second, 2*time.Second),
		Rand: func() float64 {
			<-jitter
			v := rng.Float64()
			jitter <- v
			return v
		},
	})
	if err != nil {
		panic(err)
	}
	if s.bug.transition != nil {
		n.runner.SetTransition(s.bug.transition)
	}
	go func() {
		defer close(n.worked)
		n.runner.Work(n.life)
	}()
	return n
}

// crash ends a process between any two of its instructions.
func (n *node) crash() {
	n.dead.Store(true)
	n.sim.note("%s crashes", n.name)
	n.stop()
}

func (n *node) stop() {
	n.end()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	n.runner.Shutdown(now)
}

func (n *node) freeze(d time.Duration) {
	n.sim.note("%s freezes for %s", n.name, d)
	n.frozen.Store(time.Now().Add(d).UnixNano())
}

func (n *node) thaw() { n.frozen.Store(0) }

// gate holds up whoever runs on a frozen node, and stops them on a dead one.
func (n *node) gate(who string) error {
	for {
		left := time.Until(time.Unix(0, n.frozen.Load()))
		if left <= 0 || n.sim.healed.Load() {
			break
		}
		// They wake one after the other.
		time.Sleep(min(left, time.Second) + between(n.sim.draw.about(n.name, "thaw", who), 1, time.Millisecond))
	}
	if n.dead.Load() {
		return errDead
	}
	return nil
}

// call runs one call of the ledger, with its delays and faults.
func (n *node) call(ctx context.Context, method, about string, f func() error) error {
	rng := n.sim.draw.about(n.name, method, about)
	trouble := n.sim.trouble() && in(rng, 6)
	if err := n.delay(ctx, method+about, rng, trouble && in(rng, 30)); err != nil {
		return err
	}
	if trouble && in(rng, 50) {
		n.sim.note("%s: %s %s fails before it took effect", n.name, method, about)
		return fmt.Errorf("%w: connection refused", justonce.ErrUnavailable)
	}
	err := f()
	if err := n.delay(ctx, method+about, rng, trouble && in(rng, 30)); err != nil {
		return err
	}
	if trouble && err == nil {
		n.sim.note("%s: %s %s fails after it took effect", n.name, method, about)
		return fmt.Errorf("%w: connection reset", justonce.ErrUnavailable)
	}
	return err
}

func (n *node) delay(ctx context.Context, who string, rng interface{ Int64N(int64) int64 }, slow bool) error {
	d := 50*time.Microsecond + time.Duration(rng.Int64N(int64(3*time.Millisecond)))
	if slow {
		d *= 1500
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return n.gate(who)
}

// Begin implements [justonce.Store].
func (n *node) Begin(ctx context.Context, op *justonce.Operation, e justonce.Entry) (arrival *justonce.Arrival, err error) {
	c := *op
	if n.sim.bug.noIdentity {
		c.Identity = ""
	}
	err = n.call(ctx, "Begin", op.Key, func() (err error) {
		arrival, err = n.Store.Begin(ctx, &c, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	op.Version = c.Version
	return arrival, nil
}

// Get implements [justonce.Store].
func (n *node) Get(ctx context.Context, ref justonce.Ref) (op *justonce.Operation, err error) {
	err = n.call(ctx, "Get", ref.Key, func() (err error) {
		op, err = n.Store.Get(ctx, ref)
		return err
	})
	return op, err
}

// Update implements [justonce.Store].
func (n *node) Update(ctx context.Context, op *justonce.Operation, entries ...justonce.Entry) error {
	c := *op
	err := n.call(ctx, "Update", op.Key, func() error {
		err := n.Store.Update(ctx, &c, entries...)
		if err == nil {
			n.sim.fence(op)
		}
		if len(entries) == 0 {
			n.sim.note("%s: %s: renewed until %s, fence %d: %v", n.name, op.Key, op.LeaseUntil.Sub(n.sim.start), op.Fence, err)
			return err
		}
		n.sim.note("%s: %s: %s %s -> %s fence %d: %v", n.name, op.Key, entries[0].Kind, entries[0].Outcome, op.State, entries[0].Fence, err)
		return err
	})
	if err == nil {
		op.Version = c.Version
	}
	return err
}

// Claim implements [justonce.Store].
func (n *node) Claim(ctx context.Context, due justonce.Due, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) (ops []*justonce.Operation, err error) {
	about := ""
	if due.Ref != nil {
		about = due.Ref.Key
	}
	err = n.call(ctx, "Claim", about, func() (err error) {
		ops, err = n.Store.Claim(ctx, due, advance)
		for _, op := range ops {
			n.sim.fence(op)
			n.sim.note("%s: %s: claimed -> %s fence %d", n.name, op.Key, op.State, op.Fence)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ops, nil
}

// List implements [justonce.Store].
func (n *node) List(ctx context.Context, f justonce.Filter) (page *justonce.Page, err error) {
	err = n.call(ctx, "List", f.Reference, func() (err error) {
		page, err = n.Store.List(ctx, f)
		return err
	})
	return page, err
}

// A nodeConnector reaches the provider from a node.
type nodeConnector struct{ n *node }

type nodeFinder struct{ nodeConnector }

var unsent = justonce.Outcome{Kind: justonce.OutcomeNotExecuted, Failure: &justonce.Failure{Code: "unsent"}}

func (c nodeConnector) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome {
	if c.n.gate(a.ID) != nil || ctx.Err() != nil { // a frozen client looks at its deadline first
		return unsent
	}
	out := c.n.sim.provider.send(ctx, c.n, a)
	c.n.gate(a.ID)
	return out
}

func (c nodeFinder) Lookup(ctx context.Context, a *justonce.Attempt) justonce.Finding {
	if c.n.gate(a.ID) != nil {
		return justonce.Finding{}
	}
	f := c.n.sim.provider.lookup(ctx, c.n, a)
	c.n.gate(a.ID)
	return f
}
