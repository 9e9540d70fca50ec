package redis_test

import (
	"context"
	"errors"
	"fmt"
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

// A gathering is a store whose server takes no writes, so that they gather.
type gathering struct {
	t   *testing.T
	srv *redistest.Server
	s   *redis.Store
	wg  sync.WaitGroup
}

// gather starts a server and a store, lets prepare write, and stops writes.
func gather(t *testing.T, timeout time.Duration, prepare func(*gathering)) *gathering {
	g := &gathering{t: t, srv: start(t)}
	g.s = open(t, g.srv.URL(), &redis.Options{Timeout: timeout, NoWakeUps: true})
	firstCall(t.Context(), t, g.s, "warm") // the server knows the scripts
	prepare(g)
	do(t, g.srv, "CLIENT", "PAUSE", "600000", "WRITE")
	return g
}

// begin begins op in a goroutine of its own, and update updates it: first those
// that go alone and are under way when others come.
func (g *gathering) begin(op *justonce.Operation, done func(*justonce.Arrival, error)) {
	g.wg.Go(func() { done(g.s.Begin(context.Background(), op, arrived(op))) })
}

func (g *gathering) update(op *justonce.Operation, done func(error)) {
	g.wg.Go(func() { done(g.s.Update(context.Background(), op)) })
}

// lead sends a begin and an update that the others gather behind.
func (g *gathering) lead(op *justonce.Operation) {
	g.begin(pendingOp("lead", g.s.Now()), g.fresh)
	g.update(op, g.updated)
	g.awaitLead()
}

func (g *gathering) awaitLead() {
	g.t.Helper()
	await(g.t, func() bool {
		begins, updates := g.s.Waiting()
		return g.s.Underway() == 2 && begins+updates == 0
	})
}

func (g *gathering) fresh(a *justonce.Arrival, err error) {
	if err != nil || !a.Fresh {
		g.t.Errorf("Begin: %+v, %v, want it fresh", a, err)
	}
}

func (g *gathering) updated(err error) {
	if err != nil {
		g.t.Errorf("Update: %v", err)
	}
}

// await waits until so many wait to go together.
func (g *gathering) await(begins, updates int) {
	g.t.Helper()
	await(g.t, func() bool {
		b, u := g.s.Waiting()
		return b == begins && u == updates
	})
}

// finish lets the writes happen.
func (g *gathering) finish() {
	g.t.Helper()
	do(g.t, g.srv, "CLIENT", "UNPAUSE")
	g.wg.Wait()
	wantIntegrity(g.t, g.s)
}

// scripts returns how many the server has run by their hashes.
func (g *gathering) scripts() int {
	for line := range strings.Lines(do(g.t, g.srv, "INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			number, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.Atoi(number)
			return n
		}
	}
	return 0
}

// Who comes while the server is busy shares a script with others.
func TestWritesShareScripts(t *testing.T) {
	t.Parallel()
	var lead *justonce.Operation
	var ops []*justonce.Operation
	const many = 60
	g := gather(t, time.Minute, func(g *gathering) {
		lead = begin(t, g.s, "updated")
		for i := range many {
			ops = append(ops, begin(t, g.s, fmt.Sprint("u", i)))
		}
	})
	before := g.scripts()
	g.lead(lead)
	for i := range many {
		g.begin(pendingOp(fmt.Sprint("b", i), g.s.Now()), g.fresh)
		g.update(ops[i], g.updated)
	}
	g.await(many, many)
	g.finish()
	// Those that ask for the time now and then count too.
	if n := g.scripts() - before; n < 4 || n > many/4 {
		t.Errorf("%d writes took %d scripts, want 4 and a few that ask for the time", 2*many+2, n)
	}
}

// More than go together wait for their turn.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	g := gather(t, time.Minute, func(*gathering) {})
	for i := range 500 {
		g.begin(pendingOp(strconv.Itoa(i), g.s.Now()), g.fresh)
	}
	await(t, func() bool { // two groups are under way
		begins, _ := g.s.Waiting()
		return begins > 200
	})
	g.finish()
}

