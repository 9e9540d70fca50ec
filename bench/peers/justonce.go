package main

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
	"github.com/justonce-dev/justonce/redis"
	"github.com/justonce-dev/justonce/sqlite"
)

var justonceContestants = []contestant{
	{name: "justonce-pg", setup: "Runner.Do on postgres.Open, defaults", servers: []string{"postgres"}, open: openRunner(onPostgres, 0)},
	{name: "justonce-pg-nocache", setup: "the same without the cache of results", servers: []string{"postgres"}, replays: true, open: openRunner(onPostgres, -1)},
	{name: "justonce-pg-2", setup: "two processes on one database, each with half of the callers", servers: []string{"postgres"}, processes: 2, open: openRunner(onPostgres, 0)},
	{name: "justonce-redis", setup: "Runner.Do on redis.Open, defaults", servers: []string{"redis"}, open: openRunner(onRedis, 0)},
	{name: "justonce-redis-nocache", setup: "the same without the cache of results", servers: []string{"redis"}, replays: true, open: openRunner(onRedis, -1)},
	{name: "justonce-sqlite", setup: "Runner.Do on sqlite.Open, defaults (synchronous=FULL)", open: openRunner(onSQLite, 0)},
	{name: "justonce-sqlite-nocache", setup: "the same without the cache of results", replays: true, open: openRunner(onSQLite, -1)},
}

// A ledger is a store with its end.
type ledger interface {
	justonce.Store
	io.Closer
}

func onPostgres(ctx context.Context, p *place) (ledger, error) {
	return postgres.Open(ctx, p.Postgres, nil)
}

func onRedis(ctx context.Context, p *place) (ledger, error) { return redis.Open(ctx, p.Redis, nil) }

func onSQLite(ctx context.Context, p *place) (ledger, error) {
	return sqlite.Open(ctx, filepath.Join(p.Dir, "ledger.db"), nil)
}

type runner struct {
	*justonce.Runner
	store ledger
}

func openRunner(on func(context.Context, *place) (ledger, error), cache int) func(context.Context, *place) (caller, error) {
	return func(ctx context.Context, p *place) (caller, error) {
		store, err := on(ctx, p)
		if err != nil {
			return nil, err
		}
		charge := &justonce.Tool{Name: "charge", Connector: justonce.Func(func(ctx context.Context, _ json.RawMessage) (any, error) {
			return p.effect(justonce.CurrentAttempt(ctx).Key), nil
		})}
		r, err := justonce.New(store, &justonce.RunnerOptions{CacheBytes: cache, Tools: []*justonce.Tool{charge}})
		if err != nil {
			store.Close()
			return nil, err
		}
		return &runner{r, store}, nil
	}
}

func (r *runner) Call(ctx context.Context, key string) (json.RawMessage, error) {
	a, err := r.Do(ctx, justonce.Call{Tool: "charge", Key: key, Scope: "account-1", RunID: "run-1", Arguments: arguments})
	if err != nil {
		return nil, err
	}
	return a.Operation.Result, a.Err()
}

func (r *runner) Close() error {
	err := r.Shutdown(context.Background())
	r.store.Close()
	return err
}
