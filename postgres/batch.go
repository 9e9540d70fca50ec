package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
)

// What has just been begun is mostly over soon. So that nothing has to be
// written and deleted for each call, the operations that one commit begins, and
// leases, are noted together: as a row of the table batch with their hashes. It
// goes once all of them have ended or are in watch. Those of it whose lease runs
// out, say since the process has died, are moved to watch by the next claim.

// A batch is a row of the table with operations that this process has begun.
type batch struct {
	due, id int64
	left    int // of its operations, with nothing written since
}

// batches holds what this process knows of its own, and before which time no
// batch at all is due.
type batches struct {
	horizon horizon

	mu    sync.Mutex
	of    map[hash]member
	over  []batch   // to be deleted
	since time.Time // the oldest of over
	swept time.Time
}

type member struct {
	*batch
	created int64 // of the operation: one with its key may have been there before
}

const (
	// overTogether makes it worth while to delete batches that are over.
	overTogether = 8
	overEvery    = 100 * time.Millisecond
	mostOver     = 10_000
	// sweepEvery is how often what others have ended is forgotten.
	sweepEvery = time.Minute
)

// gather makes those of rows that run and are due when their lease is over a
// batch. It returns nil if there is none.
func gather(rows []*row) *batch {
	var b *batch
	for _, r := range rows {
		if r.batch = nil; r.state != stRunning || r.due != r.lease {
			continue
		}
		if b == nil {
			b = &batch{due: r.due, id: rand.Int64()}
		}
		b.due = min(b.due, r.due)
		r.batch = b
	}
	return b
}

// begun notes which of new operations, all of one commit, were recorded.
func (bs *batches) begun(rs []*request) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.of == nil {
		bs.of = make(map[hash]member)
	}
	for _, r := range rs {
		if b := r.row.batch; b != nil && r.ok {
			b.left++
			bs.of[r.row.hash] = member{b, r.row.created}
		}
	}
}

// unwatched notes which of rows, replacements all, are only in a batch. Where the
// clock of tests stands still, an operation cannot be told from a later one with
// its key, and all may be in watch.
func (s *Store) unwatched(rows []*row) {
	bs := &s.batches
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, r := range rows {
		m := bs.of[r.hash]
		r.batch = nil
		if r.version == 2 && m.created == r.created && s.o.Now == nil { // moved to watch, it has another version
			r.batch = m.batch
		}
	}
}

// gone notes that rows, replacements all, are written: they have ended or are in
// watch.
func (bs *batches) gone(rows ...*row) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, r := range rows {
		m := bs.of[r.hash]
		if m.batch == nil || m.created != r.created {
			continue
		}
		delete(bs.of, r.hash)
		if m.left--; m.left == 0 {
			if len(bs.over) == 0 {
				bs.since = time.Now()
			}
			bs.over = append(bs.over, *m.batch)
		}
	}
}

// take returns the batches to delete, if it is worth while or all are wanted.
// now is the ledger's.
func (bs *batches) take(now time.Time, all bool) (over []batch) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	real := time.Now()
	if real.Sub(bs.swept) > sweepEvery {
		bs.swept = real
		for h, m := range bs.of {
			if m.due < now.Add(-sweepEvery).UnixNano() {
				delete(bs.of, h)
			}
		}
	}
	if !all && len(bs.over) < overTogether && (len(bs.over) == 0 || real.Sub(bs.since) < overEvery) {
		return nil
	}
	over, bs.over = bs.over, nil
	return over
}

// back returns what was taken and perhaps not deleted: to delete it twice does
// no harm.
func (bs *batches) back(over []batch) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.over = append(bs.over, over...); len(bs.over) > mostOver {
		bs.over = bs.over[:mostOver] // a claim finds the others
	}
}

// drop returns the query that deletes batches.
func (s *Store) drop(over []batch) query {
	var dues, ids array
	dues.reset(oidInt8s)
	ids.reset(oidInt8s)
	for _, b := range over {
		dues.int64(b.due)
		ids.int64(b.id)
	}
	return query{statement: s.st.plain("drop batches", `DELETE FROM $schema.batch USING (SELECT unnest($1), unnest($2)) AS x (due, id)
		WHERE batch.due = x.due AND batch.id = x.id`, oidInt8s, oidInt8s), params: [][]byte{dues.param(), ids.param()}}
}

