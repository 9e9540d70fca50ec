package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A floor is the least that a ledger on the same driver can do: one table,
// an INSERT and an UPDATE by id for each call, group commit by one goroutine.
// It has the durable content of a first call (key, tool, state, times,
// arguments, result and one outcome) and the same settings for durability.
// It keeps no history, no due or creation index, no versions, identities or
// references, knows one tenant and one process, and cannot list or claim.
type floor struct {
	conn           *zs.Conn
	insert, update *zs.Stmt
	begin, commit  *zs.Stmt
	last           int64

	mu    sync.Mutex
	queue []*floorCall
	stop  bool
	wake  chan struct{}
	done  chan struct{}

	readers chan *floorReader
}

type floorCall struct {
	insert  bool
	id      int64
	key     string
	body    []byte
	outcome []byte
	at      int64
	done    chan struct{}
}

type floorReader struct {
	conn *zs.Conn
	get  *zs.Stmt
}

func floorConn(tb testing.TB, path string) *zs.Conn {
	conn, err := zs.OpenConn(path, zs.OpenReadWrite, zs.OpenCreate, zs.OpenWAL)
	if err != nil {
		tb.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = FULL", nil); err != nil {
		tb.Fatal(err)
	}
	return conn
}

// openFloor opens one with SQLite's default checkpoints, every 1000 pages, or
// with larger ones.
func openFloor(tb testing.TB, checkpoint string, readConns int) *floor {
	path := filepath.Join(tb.TempDir(), "floor.db")
	f := &floor{conn: floorConn(tb, path), wake: make(chan struct{}, 1), done: make(chan struct{}), readers: make(chan *floorReader, readConns)}
	for _, q := range []string{
		"PRAGMA cache_size = -8192",
		"PRAGMA wal_autocheckpoint = " + checkpoint,
		`CREATE TABLE op (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, tool TEXT NOT NULL, state INTEGER NOT NULL,
			created INTEGER NOT NULL, updated INTEGER NOT NULL, arguments BLOB, result BLOB, outcome BLOB)`,
	} {
		if err := sqlitex.ExecuteTransient(f.conn, q, nil); err != nil {
			tb.Fatal(err)
		}
	}
	f.insert = f.conn.Prep("INSERT INTO op (id, key, tool, state, created, updated, arguments) VALUES (?1, ?2, ?3, 2, ?4, ?4, ?5)")
	f.update = f.conn.Prep("UPDATE op SET state = 6, updated = ?2, result = ?3, outcome = ?4 WHERE id = ?1")
	f.begin, f.commit = f.conn.Prep("BEGIN IMMEDIATE"), f.conn.Prep("COMMIT")
	for range readConns {
		conn := floorConn(tb, path)
		f.readers <- &floorReader{conn, conn.Prep("SELECT id, key, tool, state, created, updated, result FROM op WHERE key = ?1")}
	}
	go f.run()
	tb.Cleanup(func() {
		f.mu.Lock()
		f.stop = true
		f.mu.Unlock()
		f.signal()
		<-f.done
		f.conn.Close()
		for range readConns {
			(<-f.readers).conn.Close()
		}
	})
	return f
}

func (f *floor) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *floor) do(c *floorCall) {
	f.mu.Lock()
	f.queue = append(f.queue, c)
	f.mu.Unlock()
	f.signal()
	<-c.done
}

func (f *floor) run() {
	defer close(f.done)
	var batch []*floorCall
	for {
		f.mu.Lock()
		batch, f.queue = f.queue, batch[:0]
		stop := f.stop
		f.mu.Unlock()
		if len(batch) == 0 {
			if stop {
				return
			}
			<-f.wake
			continue
		}
		mustStep(f.begin)
		for _, c := range batch {
			if c.insert {
				f.last++
				c.id = f.last
				f.insert.BindInt64(1, c.id)
				f.insert.BindText(2, c.key)
				f.insert.BindText(3, "charge")
				f.insert.BindInt64(4, c.at)
				f.insert.BindBytes(5, c.body)
				mustStep(f.insert)
				continue
			}
			f.update.BindInt64(1, c.id)
			f.update.BindInt64(2, c.at)
			f.update.BindBytes(3, c.body)
			f.update.BindBytes(4, c.outcome)
			mustStep(f.update)
		}
		mustStep(f.commit)
		for _, c := range batch {
			c.done <- struct{}{}
		}
	}
}

func mustStep(stmt *zs.Stmt) {
	if _, err := stmt.Step(); err != nil {
		panic(err)
	}
	if err := stmt.Reset(); err != nil {
		panic(err)
	}
}

// call makes one first call: two commits.
func (f *floor) call(c *floorCall, key string, args, result, outcome []byte) {
	c.insert, c.key, c.body, c.at = true, key, args, time.Now().UnixNano()
	f.do(c)
	c.insert, c.body, c.outcome, c.at = false, result, outcome, time.Now().UnixNano()
	f.do(c)
}

// get reads one row with its result.
func (f *floor) get(key string) (result []byte) {
	r := <-f.readers
	r.get.BindText(1, key)
	if ok, err := r.get.Step(); err != nil || !ok {
		panic("not found")
	}
	_ = r.get.ColumnInt64(0)
	_ = r.get.ColumnText(1)
	_ = r.get.ColumnText(2)
	_ = r.get.ColumnInt64(3)
	_ = r.get.ColumnInt64(4)
	_ = r.get.ColumnInt64(5)
	result = make([]byte, r.get.ColumnLen(6))
	r.get.ColumnBytes(6, result)
	if err := r.get.Reset(); err != nil {
		panic(err)
	}
	f.readers <- r
	return result
}
