package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite"
)

// dueQuery walks op_live from the longest due; ?1 is the time.
const dueQuery = `SELECT id FROM op INDEXED BY op_live
	WHERE state < 6 AND state <> 5 AND due <= ?1 AND lease <= ?1 `

// Claim implements [justonce.Store]. Operations that have been due equally
// long are picked in the order of their creation. A claim that finds nothing
// due takes no lock.
func (s *Store) Claim(ctx context.Context, due justonce.Due, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) ([]*justonce.Operation, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: claim: %w", err)
	}
	if due.Limit < 1 {
		return nil, invalid("limit", "must be at least 1")
	}
	if due.Ref == nil {
		switch any, err := s.anyDue(due); {
		case err != nil:
			return nil, callError(ctx, "claim", err)
		case !any:
			return nil, nil
		}
	}
	r := newRequest(kindClaim)
	r.due, r.advance = due, advance
	s.queue.enqueue(r)
	if !s.wait(ctx, r) {
		return nil, fmt.Errorf("sqlite: claim: %w", context.Cause(ctx))
	}
	defer r.free()
	if r.panic != nil {
		panic(r.panic)
	}
	if r.err != nil {
		return nil, callError(ctx, "claim", r.err)
	}
	for i, op := range r.claimed {
		s.places.put(op.Ref, r.places[i])
	}
	return r.claimed, nil
}

// anyDue asks a reader whether there is anything to claim.
func (s *Store) anyDue(due justonce.Due) (bool, error) {
	r := newRequest(kindDue)
	r.due = due
	s.readers.read(r)
	defer r.free()
	return r.n > 0, r.err
}

// dueStatements walk op_live for operations of any and of some tools.
type dueStatements struct{ any, ofTools *sqlite.Stmt }

func (d *dueStatements) prepare(p *preparer) {
	d.any = p.prepare(dueQuery + "ORDER BY due, created LIMIT ?2")
	d.ofTools = p.prepare(dueQuery + "AND tool IN (SELECT value FROM json_each(?3)) ORDER BY due, created LIMIT ?2")
}

// ids returns the first limit operations that are due, oldest due first.
func (d *dueStatements) ids(tools []string, now int64, limit int) (ids []int64, err error) {
	stmt := d.any
	if len(tools) > 0 {
		list, err := json.Marshal(tools)
		if err != nil {
			return nil, err
		}
		stmt = d.ofTools
		stmt.BindText(3, string(list))
	}
	stmt.BindInt64(1, now)
	stmt.BindInt64(2, int64(limit))
	for {
		found, err := stmt.Step()
		if err != nil {
			return nil, err
		}
		if !found {
			return ids, stmt.Reset()
		}
		ids = append(ids, stmt.ColumnInt64(0))
	}
}

// claim runs a Claim inside the transaction. Everything is decided before
// anything is written, so that a panic of advance leaves no half.
func (w *writer) claim(r *request) error {
	now := w.store.now()
	at, err := packed.Nanos(now, packed.NoTime)
	if err != nil {
		r.err = invalid("now", err.Error())
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	ids, err := w.dueIDs(r.due, at)
	if err != nil {
		return w.unreadable(r, err)
	}
	type change struct {
		op      *justonce.Operation
		place   place
		request *request
	}
	var changes []change
	defer func() {
		for _, c := range changes {
			c.request.free()
		}
	}()
	for _, id := range ids {
		op, p, err := w.find(w.stmts.byID, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, id) })
		if err != nil {
			return w.unreadable(r, err)
		}
		if op == nil || !op.IsDue(now) || len(r.due.Tools) > 0 && !slices.Contains(r.due.Tools, op.Tool) {
			continue
		}
		if op.Arguments, err = w.bodyOf(p.id, p.first); err != nil {
			return w.unreadable(r, err)
		}
		was := *op
		entries, ok := r.call(op, now)
		if r.panic != nil {
			return nil
		}
		if !ok {
			continue
		}
		// What never changes, whatever advance did.
		op.Ref, op.Fingerprint, op.Identity = was.Ref, was.Fingerprint, was.Identity
		op.CreatedAt, op.Arguments, op.Result, op.Version = was.CreatedAt, was.Arguments, was.Result, was.Version+1
		c := change{op: op, place: p, request: newRequest(kindUpdate)}
		changes = append(changes, c)
		if r.err = c.request.row.encode(op, op.Version); r.err != nil {
			return nil
		}
		for i := range entries {
			if r.err = c.request.addEntry(&entries[i]); r.err != nil {
				return nil
			}
			if entries[i].IsResult && len(entries[i].Body) > 0 {
				op.Result = slices.Clone(entries[i].Body)
			}
		}
	}
	for _, c := range changes {
		ok, err := w.replace(&c.request.row, &c.place, c.request.lines)
		if err == nil && !ok {
			err = fmt.Errorf("operation %d cannot be found by its id", c.place.id)
		}
		if err != nil {
			return err
		}
		r.claimed = append(r.claimed, c.op)
		r.places = append(r.places, c.place)
	}
	return w.flush() // what it inserts is freed on return
}

func (r *request) call(op *justonce.Operation, now time.Time) (entries []justonce.Entry, ok bool) {
	defer func() { r.panic = recover() }()
	return r.advance(op, now)
}

// dueIDs returns candidates, oldest due first.
func (w *writer) dueIDs(due justonce.Due, now int64) (ids []int64, err error) {
	if due.Ref == nil {
		return w.stmts.due.ids(due.Tools, now, due.Limit)
	}
	op, at, err := w.lookUp(w.store.hash.key(due.Ref.Tenant, due.Ref.Key), isKey(due.Ref.Tenant, due.Ref.Key))
	if err != nil || op == nil {
		return nil, err
	}
	return []int64{at.id}, nil
}

// bodyOf returns the body of an entry of an operation; entry 0 has none.
func (w *writer) bodyOf(op, entry int64) ([]byte, error) {
	if entry == 0 {
		return nil, nil
	}
	stmt := w.stmts.body
	stmt.BindInt64(1, entry)
	stmt.BindInt64(2, op)
	found, err := stmt.Step()
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, damaged(op, fmt.Errorf("its entry %d is missing", entry))
	}
	b := blob(stmt, 0)
	return b, stmt.Reset()
}
