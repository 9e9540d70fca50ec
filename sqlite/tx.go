package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/outbox"
	"zombiezen.com/go/sqlite"
)

var (
	errTxEnded  = errors.New("the transaction has ended")
	errTxUndone = errors.New("SQLite has rolled the transaction back: a statement failed, asked for it or was interrupted")
	errOthersTx = errors.New("the transaction is another store's")
)

// A Tx is a transaction of the application in the ledger's file. It can be used
// until the function that [Store.InTx] gave it to returns, by one goroutine at a
// time.
type Tx struct {
	store *Store
	w     *writer // nil: it has ended
	err   error   // why it must not be committed
}

// Conn returns the connection on which the application writes its own tables;
// nil once tx has ended or SQLite has rolled it back, as it does when the disk is
// full and for INSERT OR ROLLBACK. Statements must be reset, transient ones
// finalized, and the connection left open. Foreign keys are enforced, and
// savepoints can be used, such as sqlitex.Save, under any name but justonce.
//
// The application may read everything, and write, create, alter and drop what is
// in the file and not the ledger's (op, slot, seed, entry and tally: give your
// tables a prefix): tables, their indexes and triggers, views. All else is
// refused with SQLITE_AUTH: BEGIN, COMMIT, ROLLBACK, ATTACH, ANALYZE, whatever is
// temporary, making and dropping virtual tables, and pragmas but those that tell
// of tables, indexes and foreign keys, and defer_foreign_keys. Once SQLite has
// rolled back, whoever has kept the connection is refused every statement, those
// prepared before too.
//
// This keeps off mistakes, not intent: SQLite does not ask before a blob is
// opened for writing, and the connection has methods that go round the guard.
// Leave OpenBlob for writing, Deserialize and SetAuthorizer alone, and do not use
// the connection once the function that was given tx has returned.
func (tx *Tx) Conn() *sqlite.Conn {
	if tx.check() != nil {
		return nil
	}
	return tx.w.conn
}

// InTx runs f in a transaction and commits if f returns nil. If f fails or panics
// all is rolled back, and its error is returned as it is, or the panic goes on.
// With [Store.EnqueueTx] and [Store.DoTx] what the application writes and what
// the ledger records is committed together. For that the application's tables
// must be in the ledger's file, and be written through [Tx.Conn]: a transaction
// of database/sql, or on any other connection, cannot take part.
//
// It is an IMMEDIATE transaction with an fsync of its own, as durable as the
// ledger's other writes. While f runs nobody else writes to the file, in this
// process or another: keep it short, and do nothing over the network in it.
// Reads go on, and do not see yet what f wrote. Within f, EnqueueTx and DoTx are
// the only ways to write to the ledger: InTx and the store's other methods that
// write, Runner.Do among them, would wait for f, and f for them.
//
// The end of ctx ends the wait for the turn and, with SQLITE_INTERRUPT, what runs
// on the connection; if f then returns nil all the same, it is committed.
// justonce.ErrUnavailable, if it is not f's own, means that nothing was
// acknowledged: f did not run, or the commit failed.
func (s *Store) InTx(ctx context.Context, f func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlite: transaction: %w", err)
	}
	w, err := s.queue.lend(ctx)
	if err != nil {
		return callError(ctx, "transaction", err)
	}
	defer func() { <-s.queue.turn }()
	tx := &Tx{store: s, w: w}
	if err := tx.run(ctx, f); err != nil {
		return err
	}
	if tx.err == nil {
		tx.err = w.readIDs() // without what f has undone
	}
	if tx.err == nil {
		tx.err = w.commit()
	}
	if tx.err != nil {
		w.recover(tx.err)
		return unavailable("committing", tx.err)
	}
	s.queue.commits.Add(1)
	w.yield()
	return nil
}

// run runs f. Unless it succeeds the transaction is rolled back.
func (tx *Tx) run(ctx context.Context, f func(*Tx) error) (err error) {
	w, done := tx.w, false
	w.guard.hold()
	w.conn.SetInterrupt(ctx.Done())
	defer func() {
		w.conn.SetInterrupt(nil) // the end must not be interrupted
		w.guard.release()
		tx.w = nil
		if !done {
			w.recover(err)
		}
	}()
	if err = f(tx); err != nil {
		return err
	}
	tx.check()
	done = true
	return nil
}

// check finds out whether the transaction is still there.
func (tx *Tx) check() error {
	switch {
	case tx.w == nil:
		return errTxEnded
	case tx.err == nil && tx.w.guard.lost:
		tx.err = errTxUndone
	}
	return tx.err
}

// save runs f within a savepoint: what f wrote is undone if it fails or panics.
func (tx *Tx) save(s *Store, f func(*writer) error) error {
	if err := tx.check(); err != nil {
		return unavailable("transaction", err)
	}
	if tx.store != s {
		return unavailable("transaction", errOthersTx)
	}
	w, done := tx.w, false
	if err := w.runOwn(w.stmts.save); err != nil {
		return err
	}
	defer func() {
		if !done && tx.check() == nil {
			w.forget()
			if tx.err = w.runOwn(w.stmts.undo); tx.err == nil {
				tx.err = w.runOwn(w.stmts.release)
			}
		}
	}()
	if err := f(w); err != nil {
		return err
	}
	if err := tx.check(); err != nil {
		return err
	}
	if err := w.runOwn(w.stmts.release); err != nil {
		return err
	}
	done = true
	return nil
}

