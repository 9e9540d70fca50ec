package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

var pgxContestants = []contestant{
	{name: "floor-unnest", setup: "bare pgx: two writers batch INSERT … SELECT unnest and an upsert, a commit for each batch; two readers batch key = ANY; told beforehand what is a replay", servers: []string{"postgres"}, open: openFloor(unnest)},
	{name: "floor-unnest-2", setup: "two processes on one database, each with half of the callers", servers: []string{"postgres"}, processes: 2, open: openFloor(unnest)},
	{name: "floor-pipeline", setup: "the same, a prepared INSERT or UPDATE for each call, pipelined, a commit for each batch", servers: []string{"postgres"}, open: openFloor(pipeline)},
	{name: "pgx-naive", setup: "bare pgx, pool of 16: INSERT … ON CONFLICT DO NOTHING, UPDATE, each its own transaction; a duplicate polls every 5 ms", servers: []string{"postgres"}, open: openNaive},
}

const pgxTable = `CREATE TABLE IF NOT EXISTS call (key text PRIMARY KEY, owner bigint NOT NULL, tool text NOT NULL, state smallint NOT NULL,
	created bigint NOT NULL, updated bigint NOT NULL, arguments bytea, result bytea, outcome bytea) WITH (fillfactor = 60)`

// outcome is what a ledger notes of an attempt.
var outcome = []byte(`{"outcome":"succeeded","fence":1,"http_status":"200"}`)

func openPool(ctx context.Context, dsn string, conns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MinConns, config.MaxConns = conns, conns
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	return pgxpool.NewWithConfig(ctx, config)
}

// naive is what one writes first.
type naive struct {
	pool  *pgxpool.Pool
	place *place
}

func openNaive(ctx context.Context, p *place) (caller, error) {
	pool, err := openPool(ctx, p.Postgres, 16)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, pgxTable); err != nil {
		pool.Close()
		return nil, err
	}
	return &naive{pool, p}, nil
}

func (n *naive) Call(ctx context.Context, key string) (json.RawMessage, error) {
	at := time.Now().UnixNano()
	tag, err := n.pool.Exec(ctx, `INSERT INTO call (key, owner, tool, state, created, updated, arguments) VALUES ($1, 0, 'charge', 2, $2, $2, $3) ON CONFLICT DO NOTHING`, key, at, []byte(arguments))
	if err != nil {
		return nil, err
	}
	if tag.RowsAffected() == 0 {
		return await(ctx, 5*time.Millisecond, func() (result json.RawMessage, err error) {
			err = n.pool.QueryRow(ctx, `SELECT result FROM call WHERE key = $1`, key).Scan((*[]byte)(&result))
			return result, err
		})
	}
	result := n.place.effect(key)
	_, err = n.pool.Exec(ctx, `UPDATE call SET state = 6, updated = $2, result = $3, outcome = $4 WHERE key = $1`, key, time.Now().UnixNano(), []byte(result), outcome)
	return result, err
}

func (n *naive) Close() error {
	n.pool.Close()
	return nil
}

// await asks again and again until there is a result.
func await(ctx context.Context, pause time.Duration, get func() (json.RawMessage, error)) (json.RawMessage, error) {
	for {
		if result, err := get(); err != nil || result != nil {
			return result, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
