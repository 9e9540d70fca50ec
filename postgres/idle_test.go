package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// While a transaction of somebody else stays open, vacuum removes nothing:
// what has been settled stays in the index of due times. Claims step over it
// once in a while, not each time.
func TestLongTransactionBesideClaims(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	tx, err := connect(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{s.Schema(), "op"}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	const settled = 3000
	old := s.Now().Add(-time.Hour)
	fill(settled, func(n int64) {
		op := pendingOp(benchKey(n), old.Add(time.Duration(n)))
		if _, err := s.Begin(context.Background(), op, arrived(op)); err != nil {
			t.Error(err)
			return
		}
		e := end(op, s.Now())
		if err := s.Update(context.Background(), op, e); err != nil {
			t.Error(err)
		}
	})
	if h := s.Horizon(true); h.Before(s.Now().Add(-2*postgres.HorizonSlack)) || h.After(s.Now()) {
		t.Errorf("the horizon is %v, want about %v", h, s.Now().Add(-postgres.HorizonSlack))
	}
	due := begin(t, s, "due")
	conn := connect(t)
	// closed returns once the sessions of s have reported what they read: they do
	// before they leave the list.
	closed := func() {
		s.Close()
		until(func() bool {
			left := -1
			err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%' || $1 || '%' AND state = 'idle'`, s.Schema()).Scan(&left)
			if err != nil {
				t.Fatal(err)
			}
			return left == 0
		})
	}
	closed()
	read := func() (n int64) {
		err := conn.QueryRow(t.Context(), `SELECT coalesce(idx_tup_read, 0) FROM pg_stat_user_indexes WHERE schemaname = $1 AND indexrelname = 'watch_due'`, s.Schema()).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	s = open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	s.Horizon(true)
	ops, err := s.Claim(t.Context(), justonce.Due{Limit: 10}, take)
	if err != nil || len(ops) != 1 || ops[0].Ref != due.Ref {
		t.Fatalf("Claim: %+v, %v, want what is due", ops, err)
	}
	for range 20 {
		if ops, err := s.Claim(t.Context(), justonce.Due{Limit: 10}, take); err != nil || len(ops) != 0 {
			t.Fatalf("Claim: %+v, %v, want nothing", ops, err)
		}
	}
	closed()
	if n := read() - before; n < settled || n > 2*settled {
		t.Errorf("one full look and 21 claims read %d entries of the index, want not many more than the %d that are settled", n, settled)
	}
}

// What is dated back is found all the same.
func TestDueBeforeTheHorizon(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	s.Horizon(true)
	own := pendingOp("own", s.Now().Add(-24*time.Hour))
	if _, err := s.Begin(t.Context(), own, arrived(own)); err != nil {
		t.Fatal(err)
	}
	if ops, err := s.Claim(t.Context(), justonce.Due{Limit: 10}, take); err != nil || len(ops) != 1 {
		t.Errorf("Claim: %+v, %v, want what this process dated back", ops, err)
	}
	s.Horizon(true)
	theirs := pendingOp("theirs", s.Now().Add(-24*time.Hour))
	if _, err := other.Begin(t.Context(), theirs, arrived(theirs)); err != nil {
		t.Fatal(err)
	}
	s.Horizon(true) // comes every minute
	if ops, err := s.Claim(t.Context(), justonce.Due{Limit: 10}, take); err != nil || len(ops) != 1 {
		t.Errorf("Claim: %+v, %v, want what another process dated back", ops, err)
	}
}