// One that fails is no matter of those that go with it.
func TestGatheredFailures(t *testing.T) {
	t.Parallel()
	var lead, sound, cut, stale, other *justonce.Operation
	g := gather(t, time.Minute, func(g *gathering) {
		lead, sound, cut, stale, other = begin(t, g.s, "0"), begin(t, g.s, "1"), begin(t, g.s, "2"), begin(t, g.s, "3"), begin(t, g.s, "4")
		stale.Version = 7
		do(t, g.srv, "EVAL", `redis.call('HSET', KEYS[1], 'r', redis.call('HGET', KEYS[1], 'r'):sub(1, 60))`, "1", g.s.OpKey("", "2"))
		do(t, g.srv, "SET", g.s.OpKey("", "string"), "x")
	})
	g.lead(lead)
	g.begin(pendingOp("sound", g.s.Now()), g.fresh)
	g.begin(pendingOp("string", g.s.Now()), func(_ *justonce.Arrival, err error) {
		wantUnavailable(t, "Begin of a string", err, "WRONGTYPE")
	})
	g.begin(pendingOp("sound too", g.s.Now()), g.fresh)
	g.update(sound, g.updated)
	g.update(cut, func(err error) {
		wantUnavailable(t, "Update of a row that is cut off", err, "too short")
	})
	g.update(stale, func(err error) {
		if !errors.Is(err, justonce.ErrStale) {
			t.Errorf("Update: %v, want ErrStale", err)
		}
	})
	g.update(other, g.updated)
	g.await(3, 4)
	do(t, g.srv, "CLIENT", "UNPAUSE")
	g.wg.Wait()
	do(t, g.srv, "DEL", g.s.OpKey("", "string"))
	for _, key := range []string{"sound", "sound too", "1", "4"} {
		if _, err := g.s.Get(t.Context(), justonce.Ref{Key: key}); err != nil {
			t.Errorf("Get(%s): %v", key, err)
		}
	}
}

// Of those with one key or identity exactly one is new, even if all go together,
// and what does not answer any more is archived once.
func TestGatheredDuplicates(t *testing.T) {
	t.Parallel()
	var lead *justonce.Operation
	g := gather(t, time.Minute, func(g *gathering) {
		lead = begin(t, g.s, "updated")
		old := benchOp("old", g.s.Now())
		if _, err := g.s.Begin(t.Context(), old, arrived(old)); err != nil {
			t.Fatal(err)
		}
		e := end(old, g.s.Now())
		old.DedupeUntil = g.s.Now().Add(-time.Minute)
		if err := g.s.Update(t.Context(), old, e); err != nil {
			t.Fatal(err)
		}
		g.s.Forget() // or it would be looked at first
	})
	g.lead(lead)
	var fresh [3]atomic.Int64
	for i := range 30 {
		op := pendingOp([]string{"same", fmt.Sprint("own", i), "old"}[i%3], g.s.Now())
		if i%3 == 1 {
			op.Identity = "identity"
		}
		g.begin(op, func(a *justonce.Arrival, err error) {
			if err != nil {
				t.Errorf("Begin: %v", err)
			} else if a.Fresh {
				fresh[i%3].Add(1)
			}
		})
	}
	g.await(30, 0)
	g.finish()
	for i := range fresh {
		if n := fresh[i].Load(); n != 1 {
			t.Errorf("%d are new of those with one %s", n, []string{"key", "identity", "key that was archived"}[i])
		}
	}
}

// Several changes of one operation that go together leave the indexes of the
// last.
func TestGatheredChangesOfOne(t *testing.T) {
	t.Parallel()
	var lead, op *justonce.Operation
	g := gather(t, time.Minute, func(g *gathering) { lead, op = begin(t, g.s, "updated"), begin(t, g.s, "k") })
	g.lead(lead)
	for i := range 3 {
		next := *op
		next.Version += int64(i)
		next.Due = op.Due.Add(time.Duration(i%2) * time.Minute) // there and back
		g.update(&next, g.updated)
		g.await(0, i+1)
	}
	g.finish()
	if got, err := g.s.Get(t.Context(), op.Ref); err != nil || got.Version != 4 {
		t.Errorf("Get: %+v, %v, want version 4", got, err)
	}
}

// Who has waited too long for others is not sent: it would be told that the
// outcome is unknown, and here it is known.
func TestGatheredTooLate(t *testing.T) {
	t.Parallel()
	var lead *justonce.Operation
	g := gather(t, 4*time.Second, func(g *gathering) { lead = begin(t, g.s, "updated") })
	g.begin(pendingOp("lead", g.s.Now()), func(_ *justonce.Arrival, err error) { wantUnavailable(t, "Begin", err, "") })
	await(t, func() bool { return g.s.Underway() == 1 })
	late := pendingOp("late", g.s.Now())
	g.begin(late, func(_ *justonce.Arrival, err error) { wantUnavailable(t, "Begin", err, "was not sent") })
	g.await(1, 0)
	g.wg.Wait()
	do(t, g.srv, "CLIENT", "UNPAUSE")
	a, err := g.s.Begin(t.Context(), late, arrived(late))
	g.fresh(a, err)
	g.updated(g.s.Update(t.Context(), lead))
}
