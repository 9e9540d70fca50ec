package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/justonce-dev/justonce"
)

// Purge implements [justonce.Store]. An operation ended when its row was last
// updated; those that ended first go first.
func (s *Store) Purge(ctx context.Context, endedBefore time.Time, limit int) (int, error) {
	if err := s.before(ctx, "Purge"); err != nil {
		return 0, err
	}
	n := s.purge(endedBefore, limit)
	if err := s.after("Purge"); err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Store) purge(endedBefore time.Time, limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ended []*row
	for _, r := range s.rows {
		if r.op.State.Ended() && r.op.UpdatedAt.Before(endedBefore) && !r.tombstone() {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *row) int { return a.op.UpdatedAt.Compare(b.op.UpdatedAt) })
	ended = ended[:max(0, min(limit, len(ended)))]
	for _, r := range ended {
		r.op.Arguments = nil
		r.op.Result = nil
		r.op.Note = justonce.NotePurged
		r.op.Version++
		r.entries = nil
	}
	return len(ended)
}

// tombstone reports whether nothing is left to purge.
func (r *row) tombstone() bool {
	return r.op.Note == justonce.NotePurged && len(r.entries) == 0
}
