package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// What is the ledger's, or could stand in for it, is out of the application's
// reach.
func TestTxGuards(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	firstCall(t.Context(), t, s, "k", nil)
	inTx(t, s, func(tx *sqlite.Tx) error {
		return execute(tx, "CREATE TABLE line (id INTEGER PRIMARY KEY AUTOINCREMENT, of TEXT)")
	})
	for _, query := range []string{
		"DELETE FROM entry", "UPDATE op SET state = 2", "INSERT INTO slot VALUES (1, 1)", "DROP TABLE tally", "DROP INDEX op_live",
		"CREATE TABLE IF NOT EXISTS entry (id TEXT)", "ALTER TABLE op ADD COLUMN mine", "CREATE INDEX mine ON entry (op)",
		"CREATE TRIGGER mine AFTER INSERT ON entry BEGIN DELETE FROM orders; END",
		"UPDATE Main.OP SET state = 2", "REINDEX op_live", "REINDEX", "ANALYZE", "ANALYZE orders",
		"UPDATE sqlite_dbpage SET data = zeroblob(4096) WHERE pgno = 1", "CREATE VIRTUAL TABLE mine USING fts5(words)",
		"CREATE TEMP TABLE entry (id)", "CREATE TEMP TABLE mine (id)", "CREATE TEMP VIEW op AS SELECT 1 AS id",
		"CREATE TEMP TRIGGER mine AFTER INSERT ON orders BEGIN SELECT 1; END",
		"PRAGMA user_version = 9", "PRAGMA user_version = ''", "PRAGMA application_id = 1", "PRAGMA main.application_id(7)",
		"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA locking_mode = ''", "PRAGMA synchronous = OFF", "PRAGMA journal_mode = DELETE",
		"PRAGMA query_only = 1", "PRAGMA max_page_count = 10", "PRAGMA hard_heap_limit = 100000000", "PRAGMA busy_timeout = 3000",
		"PRAGMA mmap_size = 1000000", "PRAGMA wal_checkpoint", "PRAGMA optimize", "PRAGMA user_version",
		"COMMIT", "END", "ROLLBACK", "BEGIN", "COMMIT TRANSACTION", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE TRANSACTION",
		"ROLLBACK TRANSACTION", "ROLLBACK TRANSACTION TO justonce",
		"SAVEPOINT justonce", "ROLLBACK TO justonce", "RELEASE JustOnce",
		"ATTACH ':memory:' AS other", "DETACH main",
		// The texts of the ledger's own statements are no way round.
		"INSERT INTO slot (hash, op) VALUES (?1, ?2) ON CONFLICT DO NOTHING", "UPDATE tally SET n = n + ?1 WHERE state = 7",
	} {
		err := s.InTx(t.Context(), func(tx *sqlite.Tx) error {
			_, err := s.EnqueueTx(t.Context(), tx, pendingOp("undone"))
			return errors.Join(err, execute(tx, query))
		})
		if zs.ErrCode(err) != zs.ResultAuth {
			t.Errorf("%s: %v, want SQLITE_AUTH", query, err)
		}
		wantAbsent(t, s, "undone")
	}
	// A trigger of the application is no way round either.
	err := s.InTx(t.Context(), func(tx *sqlite.Tx) error {
		if err := execute(tx, "CREATE TRIGGER mine AFTER INSERT ON orders BEGIN DELETE FROM entry; END"); err != nil {
			return err
		}
		return execute(tx, "INSERT INTO orders VALUES ('o')")
	})
	if zs.ErrCode(err) != zs.ResultAuth {
		t.Errorf("a trigger: %v, want SQLITE_AUTH", err)
	}
	wantIntact(t, s, 1)
	wantIntegrity(t, path)
}

