package sqlite

import (
	"context"
	"errors"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
)

// Update implements [justonce.Store].
func (s *Store) Update(ctx context.Context, op *justonce.Operation, entries ...justonce.Entry) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sqlite: update: %w", err)
	}
	r := newRequest(kindUpdate)
	if err := r.row.encode(op, op.Version+1); err != nil {
		r.free()
		return err
	}
	for i := range entries {
		if err := r.addEntry(&entries[i]); err != nil {
			r.free()
			return err
		}
	}
	r.exclusive = op.Exclusive && op.Reference != ""
	r.place = s.places.get(op.Ref)
	if r.place.id == 0 || r.place.version != op.Version || r.exclusive {
		s.hash.fill(r) // it will have to be looked up
	}
	s.queue.enqueue(r)
	if !s.wait(ctx, r) {
		return fmt.Errorf("sqlite: update: %w", context.Cause(ctx))
	}
	defer r.free()
	if r.err != nil {
		return callError(ctx, "update", r.err)
	}
	s.places.put(op.Ref, r.place)
	op.Version++
	return nil
}

// updateOp replaces the row of r if the version is the expected one.
func (w *writer) updateOp(r *request) error {
	version := r.row.rev - 2 // that it must have; rev is one more than the next
	if r.place.id != 0 && r.place.version == version && !r.exclusive {
		ok, err := w.replace(&r.row, &r.place, r.lines)
		if err != nil || ok {
			return err
		}
		w.store.hash.fill(r)
	}
	found, at, err := w.lookUp(r.keyHash, isKey(r.row.tenant, r.row.key))
	if err != nil {
		return w.unreadable(r, err)
	}
	r.place = at
	if found == nil || r.place.version != version || r.place.created != r.row.created {
		r.err = justonce.ErrStale
		return nil
	}
	if r.exclusive {
		taken, err := w.taken(r)
		if err != nil {
			return err
		}
		if taken {
			r.err = justonce.ErrReferenceTaken
			return nil
		}
	}
	ok, err := w.replace(&r.row, &r.place, r.lines)
	if err == nil && !ok {
		err = fmt.Errorf("operation %d cannot be found by its id", r.place.id)
	}
	return err
}

// replace writes row and lines over the operation at p, and makes p its new
// place. It returns false, and changes nothing, if p is no longer right.
func (w *writer) replace(row *row, p *place, lines []line) (bool, error) {
	next := *p
	next.version, next.state = p.version+1, row.state
	for i := range lines {
		next.last = w.lastEntry + int64(i) + 1
		if lines[i].isResult {
			next.result = next.last
		}
	}
	stmt := w.stmts.updateOp
	stmt.BindText(1, row.tool)
	stmt.BindInt64(2, next.version+1)
	stmt.BindInt64(3, row.state)
	stmt.BindInt64(4, row.due)
	stmt.BindInt64(5, row.lease)
	bindRef(stmt, 6, row.ref)
	stmt.BindBytes(7, row.data)
	stmt.BindInt64(8, next.last)
	stmt.BindInt64(9, next.result)
	stmt.BindInt64(10, p.id)
	stmt.BindInt64(11, p.version+1)
	stmt.BindInt64(12, row.created)
	if err := run(stmt); err != nil {
		return false, err
	}
	if w.conn.Changes() == 0 {
		return false, nil
	}
	if p.state != next.state {
		if p.state == stFailed {
			w.failed--
		}
		if next.state == stFailed {
			w.failed++
		}
	}
	prev := p.last
	*p = next
	w.appendEntries(p.id, prev, lines)
	return true, nil
}

// taken reports whether another operation holds the reference of r.
func (w *writer) taken(r *request) (bool, error) {
	stmt := w.stmts.holders
	stmt.BindText(1, r.row.ref)
	stmt.BindText(2, r.row.tenant)
	stmt.BindText(3, r.row.tool)
	stmt.BindInt64(4, r.place.id)
	found, err := stmt.Step()
	if err != nil {
		return false, err
	}
	return found, stmt.Reset()
}

// find returns the operation that stmt selects, with its result, or nil.
func (w *writer) find(stmt *sqlite.Stmt, bind func(*sqlite.Stmt)) (*justonce.Operation, place, error) {
	bind(stmt)
	return readOne(stmt, &w.scratch)
}

// unreadable keeps a damaged row from failing the calls that share the
// transaction: reading it has changed nothing.
func (w *writer) unreadable(r *request, err error) error {
	if e := (*unavailableError)(nil); errors.As(err, &e) {
		r.err = err
		return nil
	}
	return err
}
