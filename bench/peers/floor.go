package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A floor is the least that somebody could do on PostgreSQL who has nothing in
// mind but speed: an INSERT and an update for each call, the calls that wait
// batched by two writers, reads batched by two readers. It keeps neither
// histories, leases nor identities, and recovers nothing.
type floor struct {
	place  *place
	pool   *pgxpool.Pool
	write  func(ctx context.Context, begun, ended []*floorCall) error
	owner  atomic.Int64
	writes batcher
	reads  batcher
}

type floorCall struct {
	key    string
	owner  int64
	at     int64
	result json.RawMessage // set: the call ends
	found  bool            // the key was there
	err    error
	done   chan struct{}
}

// The two ways of writing a batch in one round trip and one transaction.
type writeFunc func(f *floor, ctx context.Context, begun, ended []*floorCall) error

func openFloor(write writeFunc) func(context.Context, *place) (caller, error) {
	return func(ctx context.Context, p *place) (caller, error) {
		pool, err := openPool(ctx, p.Postgres, 4)
		if err != nil {
			return nil, err
		}
		if _, err := pool.Exec(ctx, pgxTable); err != nil {
			pool.Close()
			return nil, err
		}
		f := &floor{place: p, pool: pool}
		f.owner.Store(rand.Int64() / 2) // other processes number theirs from elsewhere
		f.write = func(ctx context.Context, begun, ended []*floorCall) error { return write(f, ctx, begun, ended) }
		f.writes.start(2, 64, f.commit)
		f.reads.start(2, 16, f.read)
		return f, nil
	}
}

func (f *floor) Call(ctx context.Context, key string) (json.RawMessage, error) {
	c := &floorCall{key: key, owner: f.owner.Add(1), at: time.Now().UnixNano(), done: make(chan struct{}, 1)}
	if f.writes.do(c); c.err != nil {
		return nil, c.err
	}
	if c.found {
		return await(ctx, time.Millisecond, func() (json.RawMessage, error) { return f.Replay(ctx, key) })
	}
	c.result, c.at = f.place.effect(key), time.Now().UnixNano()
	f.writes.do(c)
	return c.result, c.err
}

func (f *floor) Replay(_ context.Context, key string) (json.RawMessage, error) {
	c := &floorCall{key: key, done: make(chan struct{}, 1)}
	f.reads.do(c)
	return c.result, c.err
}

func (f *floor) Close() error {
	f.writes.close()
	f.reads.close()
	f.pool.Close()
	return nil
}

// commit writes a batch. Keys are sorted so that two writers cannot deadlock.
func (f *floor) commit(calls []*floorCall) error {
	slices.SortFunc(calls, func(a, b *floorCall) int { return strings.Compare(a.key, b.key) })
	var begun, ended []*floorCall
	for _, c := range calls {
		if c.result == nil {
			begun = append(begun, c)
		} else {
			ended = append(ended, c)
		}
	}
	return f.write(context.Background(), begun, ended)
}

func unnest(f *floor, ctx context.Context, begun, ended []*floorCall) error {
	var b pgx.Batch
	fresh := 0
	if n := len(begun); n > 0 {
		keys, owners, ats, args := make([]string, n), make([]int64, n), make([]int64, n), make([][]byte, n)
		for i, c := range begun {
			keys[i], owners[i], ats[i], args[i] = c.key, c.owner, c.at, arguments
		}
		b.Queue(`INSERT INTO call (key, owner, tool, state, created, updated, arguments)
			SELECT unnest($1::text[]), unnest($2::bigint[]), 'charge', 2, unnest($3::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]) ON CONFLICT DO NOTHING`,
			keys, owners, ats, args).Exec(rows(&fresh))
	}
	if n := len(ended); n > 0 {
		keys, ats, results, outcomes := make([]string, n), make([]int64, n), make([][]byte, n), make([][]byte, n)
		for i, c := range ended {
			keys[i], ats[i], results[i], outcomes[i] = c.key, c.at, c.result, outcome
		}
		b.Queue(`INSERT INTO call AS c (key, owner, tool, state, created, updated, result, outcome)
			SELECT unnest($1::text[]), 0, 'charge', 6, unnest($2::bigint[]), unnest($2::bigint[]), unnest($3::bytea[]), unnest($4::bytea[])
			ON CONFLICT (key) DO UPDATE SET state = 6, updated = excluded.updated, result = excluded.result, outcome = excluded.outcome`,
			keys, ats, results, outcomes)
	}
	if err := f.pool.SendBatch(ctx, &b).Close(); err != nil || fresh == len(begun) {
		return err
	}
	return f.whose(ctx, begun)
}

