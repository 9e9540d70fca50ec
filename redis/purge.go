package redis

import (
	"context"
	"strconv"
	"time"
)

// purgeGroup is how many operations are purged in one step: meanwhile the server
// serves nobody else.
const purgeGroup = 100

// Purge implements [justonce.Store]. An operation ended when its row was last
// updated; those that ended first go first.
func (s *Store) Purge(ctx context.Context, endedBefore time.Time, limit int) (int, error) {
	if err := s.enter(ctx, "purge"); err != nil {
		return 0, err
	}
	defer s.underway.Done()
	before, err := timeArg(endedBefore)
	if err != nil {
		return 0, err
	}
	purged := 0
	for purged < limit {
		if ctx.Err() != nil {
			return purged, callError("purge", context.Cause(ctx))
		}
		group := min(limit-purged, purgeGroup)
		m, err := s.write(ctx, scriptPurge, before, strconv.Itoa(group))
		if err != nil {
			return purged, callError("purge", err)
		}
		n, err := m.AsInt64()
		if err != nil {
			return purged, callError("purge", err)
		}
		purged += int(n)
		if n < int64(group) {
			break
		}
	}
	return purged, nil
}
