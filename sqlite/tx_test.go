package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// openShop opens a new ledger in a file that has a table of the application, too.
func openShop(t *testing.T) (*sqlite.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path, nil)
	inTx(t, s, func(tx *sqlite.Tx) error { return execute(tx, "CREATE TABLE orders (id TEXT)") })
	return s, path
}

func inTx(t *testing.T, s *sqlite.Store, f func(*sqlite.Tx) error) {
	t.Helper()
	if err := s.InTx(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func execute(tx *sqlite.Tx, query string, args ...any) error {
	return sqlitex.Execute(tx.Conn(), query, &sqlitex.ExecOptions{Args: args})
}

// wantRows checks which orders are committed.
func wantRows(t *testing.T, path string, want ...string) {
	t.Helper()
	conn, err := zs.OpenConn(path, zs.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got []string
	err = sqlitex.ExecuteTransient(conn, "SELECT id FROM orders ORDER BY id", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *zs.Stmt) error { got = append(got, stmt.ColumnText(0)); return nil },
	})
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("orders %q, %v, want %q", got, err, want)
	}
}

// wantAbsent checks that nothing is recorded of keys.
func wantAbsent(t *testing.T, s *sqlite.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if op, err := s.Get(t.Context(), justonce.Ref{Key: key}); !errors.Is(err, justonce.ErrNotFound) {
			t.Errorf("Get(%s): %+v, %v, want ErrNotFound", key, op, err)
		}
	}
}

// pendingOp returns an operation to be enqueued.
func pendingOp(key string) *justonce.Operation {
	op := benchOp(key, time.Time{})
	op.Status = justonce.Status{State: justonce.Pending}
	return op
}

func take(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
	op.State, op.LeaseUntil = justonce.Running, now.Add(time.Minute)
	op.Due = op.LeaseUntil
	op.Fence++
	return []justonce.Entry{{Kind: justonce.EntryClaimed, At: now, State: op.State, Fence: op.Fence}}, true
}

var errBoom = errors.New("boom")

func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	enqueue := func(fail error) error {
		return s.InTx(t.Context(), func(tx *sqlite.Tx) error {
			if err := execute(tx, "INSERT INTO orders VALUES ('o-1')"); err != nil {
				return err
			}
			a, err := s.EnqueueTx(t.Context(), tx, pendingOp("k"))
			if err != nil || !a.Fresh {
				t.Errorf("EnqueueTx: %+v, %v", a, err)
			}
			wantAbsent(t, s, "k") // it is not committed
			return fail
		})
	}
	if err := enqueue(errBoom); err != errBoom {
		t.Errorf("InTx: %v, want the function's error", err)
	}
	wantAbsent(t, s, "k")
	wantRows(t, path)
	if err := enqueue(nil); err != nil {
		t.Fatal(err)
	}
	wantRows(t, path, "o-1")
	ops, err := s.Claim(t.Context(), justonce.Due{Limit: 5}, take)
	if err != nil || len(ops) != 1 || string(ops[0].Arguments) != string(benchArgs) {
		t.Errorf("Claim: %+v, %v, want the operation", ops, err)
	}
	inTx(t, s, func(tx *sqlite.Tx) error {
		if a, err := s.EnqueueTx(t.Context(), tx, pendingOp("k")); err != nil || a.Fresh || a.Operation.State != justonce.Running {
			t.Errorf("EnqueueTx again: %+v, %v, want the running operation", a, err)
		}
		other := pendingOp("k")
		other.Fingerprint, other.Arguments = "another", otherArgs
		_, err := s.EnqueueTx(t.Context(), tx, other)
		wantPaths(t, "EnqueueTx", err)
		if !errors.Is(err, justonce.ErrConflict) || errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("EnqueueTx with other arguments: %v, want ErrConflict", err)
		}
		if _, err := s.EnqueueTx(t.Context(), tx, benchOp("k2", s.Now())); !errors.Is(err, justonce.ErrInvalid) {
			t.Errorf("EnqueueTx of a running operation: %v, want ErrInvalid", err)
		}
		return nil
	})
	wantIntact(t, s, 1)
	wantIntegrity(t, path)
}

