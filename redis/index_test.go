package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/redis"
)

// written marks what the writes of these tests record.
const written = 77

var indexTenants = []string{"", "a", "b"}

// damagedIndexes are the indexes by short names, with the tenant that each is of;
// "*": of all.
var damagedIndexes = map[string]struct{ index, tenant string }{
	"list":       {"list:a", "a"},
	"watch":      {"watch", "*"},
	"due":        {"due", "*"},
	"ended":      {"ended", "*"},
	"ref":        {redis.ReferenceIndex("a", "new"), "a"},
	"oldref":     {redis.ReferenceIndex("a", "old"), "a"},
	"id":         {redis.IdentityIndex("a", "identity"), "a"},
	"tombstones": {"tombstones", "*"},
}

// An indexWrite is a Begin or an Update, and the indexes that it changes.
type indexWrite struct {
	name    string
	indexes string
	begins  bool
	op      func(w *indexing, op *justonce.Operation) // makes the operation what is begun or updated
	past    func(w *indexing, op *justonce.Operation) // happened to it before; may be nil
}

var indexWrites = []indexWrite{
	{name: "begin", begins: true, indexes: "list watch due", op: func(*indexing, *justonce.Operation) {}},
	{name: "begin idle", begins: true, indexes: "list watch", op: func(_ *indexing, op *justonce.Operation) { op.Due = time.Time{} }},
	{name: "begin identified", begins: true, indexes: "list watch due id", op: func(_ *indexing, op *justonce.Operation) { op.Identity = "identity" }},
	{name: "begin again", begins: true, indexes: "list watch due ended", op: func(*indexing, *justonce.Operation) {}, past: (*indexing).outlive},
	{name: "note", op: func(_ *indexing, op *justonce.Operation) { op.Note = "noted" }},
	{name: "postpone", indexes: "due", op: func(_ *indexing, op *justonce.Operation) { op.Due = op.Due.Add(time.Minute) }},
	{name: "review", indexes: "watch due", op: func(_ *indexing, op *justonce.Operation) { op.State, op.Due = justonce.Review, time.Time{} }},
	{name: "end", indexes: "watch due ended", op: (*indexing).end},
	{name: "refer", indexes: "ref", op: func(_ *indexing, op *justonce.Operation) { op.Reference = "new" }},
	{name: "refer anew", indexes: "ref oldref", op: func(_ *indexing, op *justonce.Operation) { op.Reference = "new" }, past: (*indexing).refer},
	{name: "end late", indexes: "ended tombstones", op: (*indexing).end, past: (*indexing).purge},
}

// needs reports whether the write needs an index in a tenant.
func (iw indexWrite) needs(index, tenant string) bool {
	for _, name := range strings.Fields(iw.indexes) {
		if of := damagedIndexes[name].tenant; name == index && (of == "*" || of == tenant) {
			return true
		}
	}
	return false
}

// An indexing is a gathering of all writes in all tenants.
type indexing struct {
	*gathering
	ops map[justonce.Ref]*justonce.Operation // of the writes, by what they are at
}

func (x *indexing) end(op *justonce.Operation) { end(op, x.s.Now()) }

func (x *indexing) finish(op *justonce.Operation, dedupe time.Duration) {
	x.t.Helper()
	e := end(op, x.s.Now())
	op.DedupeUntil = x.s.Now().Add(dedupe)
	x.updated(x.s.Update(x.t.Context(), op, e))
}

func (x *indexing) outlive(op *justonce.Operation) {
	x.finish(op, -time.Minute)
	x.s.Forget() // or it would be looked at first
}

func (x *indexing) refer(op *justonce.Operation) {
	op.Reference = "old"
	x.updated(x.s.Update(x.t.Context(), op))
}

func (x *indexing) purge(op *justonce.Operation) {
	x.finish(op, time.Hour)
	if _, err := x.s.Purge(x.t.Context(), x.s.Now().Add(time.Minute), 1000); err != nil {
		x.t.Fatal(err)
	}
	op.Version++
}

// prepare makes what the writes change. Purged are all that have ended, so that
// those that are come first.
func (x *indexing) prepare() {
	x.t.Helper()
	for _, iw := range slices.Backward(indexWrites) {
		for _, tenant := range indexTenants {
			op := x.newOp(iw, tenant)
			if !iw.begins || iw.past != nil {
				a, err := x.s.Begin(x.t.Context(), op, arrived(op))
				x.fresh(a, err)
			}
			if iw.past != nil {
				iw.past(x, op)
			}
			if iw.begins {
				op = x.newOp(iw, tenant)
			}
			x.ops[op.Ref] = op
		}
	}
}