// What is the application's is in its reach, and the ledger's own statements go
// on, prepared anew.
func TestTxAllows(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	execFile(t, path, "CREATE VIRTUAL TABLE words USING fts5(word)", "CREATE TABLE counted (of TEXT)",
		"CREATE INDEX counted_of ON counted (of)", "INSERT INTO counted VALUES ('x')", "ANALYZE")
	inTx(t, s, func(tx *sqlite.Tx) error {
		for _, query := range []string{
			"SELECT count(*) FROM op JOIN entry ON entry.op = op.id", "SELECT * FROM sqlite_schema", "SELECT * FROM json_each('[1]')",
			"CREATE TABLE line (id INTEGER PRIMARY KEY AUTOINCREMENT, of TEXT UNIQUE)", "CREATE INDEX line_of ON line (lower(of)) WHERE of > ''",
			"INSERT INTO line (of) VALUES ('o') ON CONFLICT (of) DO UPDATE SET of = excluded.of RETURNING id",
			"CREATE VIEW lines AS SELECT * FROM line",
			"CREATE TRIGGER lines_insert INSTEAD OF INSERT ON lines BEGIN INSERT INTO line (of) VALUES (new.of); END",
			"INSERT INTO lines (of) VALUES ('p')", "DROP TRIGGER lines_insert", "DROP VIEW lines",
			"ALTER TABLE line ADD COLUMN price", "ALTER TABLE line RENAME COLUMN price TO amount", "ALTER TABLE line DROP COLUMN amount",
			"ALTER TABLE line RENAME TO item", "REINDEX line_of", "DROP INDEX line_of", "REPLACE INTO item (id, of) VALUES (1, 'q')", "DELETE FROM item", "DROP TABLE item",
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n",
			"INSERT INTO words VALUES ('hello')", "SELECT * FROM words('hello')", "DROP TABLE counted",
			"PRAGMA table_info(orders)", "SELECT * FROM pragma_index_list('orders')", "PRAGMA foreign_key_check", "PRAGMA defer_foreign_keys = ON",
			"SAVEPOINT mine", "ROLLBACK TO mine", "RELEASE mine",
		} {
			if err := execute(tx, query); err != nil {
				t.Errorf("%s: %v", query, err)
			}
		}
		// A new function makes SQLite prepare everything anew.
		if err := tx.Conn().CreateFunction("mine", &zs.FunctionImpl{
			Scalar: func(zs.Context, []zs.Value) (zs.Value, error) { return zs.TextValue("o"), nil },
		}); err != nil {
			t.Error(err)
		}
		if _, err := doTx(s, tx, "k", nil); err != nil {
			t.Error(err)
		}
		_, err := doTx(s, tx, "k2", errBoom)
		if err != errBoom {
			t.Errorf("DoTx whose effect fails: %v, want its error", err)
		}
		return execute(tx, "INSERT INTO orders VALUES (mine())")
	})
	wantRows(t, path, "k", "o")
	wantAbsent(t, s, "k2")
	wantIntact(t, s, 1)
	wantIntegrity(t, path)
}

// An application that undoes the savepoint around a call, by one of its own,
// cannot commit half of the call.
func TestDoTxLosesSavepoint(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"ROLLBACK TO mine", "RELEASE mine"} {
		s, path := openShop(t)
		err := s.InTx(t.Context(), func(tx *sqlite.Tx) error {
			s.DoTx(t.Context(), tx, benchOp("outer", s.Now()), func(ctx context.Context, tx *sqlite.Tx) (json.RawMessage, error) {
				err := execute(tx, "SAVEPOINT mine")
				s.DoTx(ctx, tx, benchOp("inner", s.Now()), func(_ context.Context, tx *sqlite.Tx) (json.RawMessage, error) {
					return benchResult, errors.Join(execute(tx, "INSERT INTO orders VALUES ('o')"), execute(tx, query))
				})
				return benchResult, err
			})
			return nil
		})
		if !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("%s: InTx: %v, want ErrUnavailable", query, err)
		}
		wantAbsent(t, s, "outer", "inner")
		wantRows(t, path)
		wantIntact(t, s, 0)
	}
}

// Where SQLite rolls the transaction back nothing more is written outside it, not
// even by statements that were prepared before.
func TestTxLost(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	inTx(t, s, func(tx *sqlite.Tx) error {
		return sqlitex.ExecuteScript(tx.Conn(), `CREATE TABLE once (id TEXT UNIQUE); CREATE TABLE blob (data BLOB);
			CREATE TRIGGER orders_refused BEFORE INSERT ON orders WHEN new.id = 'refused' BEGIN SELECT RAISE(ROLLBACK, 'refused'); END;
			INSERT INTO once VALUES ('o')`, nil)
	})
	const insert = "INSERT INTO orders VALUES ('late')"
	for name, lose := range map[string]func(*sqlite.Tx) error{
		"a conflict": func(tx *sqlite.Tx) error { return execute(tx, "INSERT OR ROLLBACK INTO once VALUES ('o')") },
		"a trigger":  func(tx *sqlite.Tx) error { return execute(tx, "INSERT INTO orders VALUES ('refused')") },
		"a full disk": func(tx *sqlite.Tx) error {
			return errors.Join(tx.FillDisk(), execute(tx, "INSERT INTO blob VALUES (zeroblob(1000000))"))
		},
		"a full disk for the ledger": func(tx *sqlite.Tx) error {
			op := pendingOp("large")
			op.Arguments = json.RawMessage(`"` + string(make([]byte, 1<<20)) + `"`)
			err := tx.FillDisk()
			if err == nil {
				_, err = s.EnqueueTx(t.Context(), tx, op)
			}
			return err
		},
	} {
		err := s.InTx(t.Context(), func(tx *sqlite.Tx) error {
			conn := tx.Conn()
			prepared, _, err := conn.PrepareTransient(insert)
			if err != nil {
				return err
			}
			defer prepared.Finalize()
			if err := errors.Join(execute(tx, insert), execute(tx, "SAVEPOINT mine"), execute(tx, "RELEASE mine")); err != nil {
				return err
			}
			if _, err := s.EnqueueTx(t.Context(), tx, pendingOp("k")); err != nil {
				t.Error(err)
			}
			if err := lose(tx); err == nil {
				t.Errorf("%s is no failure", name)
			}
			if tx.Conn() != nil {
				t.Errorf("%s: the connection is lent on", name)
			}
			if _, err := prepared.Step(); zs.ErrCode(err) != zs.ResultAuth {
				t.Errorf("%s: a prepared statement: %v, want SQLITE_AUTH", name, err)
			}
			for _, query := range []string{insert, "SAVEPOINT mine", "PRAGMA synchronous = OFF", "INSERT INTO once VALUES ('p')", "SELECT 1"} {
				if err := sqlitex.Execute(conn, query, nil); zs.ErrCode(err) != zs.ResultAuth {
					t.Errorf("%s: %s: %v, want SQLITE_AUTH", name, query, err)
				}
			}
			if _, err := s.EnqueueTx(t.Context(), tx, pendingOp("k2")); !errors.Is(err, justonce.ErrUnavailable) {
				t.Errorf("%s: EnqueueTx: %v, want ErrUnavailable", name, err)
			}
			return nil
		})
		if !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("%s: InTx: %v, want ErrUnavailable", name, err)
		}
		wantRows(t, path)
		wantAbsent(t, s, "k", "k2", "large")
	}
	// The next one has the room and the settings of a new connection.
	inTx(t, s, func(tx *sqlite.Tx) error {
		return execute(tx, "INSERT INTO blob VALUES (zeroblob(1000000))")
	})
	begin(t, s, "k")
	wantIntact(t, s, 1)
	wantIntegrity(t, path)
}

