package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// connect returns a connection of the application.
func connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), server(tb).URL("postgres"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// beginTx begins a transaction of the application; without a commit it is
// rolled back.
func beginTx(tb testing.TB, _ *postgres.Store) pgx.Tx {
	tb.Helper()
	tx, err := connect(tb).Begin(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// business returns the name of a new table of the application.
func business(tb testing.TB) string {
	tb.Helper()
	name := pgx.Identifier{"orders " + newSchema()}.Sanitize()
	if _, err := connect(tb).Exec(context.Background(), "CREATE TABLE "+name+" (id text)"); err != nil {
		tb.Fatal(err)
	}
	return name
}

func count(tb testing.TB, table string) (n int) {
	tb.Helper()
	if err := connect(tb).QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func take(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
	op.State, op.LeaseUntil = justonce.Running, now.Add(time.Minute)
	op.Due = op.LeaseUntil
	op.Fence++
	return []justonce.Entry{{Kind: justonce.EntryClaimed, At: now, State: op.State, Fence: op.Fence}}, true
}

func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	s, orders := openNew(t, postgres.Options{}), business(t)
	for _, commit := range []bool{false, true} {
		tx := beginTx(t, s)
		if _, err := tx.Exec(t.Context(), "INSERT INTO "+orders+" VALUES ('o-1')"); err != nil {
			t.Fatal(err)
		}
		op := pendingOp("k", s.Now())
		op.CreatedAt, op.UpdatedAt, op.Due = time.Time{}, time.Time{}, time.Time{}
		if a, err := s.EnqueueTx(t.Context(), tx, op); err != nil || !a.Fresh {
			t.Fatalf("EnqueueTx: %+v, %v", a, err)
		}
		if ops, err := s.Claim(t.Context(), justonce.Due{Limit: 1}, take); err != nil || len(ops) != 0 {
			t.Fatalf("Claim before the commit: %v, %v, want nothing", ops, err)
		}
		if !commit {
			tx.Rollback(t.Context())
			continue
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ops, err := s.Claim(t.Context(), justonce.Due{Limit: 5}, take)
	if err != nil || len(ops) != 1 || string(ops[0].Arguments) != string(benchArgs) || count(t, orders) != 1 {
		t.Errorf("Claim after the commit: %+v, %v, and %d rows, want the operation and one row", ops, err, count(t, orders))
	}
	stats, err := s.Stats(t.Context())
	if err != nil || stats.Count[justonce.Running] != 1 || stats.Count[justonce.Succeeded] != 0 {
		t.Errorf("Stats: %+v, %v", stats, err)
	}
	again := beginTx(t, s)
	if a, err := s.EnqueueTx(t.Context(), again, pendingOp("k", s.Now())); err != nil || a.Fresh || a.Operation.State != justonce.Running {
		t.Errorf("EnqueueTx again: %+v, %v, want the running operation", a, err)
	}
	other := pendingOp("k", s.Now())
	other.Fingerprint, other.Arguments = "another", otherArgs
	_, err = s.EnqueueTx(t.Context(), again, other)
	wantPaths(t, "EnqueueTx", err)
	if _, err := s.EnqueueTx(t.Context(), again, benchOp("k2", s.Now())); !errors.Is(err, justonce.ErrInvalid) {
		t.Errorf("EnqueueTx of a running operation: %v, want ErrInvalid", err)
	}
}

// A transaction that has ended records nothing, whoever has its connection now.
func TestEnqueueTxAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	config, err := pgxpool.ParseConfig(server(t).URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for i, end := range []func(pgx.Tx) error{
		func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
	} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		other, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		op := pendingOp(fmt.Sprint("late ", i), s.Now())
		if a, err := s.EnqueueTx(t.Context(), tx, op); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("EnqueueTx in a transaction that has ended: %+v, %v; want ErrTxClosed", a, err)
		}
		if err := other.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), op.Ref); !errors.Is(err, justonce.ErrNotFound) {
			t.Errorf("another transaction has recorded it: %v", err)
		}
	}
}

// otherArgs differ from benchArgs in one member, and lack another.
var otherArgs = json.RawMessage(`{"order_id":"ord-0001234","amount":1,"currency":"EUR"}`)

// wantPaths checks that err is a conflict that names what differs in otherArgs.
func wantPaths(t *testing.T, what string, err error) {
	t.Helper()
	var e *justonce.ConflictError
	if want := []string{"/amount", "/customer"}; !errors.As(err, &e) || errors.Is(err, justonce.ErrUnavailable) || !slices.Equal(e.Paths, want) || e.Differs != nil {
		t.Errorf("%s with other arguments: %v, want a conflict in %v", what, err, want)
	}
}

// doTx runs DoTx with an effect that inserts a row.
func doTx(ctx context.Context, s *postgres.Store, tx pgx.Tx, orders, key string, fail error) (*justonce.Arrival, error) {
	return s.DoTx(ctx, tx, benchOp(key, s.Now()), func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		if _, err := tx.Exec(ctx, "INSERT INTO "+orders+" VALUES ($1)", key); err != nil {
			return nil, err
		}
		return benchResult, fail
	})
}

