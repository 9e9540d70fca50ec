package sqlite

import (
	"strings"

	"zombiezen.com/go/sqlite"
)

// New rows are gathered and inserted several at a time: a statement for each
// would take longer to start than to run. Whoever reads them within the
// transaction flushes first.

// many is how many rows one statement inserts.
const many = 8

// insertMany returns a statement that inserts n rows of as many parameters.
func insertMany(into string, params, n int) string {
	row := "(" + strings.Repeat("?, ", params-1) + "?)"
	return "INSERT INTO " + into + " VALUES " + strings.Repeat(row+", ", n-1) + row
}

const entryColumns = "entry (id, op, prev, data, body)"

// A newEntry is an entry that waits to be inserted.
type newEntry struct {
	id, op, prev int64
	line
}

// appendEntries appends lines to the history whose newest entry is prev.
func (w *writer) appendEntries(op, prev int64, lines []line) {
	for _, l := range lines {
		w.lastEntry++
		w.newEntries = append(w.newEntries, newEntry{id: w.lastEntry, op: op, prev: prev, line: l})
		prev = w.lastEntry
	}
}

// flush inserts what has been gathered.
func (w *writer) flush() error {
	for ops := w.newOps; len(ops) > 0; {
		stmt, n := w.stmts.insertOps, many
		if len(ops) < many {
			stmt, n = w.stmts.insertOp, 1
		}
		for i, r := range ops[:n] {
			bindOp(stmt, i*columnCount, r)
		}
		if err := run(stmt); err != nil {
			return err
		}
		ops = ops[n:]
	}
	for entries := w.newEntries; len(entries) > 0; {
		stmt, n := w.stmts.insertEntries, many
		if len(entries) < many {
			stmt, n = w.stmts.insertEntry, 1
		}
		for i := range entries[:n] {
			e := &entries[i]
			stmt.BindInt64(i*5+1, e.id)
			stmt.BindInt64(i*5+2, e.op)
			stmt.BindInt64(i*5+3, e.prev)
			stmt.BindBytes(i*5+4, e.data)
			bindBody(stmt, i*5+5, e.body)
		}
		if err := run(stmt); err != nil {
			return err
		}
		entries = entries[n:]
	}
	w.forget()
	return nil
}

// forget drops what has been gathered.
func (w *writer) forget() {
	clear(w.newOps)
	clear(w.newEntries)
	w.newOps, w.newEntries = w.newOps[:0], w.newEntries[:0]
}

// bindOp binds the columns of a new operation after parameter p.
func bindOp(stmt *sqlite.Stmt, p int, r *request) {
	stmt.BindInt64(p+1, r.place.id)
	stmt.BindText(p+2, r.row.tenant)
	stmt.BindText(p+3, r.row.key)
	stmt.BindText(p+4, r.row.tool)
	stmt.BindInt64(p+5, r.row.rev)
	stmt.BindInt64(p+6, r.row.state)
	stmt.BindInt64(p+7, r.row.due)
	stmt.BindInt64(p+8, r.row.lease)
	stmt.BindInt64(p+9, r.row.created)
	bindRef(stmt, p+10, r.row.ref)
	bindIdentity(stmt, p+11, r.row.identity)
	stmt.BindBytes(p+12, r.row.fixed)
	stmt.BindBytes(p+13, r.row.data)
	stmt.BindInt64(p+14, r.place.first)
	stmt.BindInt64(p+15, r.place.last)
	stmt.BindInt64(p+16, r.place.result)
}
