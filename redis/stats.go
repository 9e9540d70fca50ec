package redis

import (
	"context"
	"strconv"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

// Stats implements [justonce.Store]. It reads counters and the ends of indexes.
// Lag leaves out what is behind the first few thousands that are due and leased
// all the same, of which there are hardly any.
func (s *Store) Stats(ctx context.Context) (*justonce.Stats, error) {
	if err := s.enter(ctx, "stats"); err != nil {
		return nil, err
	}
	defer s.underway.Done()
	now, err := s.timeArg()
	if err != nil {
		return nil, err
	}
	v, err := strs(s.read(ctx, scriptStats, now))
	if err == nil && len(v) != 13 {
		err = errAnswer
	}
	if err != nil {
		return nil, callError("stats", err)
	}
	stats := &justonce.Stats{Count: make(map[justonce.State]int64), Oldest: make(map[justonce.State]time.Time)}
	if v[2] != "" {
		stats.Lag = time.Duration(getTime(v[1]) - getTime(v[2]))
	}
	succeeded, err := strconv.ParseInt(v[0], 10, 64)
	if err != nil {
		return nil, callError("stats", err)
	}
	for i, state := range []justonce.State{justonce.Pending, justonce.Running, justonce.Unknown, justonce.Review, justonce.Failed} {
		n, err := strconv.ParseInt(v[3+2*i], 10, 64)
		if err != nil {
			return nil, callError("stats", err)
		}
		if n > 0 {
			stats.Count[state] = n
			if !state.Ended() {
				stats.Oldest[state] = packed.TimeOf(getTime(v[4+2*i]), packed.NoTime)
			}
		}
		if state.Ended() {
			succeeded -= n
		}
	}
	if succeeded > 0 {
		stats.Count[justonce.Succeeded] = succeeded
	}
	return stats, nil
}