// dropAll deletes what is over, at the end.
func (s *Store) dropAll() {
	over := s.batches.take(s.Now(), true)
	if len(over) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.transaction(ctx, func(c *conn) error { return c.exchange(ctx, s.alone(c, s.drop(over))...) }) // a claim finds it
}

// dueBatch is what [dueWatch] is for batches.
const dueBatch = ` due >= $2 AND due <= ` + dueTime + ` ORDER BY due`

// memberOp finds the operation of a member by its hash. Without OFFSET 0 the
// planner, who knows nothing of how many members there are, may go through all
// operations instead.
const memberOp = `(SELECT * FROM $schema.op WHERE op.hash = member.hash OFFSET 0) AS op`

// anyBatch asks whether the first lease of a batch is over.
func (s *Store) anyBatch(at []byte, any *bool) query {
	return query{s.st.plain("any batch due", `SELECT true FROM $schema.batch WHERE`+dueBatch+` LIMIT 1`, oidInt8, oidInt8),
		[][]byte{at, int64Param(s.batches.horizon.start())}, func([][]byte) error { *any = true; return nil }}
}

const (
	// expireTogether is how many batches one transaction expires, and
	// expireRounds how many transactions there are before what is in watch has
	// its turn.
	expireTogether = 20
	expireRounds   = 10
)

// expire moves to watch what is left of batches whose first lease is over, as
// far as its own lease is. The versions rise, so that nobody replaces what he has
// not seen. The others, and those that another transaction holds at the moment,
// make a new batch.
func (s *Store) expire(ctx context.Context, at []byte) error {
	st := s.st.plain("expire batches", `WITH expired AS (
			DELETE FROM $schema.batch WHERE (due, id) IN (
				SELECT due, id FROM $schema.batch WHERE`+dueBatch+` LIMIT $3 FOR UPDATE SKIP LOCKED)
			RETURNING id, hashes
		), member AS (
			SELECT op.hash, op.lease FROM (SELECT DISTINCT unnest(hashes) AS hash FROM expired) AS member
			CROSS JOIN LATERAL `+memberOp+` WHERE op.state < 5 AND op.watch IS NULL
		), over AS (
			SELECT op.hash FROM member CROSS JOIN LATERAL (SELECT op.hash FROM $schema.op WHERE op.hash = member.hash
				AND op.state < 5 AND op.watch IS NULL AND op.lease <= `+dueTime+` FOR UPDATE SKIP LOCKED) AS op
		), moved AS (
			UPDATE $schema.op AS op SET version = op.version + 1, watch = op.lease, was = NULL FROM over WHERE op.hash = over.hash
			RETURNING op.lease, op.id, op.created, op.hash, op.state, op.tenant, op.tool
		), watched AS (
			INSERT INTO $schema.watch (due, id, created, lease, hash, state, tenant, tool)
			SELECT lease, id, created, lease, hash, state, tenant, tool FROM moved
		), kept AS (
			INSERT INTO $schema.batch (due, id, hashes)
			SELECT greatest(min(lease), `+dueTime+` + 1000000000), (SELECT min(id) FROM expired), array_agg(hash)
			FROM member WHERE hash NOT IN (SELECT hash FROM over) HAVING count(*) > 0
		) SELECT (SELECT count(*) FROM expired), (SELECT min(lease) FROM moved)`, oidInt8, oidInt8, oidInt8)
	params := [][]byte{at, int64Param(s.batches.horizon.start()), int64Param(expireTogether)}
	for range expireRounds {
		n, first := int64(0), int64(packed.Never)
		err := s.transaction(ctx, func(c *conn) error {
			return c.exchange(ctx, s.alone(c, query{st, params, func(v [][]byte) error {
				if n = int64At(v, 0); v[1] != nil {
					first = int64At(v, 1)
				}
				return nil
			}})...)
		})
		s.horizon.include(first)
		if err != nil || n < expireTogether {
			return err
		}
	}
	return nil
}
