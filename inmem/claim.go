package inmem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/justonce-dev/justonce"
)

// Claim implements [justonce.Store]. Operations that have been due equally
// long are picked in the order of their creation, then of tenant and key.
func (s *Store) Claim(ctx context.Context, due justonce.Due, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) ([]*justonce.Operation, error) {
	if err := s.before(ctx, "Claim"); err != nil {
		return nil, err
	}
	if due.Limit < 1 {
		return nil, fmt.Errorf("inmem: Claim: %w", &justonce.InvalidError{Field: "limit", Detail: "must be at least 1"})
	}
	claimed := s.claim(due, advance)
	if err := s.after("Claim"); err != nil {
		return nil, err
	}
	return claimed, nil
}

func (s *Store) claim(due justonce.Due, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) []*justonce.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.Now()
	var picked []*row
	if due.Ref != nil {
		if r := s.rows[*due.Ref]; r != nil && r.matches(due, now) {
			picked = append(picked, r)
		}
	} else {
		for _, r := range s.rows {
			if r.matches(due, now) {
				picked = append(picked, r)
			}
		}
	}
	slices.SortFunc(picked, func(a, b *row) int {
		return cmp.Or(
			a.op.Due.Compare(b.op.Due),
			a.op.CreatedAt.Compare(b.op.CreatedAt),
			cmp.Compare(a.op.Tenant, b.op.Tenant),
			cmp.Compare(a.op.Key, b.op.Key),
		)
	})

	var claimed []*justonce.Operation
	for _, r := range picked[:min(due.Limit, len(picked))] {
		op := cloneOperation(r.op)
		entries, ok := advance(op, now)
		if !ok {
			continue
		}
		r.write(op, entries)
		claimed = append(claimed, cloneOperation(r.op))
	}
	return claimed
}

func (r *row) matches(due justonce.Due, now time.Time) bool {
	return r.op.IsDue(now) && (len(due.Tools) == 0 || slices.Contains(due.Tools, r.op.Tool))
}
