package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A writer writes to the ledger on a connection of its own, one transaction at a
// time. Whoever uses one has the turn, see [queue].
type writer struct {
	store *Store
	path  string
	busy  time.Duration
	known *known
	guard *guard // of a connection that is lent, else nil

	conn       *sqlite.Conn // nil after a failure that needs a new one
	stmts      statements
	scratch    []byte
	seen       int64 // data_version at which the ids below were read
	lastOp     int64
	lastEntry  int64
	newOps     []*request
	newEntries []newEntry
	failed     int64 // change of the number of failed operations
}

// known is what this process, on any connection, knows to be committed: all
// that is newer is another's. Whoever has the turn uses it.
type known struct {
	lastOp, lastEntry int64                     // -1: nothing yet
	foreign           atomic.Pointer[time.Time] // when another process was last seen to write; anyone reads it
}

// statements of the writer's connection.
type statements struct {
	begin, commit, rollback, dataVersion, lastIDs *sqlite.Stmt
	save, undo, release, arm                      *sqlite.Stmt // of a connection that is lent
	insertOp, insertOps                           *sqlite.Stmt
	insertEntry, insertEntries, updateOp          *sqlite.Stmt
	bySlot, takeSlot, setSlot, leaveSlot          *sqlite.Stmt
	byID, holders, archive                        *sqlite.Stmt
	body, purge, dropEntry, tally                 *sqlite.Stmt
	due                                           dueStatements
}

func (st *statements) prepare(conn *sqlite.Conn) error {
	// A connection takes equal texts for one statement, and would let the
	// application run the ledger's, which the guard has allowed.
	p := preparer{conn: conn, mark: " -- " + rand.Text()}
	st.begin = p.prepare("BEGIN IMMEDIATE")
	st.commit = p.prepare("COMMIT")
	st.rollback = p.prepare("ROLLBACK")
	st.dataVersion = p.prepare("PRAGMA data_version")
	st.lastIDs = p.prepare("SELECT (SELECT max(id) FROM op), (SELECT max(id) FROM entry)")
	st.insertOp = p.prepare(insertMany("op ("+columns+")", columnCount, 1))
	st.insertOps = p.prepare(insertMany("op ("+columns+")", columnCount, many))
	st.insertEntry = p.prepare(insertMany(entryColumns, 5, 1))
	st.insertEntries = p.prepare(insertMany(entryColumns, 5, many))
	st.updateOp = p.prepare(`UPDATE op SET tool = ?1, rev = ?2, state = ?3, due = ?4, lease = ?5, ref = ?6,
		data = ?7, last = ?8, result = ?9 WHERE id = ?10 AND rev = ?11 AND created = ?12`)
	st.bySlot = p.prepare(selectBySlot)
	st.takeSlot = p.prepare("INSERT INTO slot (hash, op) VALUES (?1, ?2) ON CONFLICT DO NOTHING")
	st.setSlot = p.prepare("UPDATE slot SET op = ?2 WHERE hash = ?1")
	st.leaveSlot = p.prepare("DELETE FROM slot WHERE hash = ?1")
	st.byID = p.prepare(selectWithResult + "WHERE op.id = ?1")
	st.holders = p.prepare("SELECT 1 FROM op WHERE ref = ?1 AND tenant = ?2 AND tool = ?3 AND id <> ?4 LIMIT 1")
	st.archive = p.prepare("UPDATE op SET key = ?2, identity = NULL, rev = rev + 1 WHERE id = ?1")
	st.due.prepare(&p)
	st.body = p.prepare("SELECT body FROM entry WHERE id = ?1 AND op = ?2")
	st.purge = p.prepare("UPDATE op SET rev = rev + 1, data = ?2, first = 0, last = 0, result = 0 WHERE id = ?1")
	st.dropEntry = p.prepare("DELETE FROM entry WHERE id = ?1 AND op = ?2 RETURNING prev")
	st.tally = p.prepare("UPDATE tally SET n = n + ?1 WHERE state = 7")
	return p.err
}

func (st *statements) prepareLent(g *guard) error {
	arm, err := g.stretch()
	if err != nil {
		return err
	}
	p := preparer{conn: g.conn, mark: " -- " + rand.Text()}
	st.arm = p.prepare(arm)
	st.save = p.prepare("SAVEPOINT " + savepoint)
	st.undo = p.prepare("ROLLBACK TO " + savepoint)
	st.release = p.prepare("RELEASE " + savepoint)
	return p.err
}

func newWriter(ctx context.Context, s *Store, conn *sqlite.Conn, path string, busy time.Duration) (*writer, error) {
	w := &writer{store: s, path: path, busy: busy, known: &known{lastOp: -1}}
	if err := w.use(conn); err != nil {
		return nil, err
	}
	// That it can be written is better found out now than with the first call.
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	w.prepareLog()
	return w, run(w.stmts.rollback)
}

