package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
)

// firstMark lies before all rows.
var firstMark = mark{"", math.MinInt64, math.MinInt64}

const (
	purgeScan  = 2000 // rows looked at in one transaction, at most
	purgeGroup = 200  // operations purged in one transaction, at most
)

// Purge implements [justonce.Store]. An operation ended when its row was last
// updated. Purge goes through what is not purged yet in the order of arrival, a
// few rows in a transaction, and goes on where its last call ended, so that
// many calls with a small limit cost one walk; one that returns less than limit
// has seen all. It waits for nobody, and nobody waits for it: an operation that
// is being written to at the moment is passed over.
func (s *Store) Purge(ctx context.Context, endedBefore time.Time, limit int) (int, error) {
	if err := s.open(ctx); err != nil {
		return 0, fmt.Errorf("postgres: purge: %w", err)
	}
	before, err := packed.Nanos(endedBefore, packed.NoTime)
	if err != nil {
		return 0, invalid("time", err.Error())
	}
	s.purge.Lock()
	defer s.purge.Unlock()
	start, wrapped := s.purge.next, false
	purged, scan := 0, purgeGroup
	for purged < limit {
		n, next, err := s.purgeSome(ctx, before, s.purge.next, scan, min(limit-purged, purgeGroup))
		purged += n
		if err != nil {
			return purged, callError(ctx, "purge", err)
		}
		// Where all can be purged, rows behind a full group are read for nothing.
		if scan = min(2*scan, purgeScan); n > purgeGroup/2 {
			scan = purgeGroup
		}
		switch {
		case next != nil && !(wrapped && next.behind(start)):
			s.purge.next = *next
		case wrapped || start == firstMark:
			s.purge.next = firstMark
			return purged, nil
		default:
			s.purge.next, wrapped = firstMark, true
		}
	}
	return purged, nil
}

// A mark is where a walk through the ledger, by tenant and time, has come to.
type mark struct {
	tenant      string
	created, id int64
}

// purgeSome looks at scan rows behind a mark. It returns how many it has made
// tombstones, at most limit, and the next mark; nil: there are no more.
func (s *Store) purgeSome(ctx context.Context, before int64, from mark, scan, limit int) (purged int, next *mark, err error) {
	st := s.st.plain("purge", `WITH several AS (
			SELECT tenant, created, id, hash, state, updated, purged FROM $schema.op
			WHERE (tenant, created) >= ($1, $2) AND (tenant, created, id) > ($1, $2, $3) ORDER BY tenant, created, id LIMIT $4
		), ended AS (
			SELECT tenant, created, id, hash FROM several WHERE state >= 6 AND updated < $5 AND NOT purged ORDER BY tenant, created, id LIMIT $6
		), held AS (
			SELECT op.id, op.hash FROM ended JOIN $schema.op ON op.hash = ended.hash
			WHERE op.id = ended.id AND op.state >= 6 AND op.updated < $5 AND NOT op.purged FOR UPDATE OF op SKIP LOCKED
		), gone AS (
			UPDATE $schema.op SET purged = true, version = op.version + 1, first = NULL, log = '', result = 0
			FROM held WHERE op.hash = held.hash RETURNING op.id
		), emptied AS (
			DELETE FROM $schema.entry USING gone WHERE entry.op = gone.id
		), last AS (
			SELECT * FROM (SELECT tenant, created, id FROM ended ORDER BY tenant DESC, created DESC, id DESC LIMIT 1) AS e WHERE (SELECT count(*) FROM ended) = $6
			UNION ALL SELECT * FROM (SELECT tenant, created, id FROM several ORDER BY tenant DESC, created DESC, id DESC LIMIT 1) AS e
			WHERE (SELECT count(*) FROM ended) < $6
		)
		SELECT (SELECT count(*) FROM gone), tenant, created, id FROM last`, oidText, oidInt8, oidInt8, oidInt8, oidInt8, oidInt8)
	err = s.transaction(ctx, func(c *conn) error {
		purged, next = 0, nil
		params := [][]byte{[]byte(from.tenant), int64Param(from.created), int64Param(from.id), int64Param(int64(scan)), int64Param(before), int64Param(int64(limit))}
		return c.exchange(ctx, s.alone(c, query{st, params, func(v [][]byte) error {
			purged, next = int(int64At(v, 0)), &mark{string(v[1]), int64At(v, 2), int64At(v, 3)}
			return nil
		}})...)
	})
	if err != nil {
		return 0, nil, err
	}
	return purged, next, nil
}

// behind reports whether m lies behind o.
func (m mark) behind(o mark) bool {
	return cmp.Or(strings.Compare(m.tenant, o.tenant), cmp.Compare(m.created, o.created), cmp.Compare(m.id, o.id)) > 0
}