func (x *indexing) newOp(iw indexWrite, tenant string) *justonce.Operation {
	op := pendingOp(iw.name, x.s.Now())
	op.Tenant, op.Due = tenant, op.Due.Add(-time.Second) // our estimate of the server's clock may be ahead
	return op
}

// write sends all writes, and checks that those fail that fails tells.
func (x *indexing) write(fails func(iw indexWrite, tenant string) bool, what string) {
	want := func(iw indexWrite, tenant string, err error) {
		switch {
		case fails(iw, tenant):
			wantUnavailable(x.t, fmt.Sprintf("%s of %q", iw.name, tenant), err, what)
		case err != nil:
			x.t.Errorf("%s of %q: %v", iw.name, tenant, err)
		}
	}
	begins, updates := 0, 0
	for _, tenant := range indexTenants {
		for _, iw := range indexWrites {
			op := x.ops[justonce.Ref{Tenant: tenant, Key: iw.name}]
			iw.op(x, op)
			op.Attempts = written
			if iw.begins {
				begins++
				x.begin(op, func(a *justonce.Arrival, err error) {
					want(iw, tenant, err)
					if err == nil && !a.Fresh {
						x.t.Errorf("%s of %q: %+v, want it fresh", iw.name, tenant, a)
					}
				})
			} else {
				updates++
				x.update(op, func(err error) { want(iw, tenant, err) })
			}
		}
	}
	x.await(begins, updates)
	do(x.t, x.srv, "CLIENT", "UNPAUSE")
	x.wg.Wait()
}

// recorded reports whether a write is in its row.
func (x *indexing) recorded(ref justonce.Ref) bool {
	op, err := x.s.Get(x.t.Context(), ref)
	if err != nil && !errors.Is(err, justonce.ErrNotFound) {
		x.t.Errorf("Get(%v): %v", ref, err)
	}
	return err == nil && op.Attempts == written
}

func (x *indexing) wantRecorded(want func(iw indexWrite, tenant string) bool) {
	x.t.Helper()
	for _, tenant := range indexTenants {
		for _, iw := range indexWrites {
			if got, want := x.recorded(justonce.Ref{Tenant: tenant, Key: iw.name}), want(iw, tenant); got != want {
				x.t.Errorf("%s of %q is recorded: %t, want %t", iw.name, tenant, got, want)
			}
		}
	}
}

// list returns what List finds: how many in each state, and what is due. It
// checks that it finds all that is recorded.
func (x *indexing) list() (count map[justonce.State]int64, due map[justonce.Ref]bool) {
	x.t.Helper()
	now := x.s.ServerTime(x.t)
	count, due = map[justonce.State]int64{}, map[justonce.Ref]bool{}
	for _, tenant := range indexTenants {
		page, err := x.s.List(x.t.Context(), justonce.Filter{Tenant: tenant, Limit: 1000})
		if err != nil {
			x.t.Fatal(err)
		}
		listed := map[justonce.Ref]bool{}
		for _, op := range page.Operations {
			listed[op.Ref] = true
			count[op.State]++
			if op.IsDue(now) {
				due[op.Ref] = true
			}
		}
		for ref := range x.ops {
			if ref.Tenant == tenant && x.recorded(ref) && !listed[ref] {
				x.t.Errorf("List lacks %v", ref)
			}
		}
	}
	return count, due
}

