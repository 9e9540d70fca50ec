package bench

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const pragmas = `PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=1000;`

// Two schemas for the same calls: the key as clustered primary key, and an
// integer id given by the writer with a unique index on the key.
var schemas = map[string]schema{
	"text-key": {
		create: `CREATE TABLE op (key TEXT PRIMARY KEY, id INTEGER, state INTEGER, args BLOB, result BLOB) WITHOUT ROWID`,
		update: `UPDATE op SET state = 2, result = ?2 WHERE key = ?3 AND ?1 = ?1`,
	},
	"integer-id": {
		create: `CREATE TABLE op (id INTEGER PRIMARY KEY, key TEXT UNIQUE, state INTEGER, args BLOB, result BLOB)`,
		update: `UPDATE op SET state = 2, result = ?2 WHERE id = ?1 AND ?3 = ?3`,
	},
}

type schema struct{ create, update string }

const insert = `INSERT INTO op (id, key, state, args) VALUES (?1, ?2, 1, ?3)`

// A write is one of the two commits of a first call.
type write struct {
	id     int64
	key    string
	body   []byte
	finish bool
	done   chan error
}

// A driver commits batches of writes.
type driver interface {
	commit(batch []*write) error
	close() error
}

// stdDriver goes through database/sql.
type stdDriver struct {
	db                         *sql.DB
	conn                       *sql.Conn
	begin, end, insert, update *sql.Stmt
}

func openStd(b *testing.B, name, dsn string, s schema) driver {
	db, err := sql.Open(name, dsn)
	check(b, err)
	ctx := context.Background()
	conn, err := db.Conn(ctx)
	check(b, err)
	_, err = conn.ExecContext(ctx, pragmas+s.create)
	check(b, err)
	prepare := func(q string) *sql.Stmt {
		stmt, err := conn.PrepareContext(ctx, q)
		check(b, err)
		return stmt
	}
	return &stdDriver{db, conn, prepare("BEGIN IMMEDIATE"), prepare("COMMIT"), prepare(insert), prepare(s.update)}
}

func (d *stdDriver) commit(batch []*write) error {
	if _, err := d.begin.Exec(); err != nil {
		return err
	}
	for _, w := range batch {
		var err error
		if w.finish {
			_, err = d.update.Exec(w.id, w.body, w.key)
		} else {
			_, err = d.insert.Exec(w.id, w.key, w.body)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.end.Exec()
	return err
}

func (d *stdDriver) close() error { d.conn.Close(); return d.db.Close() }

// nativeDriver uses zombiezen's own API.
type nativeDriver struct {
	conn                       *sqlite.Conn
	begin, end, insert, update *sqlite.Stmt
}

func openNative(b *testing.B, path string, s schema) driver {
	conn, err := sqlite.OpenConn(path)
	check(b, err)
	check(b, sqlitex.ExecuteScript(conn, s.create+";", nil))
	for _, p := range []string{"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=1000"} {
		check(b, sqlitex.ExecuteTransient(conn, p, nil))
	}
	prepare := func(q string) *sqlite.Stmt {
		stmt, _, err := conn.PrepareTransient(q)
		check(b, err)
		return stmt
	}
	return &nativeDriver{conn, prepare("BEGIN IMMEDIATE"), prepare("COMMIT"), prepare(insert), prepare(s.update)}
}

func step(s *sqlite.Stmt) error {
	if _, err := s.Step(); err != nil {
		return err
	}
	return s.Reset()
}

func (d *nativeDriver) commit(batch []*write) error {
	if err := step(d.begin); err != nil {
		return err
	}
	for _, w := range batch {
		stmt := d.insert
		if w.finish {
			stmt = d.update
			stmt.BindInt64(1, w.id)
			stmt.BindBytes(2, w.body)
			stmt.BindText(3, w.key)
		} else {
			stmt.BindInt64(1, w.id)
			stmt.BindText(2, w.key)
			stmt.BindBytes(3, w.body)
		}
		if err := step(stmt); err != nil {
			return err
		}
	}
	return step(d.end)
}

func (d *nativeDriver) close() error {
	for _, s := range []*sqlite.Stmt{d.begin, d.end, d.insert, d.update} {
		s.Finalize()
	}
	return d.conn.Close()
}

// BenchmarkDriver measures first calls (two durable commits around nothing)
// with one writer that commits for all who wait.
func BenchmarkDriver(b *testing.B) {
	for _, name := range []string{"text-key", "integer-id"} {
		s := schemas[name]
		for _, d := range []struct {
			name string
			open func(b *testing.B, path string) driver
		}{
			{"zombiezen", func(b *testing.B, path string) driver { return openNative(b, path, s) }},
			{"modernc", func(b *testing.B, path string) driver { return openStd(b, "sqlite", path, s) }},
			{"mattn", func(b *testing.B, path string) driver { return openStd(b, "sqlite3", path, s) }},
		} {
			for _, c := range []int{1, 16, 128, 1024} {
				b.Run(fmt.Sprintf("%s/%s/c=%d", name, d.name, c), func(b *testing.B) {
					firstCalls(b, d.open(b, filepath.Join(b.TempDir(), "l.db")), c)
				})
			}
		}
	}
}

func firstCalls(b *testing.B, d driver, c int) {
	queue := make(chan *write, 4096)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for w := range queue {
			batch := []*write{w}
			for len(batch) < 4096 && len(queue) > 0 {
				batch = append(batch, <-queue)
			}
			err := d.commit(batch)
			for _, w := range batch {
				w.done <- err
			}
		}
	}()
	args, result := []byte(`{"order_id":"ord-0001234","amount":9900,"currency":"EUR"}`), []byte(`{"id":"ch_3PqLkT2eZvKYlo2C1x","status":"succeeded"}`)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range c {
		wg.Go(func() {
			w := &write{done: make(chan error, 1)}
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				sum := sha256.Sum256([]byte(strconv.FormatInt(n, 10)))
				w.id, w.key = n, hex.EncodeToString(sum[:16])
				for _, finish := range []bool{false, true} {
					w.body, w.finish = args, finish
					if finish {
						w.body = result
					}
					queue <- w
					if err := <-w.done; err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	close(queue)
	<-stopped
	check(b, d.close())
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
