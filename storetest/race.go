package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// Concurrent histories: what the callers were told fits one order of writes to
// each operation, and that order is the one recorded.
func (s *suite) race(t *testing.T) {
	s.random(t, "History", 4, func(l *ledger, rng *rand.Rand) {
		stores := []justonce.Store{l.Store}
		if s.features.Shared {
			stores = append(stores, l.another().Store)
		}
		r := &race{l: l, acked: make(map[justonce.Ref]int64), fresh: make(map[string]int)}
		var wg sync.WaitGroup
		start := make(chan struct{})
		for g := range 6 {
			w := &racer{race: r, store: stores[g%len(stores)], name: fmt.Sprint("g", g), rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
			wg.Go(func() {
				<-start
				for range 60 {
					if !w.step() {
						return
					}
				}
			})
		}
		close(start)
		wg.Wait()
		r.check()
	})
}

// A race collects what callers were told.
type race struct {
	l *ledger

	mu     sync.Mutex
	acked  map[justonce.Ref]int64 // the newest version that anybody was told of
	fresh  map[string]int         // by identity
	writes []raceWrite
	reads  []*justonce.Operation
	pasts  []record // histories seen
}

// A raceWrite is an acknowledged write.
type raceWrite struct {
	op   *justonce.Operation // as recorded
	note string              // of its entry
	// at is the time at which a claim found the operation due.
	at time.Time
}

// A racer is one caller.
type racer struct {
	*race
	store justonce.Store
	name  string
	rng   *rand.Rand
	n     int
	held  *justonce.Operation // read some steps ago
}

func (w *racer) step() bool {
	w.n++
	w.l.clock.advance(time.Duration(w.rng.IntN(int(lease / 20))))
	switch n := w.rng.IntN(10); {
	case n < 2:
		return w.begin()
	case n < 5:
		return w.update()
	case n < 8:
		return w.claim()
	case n < 9:
		return w.history()
	}
	_, ok := w.get()
	return ok
}

// fail reports what must not happen and ends the racer.
func (w *racer) fail(what string, err error) bool {
	w.l.t.Errorf("%s: %s: %v", w.name, what, err)
	return false
}

func (w *racer) note() string { return fmt.Sprintf("%s-%d", w.name, w.n) }

func (r *race) wrote(op *justonce.Operation, note string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := *op
	c.Arguments = nil
	r.writes = append(r.writes, raceWrite{&c, note, at})
	r.acked[op.Ref] = max(r.acked[op.Ref], op.Version)
}

// read collects an operation that was read after floor was acknowledged.
func (r *race) read(op *justonce.Operation, floor int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads = append(r.reads, op)
	r.acked[op.Ref] = max(r.acked[op.Ref], op.Version)
	if op.Version < floor {
		r.l.t.Errorf("version %d of %s was read after %d was acknowledged", op.Version, op.Key, floor)
	}
}

func (w *racer) begin() bool {
	name := oneOf(w.rng, "a", "b", "c", "d")
	op := w.l.newOp(oneOf(w.rng, name, name+"-2"), withIdentity(name))
	entry := arrived(op)
	entry.Note = w.note()
	a, err := w.store.Begin(w.l.ctx, op, entry)
	if err != nil {
		return w.fail("Begin", err)
	}
	if !a.Fresh {
		w.read(a.Operation, 1)
		return true
	}
	w.mu.Lock()
	w.fresh[name]++
	w.mu.Unlock()
	w.wrote(recorded(op, 1), entry.Note, time.Time{})
	return true
}

// any returns an operation that somebody has seen, and its newest version.
func (w *racer) any() (ref justonce.Ref, floor int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.rng.IntN(max(1, len(w.acked)))
	for ref, floor = range w.acked {
		if i--; i < 0 {
			break
		}
	}
	return ref, floor
}

// get returns nil if nothing is there yet, and false after a failure.
func (w *racer) get() (*justonce.Operation, bool) {
	ref, floor := w.any()
	if floor == 0 {
		return nil, true
	}
	op, err := w.store.Get(w.l.ctx, ref)
	if err != nil {
		return nil, w.fail("Get", err)
	}
	c := *op
	w.read(&c, floor)
	return op, true
}

func (w *racer) update() bool {
	op, ok := w.get()
	if op == nil {
		return ok
	}
	if w.rng.IntN(4) == 0 && w.held != nil {
		op, w.held = w.held, op // others had time to write
	} else if w.rng.IntN(4) == 0 {
		w.held = new(*op)
	}
	runtime.Gosched()
	w.l.clock.advance(1)
	version := op.Version
	op.Note = w.note()
	op.UpdatedAt = w.l.clock.now()
	if w.rng.IntN(2) == 0 { // give it back
		op.State, op.LeaseUntil, op.Due = justonce.Pending, time.Time{}, op.UpdatedAt
	}
	e := justonce.Entry{Kind: justonce.EntryDecision, At: op.UpdatedAt, Note: op.Note}
	if w.rng.IntN(3) == 0 {
		e.Body, e.IsResult = []byte(`"`+op.Note+`"`), true
	}
	switch err := w.store.Update(w.l.ctx, op, e); {
	case err == nil && op.Version != version+1:
		return w.fail("Update", fmt.Errorf("version %d became %d", version, op.Version))
	case err == nil:
		if e.IsResult {
			op.Result = e.Body
		}
		w.wrote(op, op.Note, time.Time{})
	case errors.Is(err, justonce.ErrStale):
		now, err := w.store.Get(w.l.ctx, op.Ref)
		if err != nil {
			return w.fail("Get", err)
		}
		if now.Version <= version {
			return w.fail("Update", fmt.Errorf("version %d is stale, and %d is recorded", version, now.Version))
		}
	default:
		return w.fail("Update", err)
	}
	return true
}

func (w *racer) claim() bool {
	due := justonce.Due{Limit: 1 + w.rng.IntN(2)}
	if ref, floor := w.any(); floor > 0 && w.rng.IntN(2) == 0 {
		due.Ref = &ref
	}
	var at time.Time
	ops, err := w.store.Claim(w.l.ctx, due, func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		at = now
		entries, _ := take(op, now)
		entries[0].Note = w.note()
		return entries, true
	})
	if err != nil {
		return w.fail("Claim", err)
	}
	for _, op := range ops {
		w.wrote(op, w.note(), at)
	}
	return true
}

func (w *racer) history() bool {
	ref, floor := w.any()
	if floor == 0 {
		return true
	}
	h, err := w.store.History(w.l.ctx, ref)
	if err != nil {
		return w.fail("History", err)
	}
	if int64(len(h)) < floor {
		return w.fail("History", fmt.Errorf("%d entries after version %d was acknowledged", len(h), floor))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pasts = append(w.pasts, record{&justonce.Operation{Ref: ref}, h})
	return true
}
