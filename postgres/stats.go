package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

const (
	// tallyRows is how many rows of tally make Stats fold them.
	tallyRows = 2000
	// foldEvery is after how many commits of its own a store folds them.
	foldEvery = 5000
)

// Stats implements [justonce.Store]. Its time grows with the number of
// operations that have not succeeded and of those that began in one commit with
// one that is still under way, not with that of the others.
func (s *Store) Stats(ctx context.Context) (*justonce.Stats, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: stats: %w", err)
	}
	at, err := s.at()
	if err != nil {
		return nil, err
	}
	stats := &justonce.Stats{Count: make(map[justonce.State]int64), Oldest: make(map[justonce.State]time.Time)}
	// One statement, so that all is seen at one moment. State 0 is the row for
	// all, whose oldest is since when the most overdue has been due.
	st := s.st.plain("stats", `WITH batched AS (
			SELECT DISTINCT op.hash, op.state, op.created, op.lease FROM (SELECT unnest(hashes) AS hash FROM $schema.batch) AS member
			CROSS JOIN LATERAL `+memberOp+` WHERE op.state < 5 AND op.watch IS NULL
		)
		SELECT state, count(*), min(created), 0::bigint, 0::bigint FROM $schema.watch GROUP BY state
		UNION ALL SELECT state, count(*), min(created), 0::bigint, 0::bigint FROM batched GROUP BY state
		UNION ALL SELECT 0::smallint, coalesce(sum(n), 0)::bigint, least((SELECT min(due) FROM $schema.watch WHERE`+dueWatch+`),
			(SELECT min(lease) FROM batched WHERE lease <= `+dueTime+`)), `+dueTime+`, count(*) FROM $schema.tally`, oidInt8, oidInt8)
	var all, others, rows int64
	err = s.read(ctx, query{st, [][]byte{at, int64Param(packed.NoTime)}, func(v [][]byte) error {
		code, n := binary.BigEndian.Uint16(v[0]), int64At(v, 1)
		if code == 0 {
			all, rows = n, int64At(v, 4)
			if v[2] != nil {
				stats.Lag = packed.TimeOf(int64At(v, 3), packed.NoTime).Sub(packed.TimeOf(int64At(v, 2), packed.Never))
			}
			return nil
		}
		if int(code) >= len(stateNames) {
			return fmt.Errorf("state %d is not known to this version", code)
		}
		state := stateNames[code]
		others += n
		stats.Count[state] += n
		if oldest := packed.TimeOf(int64At(v, 2), packed.NoTime); !state.Ended() && (stats.Oldest[state].IsZero() || oldest.Before(stats.Oldest[state])) {
			stats.Oldest[state] = oldest
		}
		return nil
	}})
	if err != nil {
		return nil, callError(ctx, "stats", err)
	}
	if n := all - others; n > 0 {
		stats.Count[justonce.Succeeded] = n
	}
	if rows > tallyRows {
		s.fold()
	}
	return stats, nil
}

// fold replaces rows of tally by their sum. Where it fails nothing is lost.
func (s *Store) fold() {
	st := s.st.plain("fold", `WITH folded AS (
			DELETE FROM $schema.tally WHERE ctid = ANY(ARRAY(SELECT ctid FROM $schema.tally LIMIT 100000 FOR UPDATE SKIP LOCKED)) RETURNING n
		) INSERT INTO $schema.tally (n) SELECT sum(n) FROM folded HAVING count(*) > 0`)
	err := s.transaction(context.Background(), func(c *conn) error {
		return c.exchange(context.Background(), s.alone(c, query{statement: st})...)
	})
	if err != nil && !s.closed.Load() {
		s.o.Logger.Warn("ledger: folding the tally", "error", err)
	}
}
