package mcpproxy

import (
	"context"
	"sync"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// A delivery is one answer on its way to a client. The front reports once
// whether it arrived.
type delivery struct {
	s    *Server
	of   *arrival
	once sync.Once
}

// An arrival is what becomes known of the answers of one operation: several
// clients may be on their way to getting it.
type arrival struct {
	op   *justonce.Operation
	seen func(context.Context) error // notes that one arrived
	done chan struct{}               // one arrived, which is noted, or none did
	open int                         // answers of which nothing is known yet
	over bool
}

// deliveries holds those of which nothing is known yet, by operation: an equal
// call has to know.
type deliveries struct {
	mu sync.Mutex
	m  map[justonce.Ref]*arrival
}

// deliver returns the delivery of an ended operation's answer; nil where it
// does not matter.
func (s *Server) deliver(op *justonce.Operation, seen func(context.Context) error) *delivery {
	ds := &s.deliveries
	ds.mu.Lock()
	defer ds.mu.Unlock()
	a := ds.m[op.Ref]
	if a == nil || a.over || !a.op.CreatedAt.Equal(op.CreatedAt) {
		a = &arrival{op: op, seen: seen, done: make(chan struct{})}
		if ds.m == nil {
			ds.m = map[justonce.Ref]*arrival{}
		}
		ds.m[op.Ref] = a
	}
	a.open++
	return &delivery{s: s, of: a}
}

// report says whether the answer reached the client. Only the first report
// counts. It returns once the ledger has it.
func (d *delivery) report(arrived bool) {
	if d != nil {
		d.once.Do(func() { d.conclude(arrived) })
	}
}

func (d *delivery) conclude(arrived bool) {
	a, ds := d.of, &d.s.deliveries
	ds.mu.Lock()
	a.open--
	over := !a.over && (arrived || a.open == 0)
	a.over = a.over || over
	ds.mu.Unlock()
	if !over {
		return
	}
	if arrived {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if err := a.seen(ctx); err != nil {
			// The next equal call gets this answer once more: the safe side.
			d.s.log.Warn("it could not be noted that an answer was delivered", "key", a.op.Key, "error", err)
		}
		cancel()
	}
	close(a.done)
	ds.mu.Lock()
	if ds.m[a.op.Ref] == a {
		delete(ds.m, a.op.Ref)
	}
	ds.mu.Unlock()
}

// settled waits until it is known whether an answer of the last equal call
// arrived.
func (s *Server) settled(t *turn, ref justonce.Ref) {
	s.deliveries.mu.Lock()
	a := s.deliveries.m[ref]
	s.deliveries.mu.Unlock()
	if a == nil {
		return
	}
	if t.unseen != nil {
		t.unseen(a)
	}
	// Some other client may sit on its answer.
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
	case <-t.ctx.Done():
	}
}