// rows notes how many rows a statement wrote.
func rows(n *int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*n = int(tag.RowsAffected())
		return nil
	}
}

// whose finds out which keys were there already.
func (f *floor) whose(ctx context.Context, calls []*floorCall) error {
	owners := make(map[string]int64, len(calls))
	keys := make([]string, len(calls))
	for i, c := range calls {
		keys[i] = c.key
	}
	found, err := f.pool.Query(ctx, `SELECT key, owner FROM call WHERE key = ANY($1)`, keys)
	if err != nil {
		return err
	}
	var key string
	var owner int64
	_, err = pgx.ForEachRow(found, []any{&key, &owner}, func() error {
		owners[key] = owner
		return nil
	})
	for _, c := range calls {
		c.found = owners[c.key] != c.owner
	}
	return err
}

func pipeline(f *floor, ctx context.Context, begun, ended []*floorCall) error {
	var b pgx.Batch
	for _, c := range begun {
		fresh := 0
		b.Queue(`INSERT INTO call (key, owner, tool, state, created, updated, arguments) VALUES ($1, $2, 'charge', 2, $3, $3, $4) ON CONFLICT DO NOTHING`,
			c.key, c.owner, c.at, []byte(arguments)).Exec(rows(&fresh))
		defer func() { c.found = fresh == 0 }()
	}
	for _, c := range ended {
		b.Queue(`UPDATE call SET state = 6, updated = $2, result = $3, outcome = $4 WHERE key = $1`, c.key, c.at, []byte(c.result), outcome)
	}
	return f.pool.SendBatch(ctx, &b).Close()
}

func (f *floor) read(calls []*floorCall) error {
	wanted := make(map[string][]*floorCall, len(calls))
	keys := make([]string, 0, len(calls))
	for _, c := range calls {
		if wanted[c.key] = append(wanted[c.key], c); len(wanted[c.key]) == 1 {
			keys = append(keys, c.key)
		}
	}
	found, err := f.pool.Query(context.Background(), `SELECT key, tool, state, created, updated, result FROM call WHERE key = ANY($1)`, keys)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var key, tool string
		var state int16
		var created, updated int64
		var result []byte
		if err := found.Scan(&key, &tool, &state, &created, &updated, &result); err != nil {
			return fmt.Errorf("reading %d keys: %w", len(keys), err)
		}
		for _, c := range wanted[key] {
			c.result = result
		}
	}
	return found.Err()
}

// A batcher gives what waits to a few workers. A second one works only if it
// has a good batch.
type batcher struct {
	mu      sync.Mutex
	cond    sync.Cond
	list    []*floorCall
	busy    int
	stop    bool
	workers sync.WaitGroup
}

func (q *batcher) start(n, together int, serve func([]*floorCall) error) {
	q.cond.L = &q.mu
	for range n {
		q.workers.Go(func() {
			for batch := q.next(together); batch != nil; batch = q.next(together) {
				err := serve(batch)
				for _, c := range batch {
					c.err = err
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

// next waits for a batch. It is nil after the end.
func (q *batcher) next(together int) []*floorCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 || q.busy > 0 && len(q.list) < together {
		if q.stop {
			return nil
		}
		q.cond.Wait()
	}
	batch := q.list
	q.list = make([]*floorCall, 0, len(batch))
	q.busy++
	return batch
}

func (q *batcher) do(c *floorCall) {
	q.mu.Lock()
	q.list = append(q.list, c)
	q.mu.Unlock()
	q.cond.Signal()
	<-c.done
}

func (q *batcher) close() {
	q.mu.Lock()
	q.stop = true
	q.mu.Unlock()
	q.cond.Broadcast()
	q.workers.Wait()
}
