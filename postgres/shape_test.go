package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// The statements depend on what the rows of a group have in common. Whatever
// that is, each row is recorded and replaced as it was given.
func TestGroupsOfEveryShape(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{Writers: 1, MaxConns: 2})
	rng := rand.New(rand.NewPCG(1, 2))
	together := func(n int, f func(i int)) {
		until(func() bool { return s.Taken() == 0 })
		release := s.HoldConns(t)
		var wg sync.WaitGroup
		wg.Go(func() { begin(t, s, fmt.Sprint("held up ", rng.Uint64())) })
		until(func() bool { return s.Taken() == 1 })
		for i := range n {
			wg.Go(func() { f(i) })
		}
		until(func() bool { return s.Queued() == n })
		release()
		wg.Wait()
	}
	check := func(round int, op *justonce.Operation, history []justonce.Entry) {
		t.Helper()
		got, err := s.Get(t.Context(), op.Ref)
		want := *op
		want.Arguments = nil
		if diff := cmp.Diff(&want, got); diff != "" || err != nil {
			t.Fatalf("round %d: Get: %v (-want +got)\n%s", round, err, diff)
		}
		entries, err := s.History(t.Context(), op.Ref)
		if diff := cmp.Diff(history, entries); diff != "" || err != nil {
			t.Fatalf("round %d: History: %v (-want +got)\n%s", round, err, diff)
		}
	}
	conn := connect(t)
	// wrong counts what the small tables tell differently than op.
	wrong := func() (n int) {
		schema := pgx.Identifier{s.Schema()}.Sanitize()
		err := conn.QueryRow(t.Context(), `SELECT
			(SELECT count(*) FROM `+schema+`.op FULL JOIN `+schema+`.watch ON watch.id = op.id AND watch.due = op.watch
				WHERE op.watch IS NOT NULL AND watch.id IS NULL OR op.id IS NULL OR watch.lease <> op.lease OR watch.state <> op.state
				OR watch.created <> op.created OR watch.hash <> op.hash OR watch.tenant <> op.tenant OR watch.tool <> op.tool)
			+ (SELECT count(*) FROM `+schema+`.op LEFT JOIN `+schema+`.reference ON reference.op = op.id AND reference.hash = op.ref
				WHERE op.ref IS NOT NULL AND reference.op IS NULL)
			+ (SELECT abs((SELECT sum(n) FROM `+schema+`.tally) - (SELECT count(*) FROM `+schema+`.op)))`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for round := range 60 {
		const n = 6
		// vary says for one thing whether the rows of a group differ in it.
		vary := func() func(i int) bool {
			of := rng.IntN(3)
			return func(i int) bool { return of == 0 && i%2 == 0 || of == 1 }
		}
		tenant, tool, scope, run, pending, refer, identify, later := vary(), vary(), vary(), vary(), vary(), vary(), vary(), vary()
		ops, histories := make([]*justonce.Operation, n), make([][]justonce.Entry, n)
		pick := func(this bool, a, b string) string {
			if this {
				return a
			}
			return b
		}
		for i := range ops {
			key := fmt.Sprint(round, "-", i)
			op := benchOp(key, s.Now())
			if pending(i) {
				op = pendingOp(key, s.Now())
			}
			op.Tenant, op.Tool = pick(tenant(i), "acme", "globex"), pick(tool(i), "charge", "mail")
			op.Scope, op.RunID = pick(scope(i), "scope", ""), pick(run(i), "run", "")
			if later(i) {
				op.UpdatedAt = op.CreatedAt.Add(time.Second)
			}
			op.Reference, op.Identity = pick(refer(i), "ref "+key, ""), pick(identify(i), "identity "+key, "")
			ops[i], histories[i] = op, []justonce.Entry{arrived(op)}
		}
		together(n, func(i int) {
			if a, err := s.Begin(context.Background(), ops[i], histories[i][0]); err != nil || !a.Fresh {
				t.Errorf("round %d: Begin: %+v, %v", round, a, err)
			}
		})
		for i, op := range ops {
			check(round, op, histories[i])
		}
		failed, open, big, plain, named := vary(), vary(), vary(), vary(), vary()
		entries := make([]justonce.Entry, n)
		for i, op := range ops {
			now := s.Now()
			e := end(op, now)
			switch {
			case failed(i):
				op.State, op.Reason = justonce.Failed, justonce.ReasonRejected
			case open(i):
				op.State, op.LeaseUntil, op.Due = justonce.Running, now.Add(time.Hour), now.Add(time.Hour)
			}
			if big(i) {
				e.Body = json.RawMessage(`"` + strings.Repeat("big", 500) + `"`)
			}
			if e.IsResult = !plain(i); e.IsResult {
				op.Result = e.Body
			}
			if named(i) {
				op.Reference = "changed " + op.Key
			}
			entries[i] = e
			histories[i] = append(histories[i], e)
		}
		together(n, func(i int) {
			if err := s.Update(context.Background(), ops[i], entries[i]); err != nil {
				t.Errorf("round %d: Update: %v", round, err)
			}
		})
		for i, op := range ops {
			check(round, op, histories[i])
			page, err := s.List(t.Context(), justonce.Filter{Tenant: op.Tenant, Reference: op.Reference, Identity: op.Identity, States: []justonce.State{op.State}, Limit: 1000})
			found := false
			for _, o := range page.Operations {
				found = found || o.Ref == op.Ref
			}
			if err != nil || !found {
				t.Fatalf("round %d: List does not find %s: %v", round, op.Key, err)
			}
		}
		if n := wrong(); n != 0 {
			t.Fatalf("round %d: %d rows beside op are wrong", round, n)
		}
	}
}