func TestDoTx(t *testing.T) {
	t.Parallel()
	s, orders := openNew(t, postgres.Options{}), business(t)
	ctx := t.Context()
	tx := beginTx(t, s)
	boom := errors.New("boom")
	if _, err := doTx(ctx, s, tx, orders, "k", boom); !errors.Is(err, boom) {
		t.Errorf("DoTx whose effect fails: %v, want its error", err)
	}
	if a, err := doTx(ctx, s, tx, orders, "k", nil); err != nil || !a.Fresh {
		t.Fatalf("DoTx: %+v, %v", a, err)
	}
	if a, err := doTx(ctx, s, tx, orders, "k", nil); err != nil || a.Fresh || string(a.Operation.Result) != string(benchResult) {
		t.Errorf("DoTx again in one transaction: %+v, %v, want the result", a, err)
	}
	if _, err := s.Get(ctx, justonce.Ref{Key: "k"}); !errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("Get before the commit: %v, want ErrNotFound", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	op, err := s.Get(ctx, justonce.Ref{Key: "k"})
	if err != nil || op.State != justonce.Succeeded || string(op.Result) != string(benchResult) || count(t, orders) != 1 {
		t.Errorf("after the commit: %+v, %v, and %d rows", op, err, count(t, orders))
	}
	history, err := s.History(ctx, op.Ref)
	if err != nil || len(history) != 2 || string(history[0].Body) != string(benchArgs) || string(history[1].Body) != string(benchResult) {
		t.Errorf("History: %+v, %v", history, err)
	}
	changed := benchOp("k", s.Now())
	changed.Fingerprint, changed.Arguments = "another", otherArgs
	_, err = s.DoTx(ctx, beginTx(t, s), changed, func(context.Context, pgx.Tx) (json.RawMessage, error) {
		t.Error("the effect runs in spite of the conflict")
		return nil, nil
	})
	wantPaths(t, "DoTx", err)
	// What is rolled back has not happened.
	tx = beginTx(t, s)
	if _, err := doTx(ctx, s, tx, orders, "k2", nil); err != nil {
		t.Fatal(err)
	}
	tx.Rollback(ctx)
	if _, err := s.Get(ctx, justonce.Ref{Key: "k2"}); !errors.Is(err, justonce.ErrNotFound) || count(t, orders) != 1 {
		t.Errorf("after a rollback: %v and %d rows, want ErrNotFound and 1", err, count(t, orders))
	}
}

// Any number of concurrent transactions have one effect for each key.
func TestDoTxConcurrently(t *testing.T) {
	t.Parallel()
	s, orders := openNew(t, postgres.Options{}), business(t)
	const callers, keys = 8, 20
	var wg sync.WaitGroup
	for range callers {
		conn := connect(t)
		wg.Go(func() {
			for k := range keys {
				err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
					a, err := doTx(context.Background(), s, tx, orders, fmt.Sprint("k", k), nil)
					if err == nil && !a.Fresh && string(a.Operation.Result) != string(benchResult) {
						err = fmt.Errorf("the operation met is %+v", a.Operation)
					}
					return err
				})
				if err != nil {
					t.Errorf("DoTx: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := count(t, orders); n != keys {
		t.Errorf("%d effects for %d keys", n, keys)
	}
	if stats, err := s.Stats(t.Context()); err != nil || stats.Count[justonce.Succeeded] != keys {
		t.Errorf("Stats: %+v, %v", stats, err)
	}
}

// An operation that no longer answers makes room, in a transaction too.
func TestDoTxArchives(t *testing.T) {
	t.Parallel()
	s, orders := openNew(t, postgres.Options{}), business(t)
	firstCall(t.Context(), t, s, "k")
	op, err := s.Get(t.Context(), justonce.Ref{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	op.DedupeUntil = s.Now().Add(-time.Minute)
	if err := s.Update(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	tx := beginTx(t, s)
	if a, err := doTx(t.Context(), s, tx, orders, "k", nil); err != nil || !a.Fresh {
		t.Fatalf("DoTx: %+v, %v", a, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if page, err := s.List(t.Context(), justonce.Filter{}); err != nil || len(page.Operations) != 2 {
		t.Errorf("List: %+v, %v, want both", page, err)
	}
}
