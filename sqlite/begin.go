package sqlite

import (
	"context"
	"fmt"
	"strconv"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
)

// Begin implements [justonce.Store]. An operation that is already there is
// answered by a read; it does not wait for the writer.
func (s *Store) Begin(ctx context.Context, op *justonce.Operation, arrived justonce.Entry) (*justonce.Arrival, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: begin: %w", err)
	}
	r := newRequest(kindBegin)
	r.row.tenant, r.row.key, r.row.identity = op.Tenant, op.Key, op.Identity
	s.hash.fill(r)
	if s.seen.maybe(r.keyHash) || r.row.identity != "" && s.seen.maybe(r.idHash) {
		s.readers.read(r)
	}
	if r.err == nil && r.op == nil {
		if err := s.record(ctx, r, op, &arrived); err != nil {
			return nil, err
		}
	}
	defer r.free()
	if r.err != nil {
		return nil, callError(ctx, "begin", r.err)
	}
	s.remember(r)
	if !r.fresh {
		return &justonce.Arrival{Operation: r.op, MatchedBy: r.match}, nil
	}
	s.places.put(op.Ref, r.place)
	op.Version = 1
	return &justonce.Arrival{Fresh: true}, nil
}

// record lets the writer decide. After an error r is gone.
func (s *Store) record(ctx context.Context, r *request, op *justonce.Operation, arrived *justonce.Entry) error {
	err := r.row.encode(op, 1)
	if err == nil {
		err = r.addEntry(arrived)
	}
	if err != nil {
		r.free()
		return err
	}
	s.queue.enqueue(r)
	if !s.wait(ctx, r) {
		return fmt.Errorf("sqlite: begin: %w", context.Cause(ctx))
	}
	return nil
}

// outlived reports whether op no longer answers for its key and identity.
func (s *Store) outlived(op *justonce.Operation) bool {
	return op.State.Ended() && !op.DedupeUntil.IsZero() && !op.DedupeUntil.After(s.now())
}

// beginOp records r or finds what is there.
func (w *writer) beginOp(r *request) error {
	// Most are new: their slots are taken without a look.
	taken, err := w.takeSlots(r)
	if err != nil {
		return err
	}
	if taken {
		return w.insert(r)
	}
	byKey, keyAt, err := w.lookUp(r.keyHash, isKey(r.row.tenant, r.row.key))
	if err != nil {
		return w.unreadable(r, err)
	}
	if byKey != nil && !w.store.outlived(byKey) {
		r.op, r.match = byKey, justonce.MatchKey
		return nil
	}
	var byIdentity *justonce.Operation
	var identityAt place
	if r.row.identity != "" {
		byIdentity, identityAt, err = w.lookUp(r.idHash, isIdentity(r.row.tenant, r.row.identity))
		if err != nil {
			return w.unreadable(r, err)
		}
		if byIdentity != nil && !w.store.outlived(byIdentity) {
			r.op, r.match = byIdentity, justonce.MatchIdentity
			return nil
		}
	}
	if byKey != nil {
		if err := w.archive(byKey, keyAt.id); err != nil {
			return err
		}
	}
	if byIdentity != nil && identityAt.id != keyAt.id {
		if err := w.archive(byIdentity, identityAt.id); err != nil {
			return err
		}
	}
	// An archived operation leaves its slot to the new one.
	if err := w.placeInSlot(r.keyHash, byKey != nil, keyAt); err != nil {
		return err
	}
	if r.row.identity != "" {
		if err := w.placeInSlot(r.idHash, byIdentity != nil, identityAt); err != nil {
			return err
		}
	}
	return w.insert(r)
}

// insert records r, which has its slots.
func (w *writer) insert(r *request) error {
	w.lastOp++
	arrived := w.lastEntry + 1
	if r.row.state == stFailed {
		w.failed++
	}
	r.fresh = true
	r.place = place{id: w.lastOp, version: r.row.rev - 1, first: arrived, last: arrived, result: arrived,
		state: r.row.state, created: r.row.created}
	w.newOps = append(w.newOps, r)
	w.appendEntries(w.lastOp, 0, r.lines)
	return nil
}

// archive moves an operation out of the way of a new one. The suffix is
// repeated in the rare case that the new key is taken as well.
func (w *writer) archive(op *justonce.Operation, id int64) error {
	suffix := "~" + strconv.FormatInt(op.CreatedAt.UnixNano(), 10)
	for key := op.Key + suffix; ; key += suffix {
		hash := w.store.hash.key(op.Tenant, key)
		other, _, err := w.lookUp(hash, isKey(op.Tenant, key))
		if err != nil {
			return err
		}
		if other != nil {
			continue
		}
		stmt := w.stmts.archive
		stmt.BindInt64(1, id)
		stmt.BindText(2, key)
		if err := run(stmt); err != nil {
			return err
		}
		return w.probeSlot(hash, id)
	}
}

func bindRef(stmt *sqlite.Stmt, param int, ref string) {
	if ref == "" {
		stmt.BindNull(param)
		return
	}
	stmt.BindText(param, ref)
}
