package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A floor is the least that a ledger on the same driver can do: one table with
// a text key, an INSERT and an upsert for each call, the calls that wait
// batched by two writers, a statement for all of a kind, and reads coalesced by
// two readers. It has the durable content of a first call (key, tool, state,
// times, arguments, result and one outcome). It keeps no history, no due or
// creation index, no versions, identities or references, counts nothing, and
// cannot list or claim.
type floor struct {
	pool   *pgxpool.Pool
	table  string
	writes floorQueue
	reads  floorQueue
}

type floorCall struct {
	end    bool
	key    string
	at     int64
	result []byte
	done   chan struct{}
}

type floorQueue struct {
	mu      sync.Mutex
	cond    sync.Cond
	list    []*floorCall
	busy    int
	stop    bool
	workers sync.WaitGroup
}

func openFloor(tb testing.TB) *floor {
	config, err := pgxpool.ParseConfig(benchDSN(tb))
	if err != nil {
		tb.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	f := &floor{pool: pool, table: pgx.Identifier{"floor " + newSchema()}.Sanitize()}
	_, err = pool.Exec(context.Background(), `CREATE TABLE `+f.table+` (key text PRIMARY KEY, tool text NOT NULL, state smallint NOT NULL,
		created bigint NOT NULL, updated bigint NOT NULL, arguments bytea, result bytea, outcome bytea) WITH (fillfactor = 60)`)
	if err != nil {
		tb.Fatal(err)
	}
	f.writes.start(2, 64, f.write)
	f.reads.start(2, 16, f.read)
	tb.Cleanup(func() {
		f.writes.close()
		f.reads.close()
		pool.Close()
	})
	return f
}

// start runs workers. A second one works only if it has a good batch: like the
// store's, which was fastest for the floor as well.
func (q *floorQueue) start(n, together int, serve func([]*floorCall)) {
	q.cond.L = &q.mu
	for range n {
		q.workers.Go(func() {
			var batch []*floorCall
			for {
				q.mu.Lock()
				for len(q.list) == 0 || q.busy > 0 && len(q.list) < together {
					if q.stop {
						q.mu.Unlock()
						return
					}
					q.cond.Wait()
				}
				batch, q.list = q.list, batch[:0]
				q.busy++
				q.mu.Unlock()
				serve(batch)
				for _, c := range batch {
					c.done <- struct{}{}
				}
				q.mu.Lock()
				q.busy--
				q.mu.Unlock()
				q.cond.Signal()
			}
		})
	}
}

func (q *floorQueue) do(c *floorCall) {
	q.mu.Lock()
	q.list = append(q.list, c)
	q.mu.Unlock()
	q.cond.Signal()
	<-c.done
}

func (q *floorQueue) close() {
	q.mu.Lock()
	q.stop = true
	q.mu.Unlock()
	q.cond.Broadcast()
	q.workers.Wait()
}

func (f *floor) write(calls []*floorCall) {
	var keys, ended, tools, endedTools []string
	var ats, endedAts []int64
	var args, results, outcomes [][]byte
	for _, c := range calls {
		if c.end {
			ended, endedTools, endedAts = append(ended, c.key), append(endedTools, "charge"), append(endedAts, c.at)
			results, outcomes = append(results, benchResult), append(outcomes, benchOutcome)
			continue
		}
		keys, tools, ats, args = append(keys, c.key), append(tools, "charge"), append(ats, c.at), append(args, benchArgs)
	}
	var b pgx.Batch
	if len(keys) > 0 {
		b.Queue(`INSERT INTO `+f.table+` (key, tool, state, created, updated, arguments)
			SELECT unnest($1::text[]), unnest($2::text[]), 2, unnest($3::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]) ON CONFLICT DO NOTHING`, keys, tools, ats, args)
	}
	if len(ended) > 0 {
		b.Queue(`INSERT INTO `+f.table+` AS f (key, tool, state, created, updated, result, outcome)
			SELECT unnest($1::text[]), unnest($2::text[]), 6, unnest($3::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]), unnest($5::bytea[])
			ON CONFLICT (key) DO UPDATE SET state = 6, updated = excluded.updated, result = excluded.result, outcome = excluded.outcome`,
			ended, endedTools, endedAts, results, outcomes)
	}
	if err := f.pool.SendBatch(context.Background(), &b).Close(); err != nil {
		panic(err)
	}
}

// call makes one first call: two commits.
func (f *floor) call(key string) {
	c := &floorCall{key: key, at: time.Now().UnixNano(), done: make(chan struct{}, 1)}
	f.writes.do(c)
	c.end, c.at = true, time.Now().UnixNano()
	f.writes.do(c)
}

func (f *floor) read(calls []*floorCall) {
	wanted := make(map[string][]*floorCall, len(calls))
	keys := make([]string, 0, len(calls))
	for _, c := range calls {
		wanted[c.key] = append(wanted[c.key], c)
		keys = append(keys, c.key)
	}
	rows, err := f.pool.Query(context.Background(), `SELECT key, tool, state, created, updated, result FROM `+f.table+` WHERE key = ANY($1)`, keys)
	if err != nil {
		panic(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key, tool string
		var state int16
		var created, updated int64
		var result []byte
		if err := rows.Scan(&key, &tool, &state, &created, &updated, &result); err != nil {
			panic(err)
		}
		for _, c := range wanted[key] {
			c.result = result
		}
	}
	if err := rows.Err(); err != nil {
		panic(err)
	}
}

// get reads one row with its result.
func (f *floor) get(key string) []byte {
	c := &floorCall{key: key, done: make(chan struct{}, 1)}
	f.reads.do(c)
	return c.result
}
