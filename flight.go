package justonce

import (
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

// publish tells everybody of a newer op. One that has taken over the key is not
// what they wait for.
func (f *flight) publish(op *Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.op == nil || op.Ref != f.ref || op.Version > f.op.Version && op.CreatedAt.Equal(f.op.CreatedAt) {
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

// A view is what is known of a flight.
type view struct {
	op      *Operation
	err     error
	settled bool            // no caller has to wait any longer
	busy    bool            // this process attempts it or looks it up
	changed <-chan struct{} // closed when any of it changes; nil once settled
}

func (f *flight) look() view {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view()
}

// view is look for holders of f.mu.
func (f *flight) view() view {
	v := view{op: f.op, err: f.err, settled: f.settled(), busy: f.busy > 0}
	if !v.settled {
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		v.changed = f.changed
	}
	return v
}

func (f *flight) settled() bool {
	return f.err != nil || f.op != nil && (f.op.Ref != f.ref || !f.op.State.Open())
}

// over reports whether f is settled. Others may move the operation on from
// there, so that whoever comes now has to ask the ledger.
func (f *flight) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settled()
}

// steer makes the caller the one who moves f on, unless somebody does.
func (f *flight) steer() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	lead := !f.driven
	f.driven = true
	return lead
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
	if f = s.m[ref]; f == nil || f.over() {
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
