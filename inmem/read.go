package inmem

import (
	"context"
	"fmt"
	"time"

	"github.com/justonce-dev/justonce"
)

// Get implements [justonce.Store].
func (s *Store) Get(ctx context.Context, ref justonce.Ref) (*justonce.Operation, error) {
	if err := s.before(ctx, "Get"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[ref]
	if r == nil {
		return nil, fmt.Errorf("inmem: Get: %w", justonce.ErrNotFound)
	}
	return r.withResult(), nil
}

// History implements [justonce.Store]. That of a tombstone is empty.
func (s *Store) History(ctx context.Context, ref justonce.Ref) ([]justonce.Entry, error) {
	if err := s.before(ctx, "History"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[ref]
	if r == nil {
		return nil, fmt.Errorf("inmem: History: %w", justonce.ErrNotFound)
	}
	return cloneEntries(r.entries), nil
}

// Stats implements [justonce.Store]. Here it does read all of the ledger.
func (s *Store) Stats(ctx context.Context) (*justonce.Stats, error) {
	if err := s.before(ctx, "Stats"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	stats := &justonce.Stats{
		Count:  make(map[justonce.State]int64),
		Oldest: make(map[justonce.State]time.Time),
	}
	for _, r := range s.rows {
		op := r.op
		stats.Count[op.State]++
		oldest, ok := stats.Oldest[op.State]
		if !op.State.Ended() && (!ok || op.CreatedAt.Before(oldest)) {
			stats.Oldest[op.State] = op.CreatedAt
		}
		if op.IsDue(now) {
			stats.Lag = max(stats.Lag, now.Sub(op.Due))
		}
	}
	return stats, nil
}