// Neither is anything written by the calls under way then.
func TestTxLostInCalls(t *testing.T) {
	t.Parallel()
	s, path := openShop(t)
	inTx(t, s, func(tx *sqlite.Tx) error { return execute(tx, "CREATE UNIQUE INDEX orders_id ON orders (id)") })
	inTx(t, s, func(tx *sqlite.Tx) error { return execute(tx, "INSERT INTO orders VALUES ('o')") })
	lose := func(tx *sqlite.Tx) { execute(tx, "INSERT OR ROLLBACK INTO orders VALUES ('o')") }
	for name, f := range map[string]func(tx *sqlite.Tx) error{
		"before the end": func(tx *sqlite.Tx) error {
			_, err := doTx(s, tx, "k", nil)
			lose(tx)
			return err
		},
		"before an operation": func(tx *sqlite.Tx) error {
			lose(tx)
			if _, err := doTx(s, tx, "k", nil); !errors.Is(err, justonce.ErrUnavailable) {
				t.Errorf("DoTx: %v, want ErrUnavailable", err)
			}
			return nil
		},
		"in an effect": func(tx *sqlite.Tx) error {
			_, err := s.DoTx(t.Context(), tx, benchOp("k", s.Now()), func(context.Context, *sqlite.Tx) (json.RawMessage, error) {
				lose(tx)
				return benchResult, nil
			})
			if !errors.Is(err, justonce.ErrUnavailable) {
				t.Errorf("DoTx: %v, want ErrUnavailable", err)
			}
			return nil
		},
	} {
		if err := s.InTx(t.Context(), f); !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("%s: InTx: %v, want ErrUnavailable", name, err)
		}
		wantAbsent(t, s, "k")
	}
	wantRows(t, path, "o")
	var ended *sqlite.Tx
	inTx(t, s, func(tx *sqlite.Tx) error { ended = tx; return nil })
	if _, err := s.EnqueueTx(t.Context(), ended, pendingOp("k")); !errors.Is(err, justonce.ErrUnavailable) {
		t.Errorf("EnqueueTx after the end: %v, want ErrUnavailable", err)
	}
	begin(t, s, "k")
	wantIntact(t, s, 1)
	wantIntegrity(t, path)
}

// A statement that the application left under way keeps the next transaction
// waiting for nothing.
func TestTxLeftStatement(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path, &sqlite.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	inTx(t, s, func(tx *sqlite.Tx) error {
		return sqlitex.ExecuteScript(tx.Conn(), "CREATE TABLE orders (id TEXT); INSERT INTO orders VALUES ('a'), ('b')", nil)
	})
	inTx(t, s, func(tx *sqlite.Tx) error {
		left, _, err := tx.Conn().PrepareTransient("SELECT id FROM orders")
		if err == nil {
			_, err = left.Step()
		}
		return err
	})
	begin(t, s, "k")
	inTx(t, s, func(tx *sqlite.Tx) error {
		a, err := s.EnqueueTx(t.Context(), tx, pendingOp("k"))
		if err == nil && a.Fresh {
			t.Error("the transaction does not see what was committed before")
		}
		return err
	})
	if !strings.Contains(said.String(), "not finalized") {
		t.Errorf("the operator reads %q, want the reason", said.String())
	}
	wantIntact(t, s, 1)
}