// runOwn runs a statement of the ledger while a transaction is lent.
func (w *writer) runOwn(stmt *sqlite.Stmt) error {
	w.guard.lifted = true
	defer func() { w.guard.lifted = false }()
	return run(stmt)
}

// write runs f and inserts what it gathered, so that r need not outlive it. The
// application may have undone, by a savepoint of its own, what was
// inserted before.
func (w *writer) write(r *request, f func(*request) error) error {
	w.guard.lifted = true
	defer func() { w.guard.lifted = false }()
	err := w.readIDs()
	if err == nil {
		err = f(r)
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = r.err
	}
	return err
}

// EnqueueTx records op, which must be pending, in the transaction: it is there if
// and only if that is committed, together with whatever else was written in it (a
// transactional outbox). A worker executes it after that, once it looks.
// [justonce.Runner.Prepare] makes op of a call. CreatedAt, UpdatedAt and Due
// default to now.
//
// An operation that is already there is returned as by Begin. If its
// fingerprint is another, the error is a *justonce.ConflictError, whose Paths may
// name arguments that the tool ignores, too: its rules are not known here. After any
// error nothing of op is recorded, and the transaction can still be used, unless
// SQLite has rolled it back: then it cannot be committed.
func (s *Store) EnqueueTx(ctx context.Context, tx *Tx, op *justonce.Operation) (a *justonce.Arrival, err error) {
	if err := outbox.Enqueue(op, s.Now()); err != nil {
		return nil, callError(ctx, "enqueue", err)
	}
	err = tx.save(s, func(w *writer) error {
		a, _, err = s.beginTx(w, op)
		return err
	})
	if err != nil {
		return nil, callError(ctx, "enqueue", err)
	}
	return a, nil
}

// DoTx runs effect and records its result in the transaction: once that is
// committed the effect, which writes through the transaction, has happened
// exactly once for op's key. If it is rolled back, neither has.
//
// A later call with the key gets the first one's operation with its Result, and
// effect does not run. If op's fingerprint is another than the recorded one, the
// error is a *justonce.ConflictError.
//
// If effect fails or panics, what it wrote is undone and nothing is recorded. Its
// error is returned as it is, and the transaction can still be used. What effect
// does outside the file has no part in this. It may use EnqueueTx and DoTx.
//
// op names the call (Ref, Tool, Fingerprint, Arguments and what else is known);
// [justonce.Runner.Prepare] makes it. Its Status is set here. CreatedAt and
// UpdatedAt default to now.
func (s *Store) DoTx(ctx context.Context, tx *Tx, op *justonce.Operation,
	effect func(ctx context.Context, tx *Tx) (json.RawMessage, error),
) (a *justonce.Arrival, err error) {
	outbox.Start(op, s.Now())
	var failure error // of effect
	err = tx.save(s, func(w *writer) error {
		var at place
		if a, at, err = s.beginTx(w, op); err != nil || !a.Fresh {
			return err
		}
		result, err := effect(ctx, tx)
		if failure = err; err != nil {
			return err
		}
		if err := tx.check(); err != nil {
			return err
		}
		return s.endTx(w, op, at, result)
	})
	switch {
	case failure != nil:
		return nil, failure
	case err != nil:
		return nil, callError(ctx, "do", err)
	}
	return a, nil
}

// beginTx is Begin within a transaction, and compares fingerprints. It returns
// where a new operation is.
func (s *Store) beginTx(w *writer, op *justonce.Operation) (*justonce.Arrival, place, error) {
	r := newRequest(kindBegin)
	defer r.free()
	err := r.row.encode(op, 1)
	if err == nil {
		entry := outbox.Arrived(op)
		err = r.addEntry(&entry)
	}
	if err != nil {
		return nil, place{}, err
	}
	s.hash.fill(r)
	if err := w.write(r, w.beginOp); err != nil {
		return nil, place{}, err
	}
	s.remember(r) // if it is rolled back that costs time, nothing else
	if r.fresh {
		op.Version = 1
		return &justonce.Arrival{Fresh: true}, r.place, nil
	}
	met := &justonce.Arrival{Operation: r.op, MatchedBy: r.match}
	return met, place{}, outbox.Conflict(met, op, func() ([]justonce.Entry, error) {
		return s.historyOn(w.conn, met.Operation.Ref)
	})
}

// endTx records that op, which was begun at a place, has succeeded.
func (s *Store) endTx(w *writer, op *justonce.Operation, at place, result json.RawMessage) error {
	entry, err := outbox.Finish(op, result, s.Now())
	if err != nil {
		return err
	}
	r := newRequest(kindUpdate)
	defer r.free()
	if err = r.row.encode(op, op.Version+1); err == nil {
		err = r.addEntry(&entry)
	}
	if err != nil {
		return err
	}
	r.place = at
	s.hash.fill(r)
	if err := w.write(r, w.updateOp); err != nil {
		return err
	}
	op.Version, op.Result = op.Version+1, entry.Body
	return nil
}