func (x *indexing) wantStats(count map[justonce.State]int64) {
	x.t.Helper()
	stats, err := x.s.Stats(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	for _, state := range justonce.States() {
		if stats.Count[state] != count[state] {
			x.t.Errorf("Stats counts %d that are %s, want %d", stats.Count[state], state, count[state])
		}
	}
}

func (x *indexing) wantClaimed(due map[justonce.Ref]bool) {
	x.t.Helper()
	ops, err := x.s.Claim(x.t.Context(), justonce.Due{Limit: 1000}, take)
	if err != nil || len(ops) != len(due) || len(due) == 0 {
		x.t.Errorf("Claim: %d, %v, want %d", len(ops), err, len(due))
	}
	for _, op := range ops {
		if !due[op.Ref] {
			x.t.Errorf("Claim took %v, which was not due", op.Ref)
		}
	}
}

// newIndexing prepares the writes, does what spoil does and gathers, behind
// writes that need no index.
func newIndexing(t *testing.T, spoil func(*gathering)) *indexing {
	x := &indexing{ops: make(map[justonce.Ref]*justonce.Operation)}
	var lead *justonce.Operation
	gather(t, time.Minute, func(g *gathering) {
		x.gathering = g
		lead = begin(t, g.s, "lead")
		x.prepare()
		spoil(g)
		g.s.Forget() // or a begin would look first
	})
	x.begin(pendingOp(lead.Key, x.s.Now()), func(_ *justonce.Arrival, err error) { x.updated(err) })
	x.update(lead, x.updated)
	x.awaitLead()
	return x
}

// A damaged index is a matter of those writes alone that need it: nothing is
// recorded of them. What goes with them is recorded and found.
func TestDamagedIndexes(t *testing.T) {
	t.Parallel()
	for name, damaged := range damagedIndexes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var repair func()
			x := newIndexing(t, func(g *gathering) { repair = g.s.Damage(t, damaged.index) })
			fails := func(iw indexWrite, tenant string) bool { return iw.needs(name, tenant) }
			x.write(fails, "WRONGTYPE")
			repair()
			x.wantRecorded(func(iw indexWrite, tenant string) bool { return !fails(iw, tenant) })
			count, due := x.list()
			x.wantStats(count)
			x.wantClaimed(due)
			wantIntegrity(t, x.s)
		})
	}
}

// What an index refuses only when it is changed is an error of those writes that
// change it, and of no others. None of what is recorded is lost.
func TestIndexesRefuse(t *testing.T) {
	t.Parallel()
	changes := func(iw indexWrite, _ string) bool { return iw.indexes != "" }
	removes := func(iw indexWrite, _ string) bool {
		return slices.Contains([]string{"begin again", "postpone", "review", "end", "refer anew"}, iw.name)
	}
	all := func(indexWrite, string) bool { return true }
	for _, test := range []struct {
		command         string
		fails, recorded func(indexWrite, string) bool
	}{
		{"zadd", changes, func(iw indexWrite, tenant string) bool { return !changes(iw, tenant) }},
		{"zrem", removes, all},
	} {
		t.Run(test.command, func(t *testing.T) {
			t.Parallel()
			x := newIndexing(t, func(g *gathering) { do(t, g.srv, "ACL", "SETUSER", "default", "-"+test.command) })
			x.write(test.fails, "script")
			do(t, x.srv, "ACL", "SETUSER", "default", "+"+test.command)
			x.wantRecorded(test.recorded)
			_, due := x.list()
			x.wantClaimed(due)
		})
	}
}

// A reservation that cannot be ended ends by itself: what was claimed is.
func TestDamagedReservations(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	op := begin(t, s, "k")
	var repair func()
	ops, err := s.Claim(t.Context(), due(1), func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		repair = s.Damage(t, "taken")
		return take(op, now)
	})
	if err != nil || len(ops) != 1 || ops[0].Key != op.Key {
		t.Errorf("Claim: %+v, %v, want the one that is recorded as claimed", ops, err)
	}
	_, err = s.Claim(t.Context(), due(1), take)
	if begin(t, s, "other"); err != nil {
		t.Errorf("Claim where nothing is due: %v", err)
	}
	_, err = s.Claim(t.Context(), due(1), take)
	wantUnavailable(t, "Claim", err, "WRONGTYPE")
	repair()
	wantIntegrity(t, s)
}

// What cannot be counted as purged is not purged.
func TestPurgeWithDamagedCount(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	firstCall(t.Context(), t, s, "k")
	repair := s.Damage(t, "tombstones")
	before := s.Now().Add(time.Minute)
	n, err := s.Purge(t.Context(), before, 10)
	if wantUnavailable(t, "Purge", err, "WRONGTYPE"); n != 0 {
		t.Errorf("Purge: %d, want none", n)
	}
	repair()
	wantIntegrity(t, s)
	if n, err := s.Purge(t.Context(), before, 10); n != 1 || err != nil {
		t.Errorf("Purge of the repaired: %d, %v, want 1", n, err)
	}
	wantIntegrity(t, s)
}
