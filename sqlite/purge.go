package sqlite

import (
	"context"
	"fmt"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
)

const (
	purgeScan  = 4096 // rows looked at in one read
	purgeGroup = 128  // operations purged in one transaction
)

// Purge implements [justonce.Store]. An operation ended when its row was last
// updated. Purge goes through the ledger in the order of arrival and goes on
// where its last call ended, so that many calls with a small limit cost one
// walk; one that returns less than limit has seen all.
func (s *Store) Purge(ctx context.Context, endedBefore time.Time, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("sqlite: purge: %w", err)
	}
	s.purge.Lock()
	defer s.purge.Unlock()
	start, wrapped := s.purge.next, false
	purged := 0
	for purged < limit {
		ids, next, err := s.purgeable(ctx, endedBefore, s.purge.next, min(limit-purged, purgeGroup))
		if err == nil && len(ids) > 0 {
			var n int
			n, err = s.purgeIDs(ctx, endedBefore, ids)
			purged += n
		}
		if err != nil {
			return purged, callError(ctx, "purge", err)
		}
		switch {
		case next != 0 && (!wrapped || next <= start):
			s.purge.next = next
		case wrapped || start == 0:
			s.purge.next = 0
			return purged, nil
		default:
			s.purge.next, wrapped = 0, true
		}
	}
	return purged, nil
}

// purgeable looks at some rows from id on. It returns which may be purged and
// where to go on; 0: there are no more.
func (s *Store) purgeable(ctx context.Context, before time.Time, from int64, limit int) (ids []int64, next int64, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		stmt, err := conn.Prepare(`SELECT ` + columns + ` FROM op WHERE id >= ?1 AND id < ?1 + ?2 ORDER BY id`)
		if err != nil {
			return err
		}
		defer stmt.Reset()
		stmt.BindInt64(1, from)
		stmt.BindInt64(2, purgeScan)
		var scratch []byte
		for {
			found, err := stmt.Step()
			if err != nil || !found {
				return err
			}
			op, p, err := scan(stmt, &scratch)
			if err != nil {
				return err
			}
			next = p.id + 1
			if purgeable(op, p, before) {
				if ids = append(ids, p.id); len(ids) == limit {
					return nil
				}
			}
		}
	})
	return ids, next, err
}

func purgeable(op *justonce.Operation, p place, before time.Time) bool {
	return op.State.Ended() && p.last != 0 && op.UpdatedAt.Before(before)
}

func (s *Store) purgeIDs(ctx context.Context, before time.Time, ids []int64) (int, error) {
	r := newRequest(kindPurge)
	r.before, r.ids = before, ids
	s.queue.enqueue(r)
	if !s.wait(ctx, r) {
		return 0, context.Cause(ctx)
	}
	defer r.free()
	return r.n, r.err
}

// purge makes tombstones of those of r.ids that may still be purged.
func (w *writer) purge(r *request) error {
	if err := w.flush(); err != nil {
		return err
	}
	var encoded row
	for _, id := range r.ids {
		op, p, err := w.find(w.stmts.byID, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, id) })
		if err != nil {
			return w.unreadable(r, err)
		}
		if op == nil || !purgeable(op, p, r.before) {
			continue
		}
		op.Note = justonce.NotePurged
		if err := encoded.encode(op, op.Version+1); err != nil {
			return err
		}
		stmt := w.stmts.purge
		stmt.BindInt64(1, id)
		stmt.BindBytes(2, encoded.data)
		if err := run(stmt); err != nil {
			return err
		}
		if err := w.dropEntries(id, p.last); err != nil {
			return err
		}
		r.n++
	}
	return nil
}

func (w *writer) dropEntries(op, last int64) error {
	stmt := w.stmts.dropEntry
	for id := last; id != 0; {
		stmt.BindInt64(1, id)
		stmt.BindInt64(2, op)
		found, err := stmt.Step()
		if err != nil {
			return err
		}
		if !found {
			return stmt.Reset() // the rest of a damaged history is out of reach
		}
		prev := stmt.ColumnInt64(0)
		if err := run(stmt); err != nil {
			return err
		}
		id = prev
	}
	return nil
}