// doTx runs DoTx with an effect that inserts an order.
func doTx(s *sqlite.Store, tx *sqlite.Tx, key string, fail error) (*justonce.Arrival, error) {
	return s.DoTx(context.Background(), tx, benchOp(key, s.Now()), func(_ context.Context, tx *sqlite.Tx) (json.RawMessage, error) {
		if err := execute(tx, "INSERT INTO orders VALUES (?)", key); err != nil {
			return nil, err
		}
		return benchResult, fail
	})
}

// The store takes what it wrote itself, one way or the other, for no other
// process's.
func TestTxIsNoStranger(t *testing.T) {
	t.Parallel()
	s, _ := openShop(t)
	s.Ready()
	for i := range 3 {
		begin(t, s, fmt.Sprint("begun", i))
		inTx(t, s, func(tx *sqlite.Tx) error { _, err := doTx(s, tx, fmt.Sprint("done", i), nil); return err })
	}
	if !s.MayHave(justonce.Ref{Key: "begun0"}) || !s.MayHave(justonce.Ref{Key: "done0"}) || s.MayHave(justonce.Ref{Key: "k"}) {
		t.Error("MayHave no longer knows what is there")
	}
	if s.Yields() {
		t.Error("it makes way for itself")
	}
}

// What another process writes is noticed, however close to the store's own.
func TestTxNoticesStrangers(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]func(*sqlite.Store, string){
		"a transaction": func(s *sqlite.Store, key string) {
			inTx(t, s, func(tx *sqlite.Tx) error { _, err := doTx(s, tx, key, nil); return err })
		},
		"an operation": func(s *sqlite.Store, key string) { begin(t, s, key) },
	} {
		s, path := openShop(t)
		stranger := open(t, path, nil)
		begin(t, s, "k")
		inTx(t, s, func(tx *sqlite.Tx) error { return nil })
		if s.KnowsOthers() || s.Yields() {
			t.Errorf("before %s: it knows of others that are not there", name)
		}
		begin(t, stranger, "theirs")
		own(s, "own")
		begin(t, s, "k2")
		inTx(t, s, func(tx *sqlite.Tx) error { return nil })
		if !s.KnowsOthers() || !s.Yields() {
			t.Errorf("before %s: it knows of others: %v, makes way: %v, want both", name, s.KnowsOthers(), s.Yields())
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

func TestDoTx(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	inTx(t, s, func(tx *sqlite.Tx) error {
		if _, err := doTx(s, tx, "k", errBoom); err != errBoom {
			t.Errorf("DoTx whose effect fails: %v, want its error", err)
		}
		if a, err := doTx(s, tx, "k", nil); err != nil || !a.Fresh {
			t.Errorf("DoTx: %+v, %v", a, err)
		}
		if a, err := doTx(s, tx, "k", nil); err != nil || a.Fresh || string(a.Operation.Result) != string(benchResult) {
			t.Errorf("DoTx again in one transaction: %+v, %v, want the result", a, err)
		}
		return nil
	})
	op, err := s.Get(t.Context(), justonce.Ref{Key: "k"})
	if err != nil || op.State != justonce.Succeeded || string(op.Result) != string(benchResult) {
		t.Errorf("after the commit: %+v, %v", op, err)
	}
	history, err := s.History(t.Context(), op.Ref)
	if err != nil || len(history) != 2 || string(history[0].Body) != string(benchArgs) || string(history[1].Body) != string(benchResult) {
		t.Errorf("History: %+v, %v", history, err)
	}
	// What is rolled back has not happened.
	err = s.InTx(t.Context(), func(tx *sqlite.Tx) error {
		if _, err := doTx(s, tx, "k2", nil); err != nil {
			t.Error(err)
		}
		changed := benchOp("k", s.Now())
		changed.Fingerprint, changed.Arguments = "another", otherArgs
		_, err := s.DoTx(t.Context(), tx, changed, func(context.Context, *sqlite.Tx) (json.RawMessage, error) {
			t.Error("the effect runs in spite of the conflict")
			return nil, nil
		})
		return err
	})
	wantPaths(t, "DoTx", err)
	wantAbsent(t, s, "k2")
	wantRows(t, path, "k")
	wantIntact(t, s, 1)
	wantIntegrity(t, path)
}

// An effect may record what follows from it, and be undone with it.
func TestDoTxNests(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	inTx(t, s, func(tx *sqlite.Tx) error {
		for _, fail := range []error{errBoom, nil} {
			key := fmt.Sprint("k", fail == nil)
			_, err := s.DoTx(t.Context(), tx, benchOp(key, s.Now()), func(ctx context.Context, tx *sqlite.Tx) (json.RawMessage, error) {
				if _, err := s.EnqueueTx(ctx, tx, pendingOp(key+"-mail")); err != nil {
					t.Error(err)
				}
				_, err := doTx(s, tx, key+"-order", nil)
				return nil, errors.Join(err, fail)
			})
			if !errors.Is(err, fail) {
				t.Errorf("DoTx: %v, want %v", err, fail)
			}
		}
		// So may a savepoint of the application.
		undo := sqlitex.Save(tx.Conn())
		_, err := s.EnqueueTx(t.Context(), tx, pendingOp("undone"))
		undone := errBoom
		undo(&undone)
		if err != nil {
			return err
		}
		_, err = s.EnqueueTx(t.Context(), tx, pendingOp("last"))
		return err
	})
	wantAbsent(t, s, "kfalse", "kfalse-mail", "kfalse-order", "undone")
	for _, key := range []string{"ktrue", "ktrue-mail", "ktrue-order", "last"} {
		if _, err := s.Get(t.Context(), justonce.Ref{Key: key}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	wantRows(t, path, "ktrue-order")
	wantIntact(t, s, 4)
	wantIntegrity(t, path)
}

// A function that panics, or ends its goroutine, leaves nothing behind.
func TestTxPanics(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	for _, end := range []func(){func() { panic(errBoom) }, runtime.Goexit} {
		for name, f := range map[string]func(tx *sqlite.Tx) error{
			"the function": func(tx *sqlite.Tx) error {
				if _, err := doTx(s, tx, "k", nil); err != nil {
					t.Error(err)
				}
				end()
				return nil
			},
			"an effect": func(tx *sqlite.Tx) error {
				_, err := s.DoTx(t.Context(), tx, benchOp("k", s.Now()), func(context.Context, *sqlite.Tx) (json.RawMessage, error) {
					if err := execute(tx, "INSERT INTO orders VALUES ('o')"); err != nil {
						t.Error(err)
					}
					end()
					return nil, nil
				})
				return err
			},
		} {
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				err := s.InTx(context.Background(), f)
				t.Errorf("InTx returns although %s did not: %v", name, err)
			}()
			if got := <-ended; got != nil && got != errBoom {
				t.Errorf("%s: the panic that arrives is %v", name, got)
			}
			wantAbsent(t, s, "k")
			wantRows(t, path)
		}
	}
	// A panic that the application catches undoes what the effect did.
	inTx(t, s, func(tx *sqlite.Tx) error {
		func() {
			defer func() { recover() }()
			s.DoTx(t.Context(), tx, benchOp("k", s.Now()), func(context.Context, *sqlite.Tx) (json.RawMessage, error) {
				execute(tx, "INSERT INTO orders VALUES ('o')")
				panic(errBoom)
			})
		}()
		_, err := doTx(s, tx, "k2", nil)
		return err
	})
	wantAbsent(t, s, "k")
	wantRows(t, path, "k2")
	begin(t, s, "k")
	wantIntact(t, s, 2)
	wantIntegrity(t, path)
}

func TestTxForeignKeys(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	inTx(t, s, func(tx *sqlite.Tx) error {
		return sqlitex.ExecuteScript(tx.Conn(), "CREATE TABLE orders (id TEXT PRIMARY KEY); CREATE TABLE item (of TEXT REFERENCES orders);", nil)
	})
	err := s.InTx(t.Context(), func(tx *sqlite.Tx) error { return execute(tx, "INSERT INTO item VALUES ('nowhere')") })
	if zs.ErrCode(err) != zs.ResultConstraintForeignKey {
		t.Errorf("an item of no order: %v, want SQLITE_CONSTRAINT_FOREIGNKEY", err)
	}
}

// The end of the context ends what takes long, and the transaction with it.
func TestTxContext(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	entered, leave := make(chan struct{}), make(chan error)
	done := make(chan error)
	go func() {
		done <- s.InTx(context.Background(), func(*sqlite.Tx) error { close(entered); return <-leave })
	}()
	<-entered
	waits := make(chan error)
	go func() { waits <- s.InTx(ctx, func(*sqlite.Tx) error { return errors.New("it ran") }) }()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("InTx that waits: %v, want context.Canceled", err)
	}
	leave <- nil
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	err := s.InTx(ctx, func(tx *sqlite.Tx) error {
		if _, err := doTx(s, tx, "k", nil); err != nil {
			t.Error(err)
		}
		cancel()
		return execute(tx, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
	})
	if zs.ErrCode(err) != zs.ResultInterrupt {
		t.Errorf("InTx whose context ended: %v, want SQLITE_INTERRUPT", err)
	}
	wantAbsent(t, s, "k")
	wantRows(t, path)
	begin(t, s, "k")
}

func TestTxLockedByAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path, &sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	release := locked(t, path)
	err := s.InTx(t.Context(), func(*sqlite.Tx) error { return errors.New("it ran") })
	if !errors.Is(err, justonce.ErrUnavailable) || !strings.Contains(err.Error(), "another process holds the write lock") {
		t.Errorf("InTx: %v, want ErrUnavailable and the reason", err)
	}
	release()
	begin(t, s, "k")
	inTx(t, s, func(tx *sqlite.Tx) error { _, err := s.EnqueueTx(t.Context(), tx, pendingOp("k2")); return err })
}

// An operation that no longer answers makes room.
func TestDoTxArchives(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	firstCall(t.Context(), t, s, "k", func(op *justonce.Operation) { op.DedupeUntil = s.Now().Add(-time.Minute) })
	inTx(t, s, func(tx *sqlite.Tx) error {
		a, err := doTx(s, tx, "k", nil)
		if err == nil && !a.Fresh {
			err = fmt.Errorf("met %+v", a.Operation)
		}
		return err
	})
	if page, err := s.List(t.Context(), justonce.Filter{}); err != nil || len(page.Operations) != 2 {
		t.Errorf("List: %+v, %v, want both", page, err)
	}
	wantRows(t, path, "k")
	wantIntact(t, s, 2)
}

// Transactions take turns with each other, with the ledger's own writes, and
// with another process: each key has one effect.
func TestDoTxConcurrently(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	other := open(t, path, nil)
	const callers, keys = 8, 12
	var wg sync.WaitGroup
	for c := range callers {
		store := []*sqlite.Store{s, other}[c%2]
		wg.Go(func() {
			for k := range keys {
				err := store.InTx(context.Background(), func(tx *sqlite.Tx) error {
					a, err := doTx(store, tx, fmt.Sprintf("k%02d", k), nil)
					if err == nil && !a.Fresh && string(a.Operation.Result) != string(benchResult) {
						err = fmt.Errorf("the operation met is %+v", a.Operation)
					}
					return err
				})
				if err != nil {
					t.Errorf("InTx: %v", err)
				}
				firstCall(context.Background(), t, store, fmt.Sprint("other-", c, "-", k), nil)
			}
		})
	}
	wg.Wait()
	var want []string
	for k := range keys {
		want = append(want, fmt.Sprintf("k%02d", k))
	}
	wantRows(t, path, want...)
	wantIntact(t, s, keys+callers*keys)
	wantIntegrity(t, path)
}

// Close waits for a transaction under way; later ones are refused.
func TestCloseInTx(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path, nil)
	entered, closing, done := make(chan struct{}), make(chan error), make(chan error)
	go func() {
		done <- s.InTx(context.Background(), func(tx *sqlite.Tx) error {
			close(entered)
			for !s.Closing() {
				runtime.Gosched()
			}
			_, err := s.EnqueueTx(context.Background(), tx, pendingOp("k"))
			return err
		})
	}()
	<-entered
	go func() { closing <- s.Close() }()
	if err := errors.Join(<-done, <-closing); err != nil {
		t.Error(err)
	}
	if err := s.InTx(t.Context(), func(*sqlite.Tx) error { return nil }); !errors.Is(err, justonce.ErrUnavailable) {
		t.Errorf("InTx on a closed store: %v, want ErrUnavailable", err)
	}
	if _, err := open(t, path, nil).Get(t.Context(), justonce.Ref{Key: "k"}); err != nil {
		t.Errorf("what was committed before Close: %v", err)
	}
}
