package justonce

import (
	"context"
	"hash/maphash"
	"sync"
)

// A flight is what callers and workers of this process share about one open
// operation, so that duplicates join instead of asking the ledger.
type flight struct {
	ref Ref

	mu      sync.Mutex
	op      *Operation // as last seen; nil until the ledger answered
	err     error      // the ledger did not record it
	changed chan struct{}
	waiters int
	busy    int  // attempts and lookups under way in this process
	driven  bool // a goroutine moves it on while somebody waits
}

// publish tells everybody of a newer op.
func (f *flight) publish(op *Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.op == nil || op.Ref != f.ref || op.Version > f.op.Version {
		f.op = op
		f.broadcast()
	}
}

func (f *flight) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	f.broadcast()
}

func (f *flight) broadcast() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// look returns what is known and a channel that is closed when that changes.
// final says that no caller has to wait any longer.
func (f *flight) look() (op *Operation, changed <-chan struct{}, final bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.op != nil && (f.op.Ref != f.ref || !f.op.State.Open()) {
		return f.op, nil, true, f.err
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.op, f.changed, false, nil
}

// wait blocks until the operation is settled for callers or ctx is done.
func (f *flight) wait(ctx context.Context) (*Operation, error) {
	for {
		op, changed, final, err := f.look()
		if final {
			return op, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return op, nil
		}
	}
}

func (f *flight) add(waiters, busy int) (w, b int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters += waiters
	f.busy += busy
	if waiters < 0 || busy != 0 {
		f.broadcast() // a driver may have to stop, or to look again
	}
	return f.waiters, f.busy
}

// flights holds the flights of a process.
type flights struct {
	seed   maphash.Seed
	shards [64]struct {
		mu sync.Mutex
		m  map[Ref]*flight
	}
}

// join returns the flight of ref with one more waiter, and whether it is new.
func (fs *flights) join(ref Ref) (f *flight, leader bool) {
	s := &fs.shards[maphash.String(fs.seed, ref.Key)%uint64(len(fs.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.m[ref]; f == nil {
		if s.m == nil {
			s.m = make(map[Ref]*flight)
		}
		f = &flight{ref: ref}
		s.m[ref] = f
		leader = true
	}
	f.mu.Lock()
	f.waiters++
	f.mu.Unlock()
	return f, leader
}

// find returns the flight of ref, or nil.
func (fs *flights) find(ref Ref) *flight {
	s := &fs.shards[maphash.String(fs.seed, ref.Key)%uint64(len(fs.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[ref]
}

// leave takes a waiter off f and forgets f once nobody needs it.
func (fs *flights) leave(f *flight, waiters, busy int) {
	s := &fs.shards[maphash.String(fs.seed, f.ref.Key)%uint64(len(fs.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, b := f.add(-waiters, -busy); w == 0 && b == 0 && s.m[f.ref] == f {
		delete(s.m, f.ref)
	}
}

// drop forgets f, so that the next call asks the ledger.
func (fs *flights) drop(f *flight) {
	s := &fs.shards[maphash.String(fs.seed, f.ref.Key)%uint64(len(fs.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[f.ref] == f {
		delete(s.m, f.ref)
	}
}
