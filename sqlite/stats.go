package sqlite

import (
	"context"
	"fmt"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite"
)

// What has not ended is counted in its index; all and the failed are known.
const (
	liveQuery = `SELECT state, count(*), min(created) FROM op INDEXED BY op_live WHERE state < 6 GROUP BY state`
	sumsQuery = `SELECT coalesce((SELECT max(id) FROM op), 0), (SELECT n FROM tally WHERE state = 7)`
	lagQuery  = `SELECT due FROM op INDEXED BY op_live
		WHERE state < 6 AND state <> 5 AND due <= ?1 AND lease <= ?1 ORDER BY due LIMIT 1`
)

// Stats implements [justonce.Store]. Its time grows with the number of
// operations that have not ended, not with that of the others.
func (s *Store) Stats(ctx context.Context) (*justonce.Stats, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: stats: %w", err)
	}
	stats := &justonce.Stats{
		Count:  make(map[justonce.State]int64),
		Oldest: make(map[justonce.State]time.Time),
	}
	if err := s.read(ctx, func(conn *sqlite.Conn) error { return s.stats(conn, stats) }); err != nil {
		return nil, callError(ctx, "stats", err)
	}
	return stats, nil
}

func (s *Store) stats(conn *sqlite.Conn, stats *justonce.Stats) error {
	p := preparer{conn: conn}
	live, sums, lag := p.prepare(liveQuery), p.prepare(sumsQuery), p.prepare(lagQuery)
	if p.err != nil {
		return p.err
	}
	var open int64
	for {
		found, err := live.Step()
		if err != nil {
			return err
		}
		if !found {
			break
		}
		state := stateNames[max(0, min(live.ColumnInt64(0), stFailed))]
		n := live.ColumnInt64(1)
		stats.Count[state] = n
		stats.Oldest[state] = packed.TimeOf(live.ColumnInt64(2), packed.NoTime)
		open += n
	}
	if _, err := sums.Step(); err != nil {
		return err
	}
	all, failed := sums.ColumnInt64(0), sums.ColumnInt64(1)
	if err := sums.Reset(); err != nil {
		return err
	}
	if failed > 0 {
		stats.Count[justonce.Failed] = failed
	}
	if n := all - open - failed; n > 0 {
		stats.Count[justonce.Succeeded] = n
	}
	now := s.now()
	at, err := packed.Nanos(now, packed.NoTime)
	if err != nil {
		return invalid("now", err.Error())
	}
	lag.BindInt64(1, at)
	found, err := lag.Step()
	if err != nil {
		return err
	}
	if found {
		stats.Lag = now.Sub(packed.TimeOf(lag.ColumnInt64(0), packed.Never))
	}
	return lag.Reset()
}