func (w *writer) use(conn *sqlite.Conn) error {
	w.conn, w.seen = conn, -1
	conn.SetBusyTimeout(0) // begin waits, in its own fair way
	for _, pragma := range []string{
		fmt.Sprintf("wal_autocheckpoint = %d", checkpointPages),
		fmt.Sprintf("journal_size_limit = %d", 4*logSize),
	} {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return err
		}
	}
	if w.guard != nil {
		if err := w.guard.watch(conn); err != nil {
			return err
		}
	}
	if err := w.stmts.prepare(conn); err != nil || w.guard == nil {
		return err
	}
	return w.stmts.prepareLent(w.guard)
}

// begin starts a transaction. Another process may hold the lock.
func (w *writer) begin(ctx context.Context) error {
	return retryBusy(ctx, w.busy, func() error { return run(w.stmts.begin) })
}

// transact runs a batch in the transaction that has begun and commits. What
// is wrong with one request is in its err; an error returned is that of all.
func (w *writer) transact(batch []*request) error {
	if err := w.refresh(); err != nil {
		return err
	}
	for _, r := range batch {
		var err error
		switch r.kind {
		case kindBegin:
			err = w.beginOp(r)
		case kindUpdate:
			err = w.updateOp(r)
		case kindClaim:
			err = w.claim(r)
		case kindPurge:
			err = w.purge(r)
		}
		if err != nil {
			return err
		}
	}
	return w.commit()
}

// commit writes what has been gathered and commits.
func (w *writer) commit() error {
	if err := w.flush(); err != nil {
		return err
	}
	if w.failed != 0 {
		w.stmts.tally.BindInt64(1, w.failed)
		if err := run(w.stmts.tally); err != nil {
			return err
		}
		w.failed = 0
	}
	if err := run(w.stmts.commit); err != nil {
		return err
	}
	w.known.lastOp, w.known.lastEntry = w.lastOp, w.lastEntry
	return nil
}

// refresh reads the highest ids if another connection may have changed them.
func (w *writer) refresh() error {
	version, err := first(w.stmts.dataVersion)
	if err != nil || version == w.seen {
		return err
	}
	if err := w.readIDs(); err != nil {
		return err
	}
	w.seen = version
	k := w.known
	if k.lastOp >= 0 {
		if w.lastOp > k.lastOp {
			w.store.seen.others.Store(true)
		}
		if w.lastOp > k.lastOp || w.lastEntry > k.lastEntry {
			now := time.Now()
			k.foreign.Store(&now)
		}
	}
	k.lastOp, k.lastEntry = w.lastOp, w.lastEntry
	return nil
}

// readIDs reads the highest ids.
func (w *writer) readIDs() error {
	stmt := w.stmts.lastIDs
	if _, err := stmt.Step(); err != nil {
		return err
	}
	w.lastOp, w.lastEntry = stmt.ColumnInt64(0), stmt.ColumnInt64(1)
	return stmt.Reset()
}

// yield lets other processes in that have lately written too: the lock is
// free only between transactions, and they can but try again and again.
func (w *writer) yield() {
	if at := w.known.foreign.Load(); at != nil && time.Since(*at) < time.Second {
		time.Sleep(200 * time.Microsecond)
	}
}

// recover brings the connection back to where a transaction can begin.
func (w *writer) recover(cause error) {
	w.forget()
	w.failed = 0
	w.seen = -1 // the ids went with the transaction
	if !w.conn.AutocommitEnabled() {
		if err := run(w.stmts.rollback); err != nil {
			w.drop(errors.Join(cause, err))
		}
		return
	}
	// SQLite has rolled back by itself. What an application did with its
	// connection after that is unknown.
	if w.guard != nil {
		w.drop(cause)
	}
}

func (w *writer) connect() error {
	if w.conn != nil {
		return nil
	}
	conn, err := connect(w.path, writerCacheKiB, w.busy)
	if err != nil {
		return err
	}
	if err := w.use(conn); err != nil {
		w.drop(err)
		return err
	}
	return nil
}

// drop ends the connection because of a failure; the next one is made anew.
func (w *writer) drop(cause error) {
	if w.conn == nil {
		return
	}
	w.store.log.Warn("ledger: connecting anew", "cause", cause)
	if err := w.disconnect(); err != nil {
		w.store.log.Error("ledger: a connection stays open, and the file's log may grow until the program ends: statements of the application were not finalized", "error", err)
	}
}

func (w *writer) disconnect() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.Close()
	w.conn = nil
	return err
}

// first returns the integer in the first column of the only row.
func first(stmt *sqlite.Stmt) (int64, error) {
	ok, err := stmt.Step()
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("no row")
	}
	n := stmt.ColumnInt64(0)
	return n, stmt.Reset()
}
