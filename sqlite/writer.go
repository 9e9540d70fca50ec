package sqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A writer runs every write of a store. Its goroutine takes all requests that
// wait, runs them in one transaction and acknowledges them after the commit;
// meanwhile the next ones gather. There is no artificial delay.
type writer struct {
	store *Store
	path  string
	busy  time.Duration

	mu     sync.Mutex
	queue  []*request
	closed bool
	wake   chan struct{} // capacity 1
	done   chan struct{} // closed when run has returned

	commits atomic.Uint64

	// Of the goroutine alone.
	conn       *sqlite.Conn // nil after a failure that needs a new one
	stmts      statements
	batch      []*request
	scratch    []byte
	seen       int64 // data_version at which the ids below were read
	lastOp     int64
	lastEntry  int64
	newOps     []*request
	newEntries []newEntry
	failed     int64     // change of the number of failed operations
	foreign    time.Time // when another process was last seen to write
	err        error     // of Close
}

// maxGroup bounds a transaction, so that other processes get their turn.
const maxGroup = 1024

// statements of the writer's connection.
type statements struct {
	begin, commit, rollback, dataVersion, lastIDs *sqlite.Stmt
	insertOp, insertOps                           *sqlite.Stmt
	insertEntry, insertEntries, updateOp          *sqlite.Stmt
	bySlot, takeSlot, setSlot, leaveSlot          *sqlite.Stmt
	byID, holders, archive                        *sqlite.Stmt
	body, purge, dropEntry, tally                 *sqlite.Stmt
	due                                           dueStatements
}

func (st *statements) prepare(conn *sqlite.Conn) error {
	p := preparer{conn: conn}
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

func newWriter(ctx context.Context, s *Store, conn *sqlite.Conn, path string, busy time.Duration) (*writer, error) {
	w := &writer{store: s, path: path, busy: busy, wake: make(chan struct{}, 1), done: make(chan struct{})}
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
	return w.stmts.prepare(conn)
}

// enqueue hands r to the writer.
func (w *writer) enqueue(r *request) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		r.err = unavailable("writing", errClosed)
		r.done <- struct{}{}
		return
	}
	r.stage = stageQueued
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	w.signal()
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// withdraw takes r back and returns true unless its transaction has begun.
func (w *writer) withdraw(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.stage != stageQueued {
		return false
	}
	r.stage = stageWithdrawn
	return true
}

// take moves what is queued into the batch, in the order of its arrival.
func (w *writer) take() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch = w.batch[:0]
	n := 0
	for _, r := range w.queue {
		if len(w.batch) == maxGroup {
			break
		}
		n++
		if r.stage == stageQueued {
			r.stage = stageTaken
			w.batch = append(w.batch, r)
		}
	}
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
}

// pending reports whether there is work, and whether there may be more.
func (w *writer) pending() (work, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) > 0, !w.closed
}

func (w *writer) run() {
	defer close(w.done)
	for {
		work, more := w.pending()
		switch {
		case work:
			w.group()
		case more:
			<-w.wake
		default:
			w.err = w.disconnect()
			return
		}
	}
}

func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	<-w.done
	return w.err
}

// group runs one transaction and acknowledges its requests.
func (w *writer) group() {
	err := w.connect()
	if err == nil {
		err = w.begin(context.Background())
	}
	// Not before the lock is held: until then callers may still leave, and
	// others join.
	w.take()
	if err == nil {
		if err = w.transact(); err != nil {
			w.recover(err)
		}
	}
	if err == nil {
		w.commits.Add(1)
	}
	for i, r := range w.batch {
		if err != nil {
			r.err = unavailable("writing", err)
		}
		w.batch[i] = nil
		r.done <- struct{}{}
	}
	if err == nil {
		w.yield()
	}
}

// begin starts a transaction. Another process may hold the lock.
func (w *writer) begin(ctx context.Context) error {
	return retryBusy(ctx, w.busy, func() error { return run(w.stmts.begin) })
}

// transact runs the batch in the transaction that has begun and commits. What
// is wrong with one request is in its err; an error returned is that of all.
func (w *writer) transact() error {
	if err := w.refresh(); err != nil {
		return err
	}
	for _, r := range w.batch {
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
	return run(w.stmts.commit)
}

// refresh reads the highest ids if another connection may have changed them.
func (w *writer) refresh() error {
	version, err := first(w.stmts.dataVersion)
	if err != nil || version == w.seen {
		return err
	}
	if w.seen >= 0 {
		w.foreign = time.Now()
	}
	stmt := w.stmts.lastIDs
	if _, err := stmt.Step(); err != nil {
		return err
	}
	foreign, last := w.seen >= 0, w.lastOp
	w.lastOp, w.lastEntry = stmt.ColumnInt64(0), stmt.ColumnInt64(1)
	if foreign && last != w.lastOp {
		w.store.seen.others.Store(true)
	}
	w.seen = version
	return stmt.Reset()
}

// yield lets other processes in that have lately written too: the lock is
// free only between transactions, and they can but try again and again.
func (w *writer) yield() {
	if !w.foreign.IsZero() && time.Since(w.foreign) < time.Second {
		time.Sleep(200 * time.Microsecond)
	}
}

// recover brings the connection back to where a transaction can begin.
func (w *writer) recover(cause error) {
	w.forget()
	w.failed = 0
	w.seen = -1 // the ids went with the transaction
	if w.conn.AutocommitEnabled() {
		return // SQLite has rolled back by itself
	}
	if err := run(w.stmts.rollback); err != nil {
		w.store.log.Warn("ledger: connecting anew", "error", err, "cause", cause)
		w.disconnect()
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
		w.disconnect()
		return err
	}
	return nil
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
