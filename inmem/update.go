package inmem

import (
	"context"
	"fmt"

	"github.com/justonce-dev/justonce"
)

// Update implements [justonce.Store].
func (s *Store) Update(ctx context.Context, op *justonce.Operation, entries ...justonce.Entry) error {
	if err := s.before(ctx, "Update"); err != nil {
		return err
	}
	if err := s.update(op, entries); err != nil {
		return fmt.Errorf("inmem: Update: %w", err)
	}
	if err := s.after("Update"); err != nil {
		return err
	}
	op.Version++
	return nil
}

func (s *Store) update(op *justonce.Operation, entries []justonce.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	r := s.rows[op.Ref]
	if r == nil || r.op.Version != op.Version || !r.op.CreatedAt.Equal(op.CreatedAt) {
		return justonce.ErrStale
	}
	if op.Exclusive && s.taken(op) {
		return justonce.ErrReferenceTaken
	}
	r.write(op, entries)
	return nil
}

// taken reports whether an operation other than op holds its reference.
func (s *Store) taken(op *justonce.Operation) bool {
	if op.Reference == "" {
		return false
	}
	for ref, r := range s.rows {
		if ref != op.Ref && ref.Tenant == op.Tenant && r.op.Tool == op.Tool && r.op.Reference == op.Reference {
			return true
		}
	}
	return false
}

// write replaces the row by op, but for what never changes, and appends
// entries.
func (r *row) write(op *justonce.Operation, entries []justonce.Entry) {
	was, now := r.op, cloneOperation(op)
	now.Ref = was.Ref
	now.Arguments = was.Arguments
	now.Fingerprint = was.Fingerprint
	now.Identity = was.Identity
	now.CreatedAt = was.CreatedAt
	now.Result = was.Result
	now.Version = was.Version + 1

	entries = cloneEntries(entries)
	for _, e := range entries {
		if e.IsResult && len(e.Body) > 0 {
			now.Result = e.Body
		}
	}
	r.op = now
	r.entries = append(r.entries, entries...)
}
