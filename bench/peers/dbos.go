package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite"
)

var dbosContestants = []contestant{
	{name: "dbos-pg", setup: "a workflow with one step, the key as workflow ID; pool of 32 (default 20); a duplicate polls every 10 ms (default 1 s)", servers: []string{"postgres"},
		open: func(ctx context.Context, p *place) (caller, error) {
			return openDBOS(ctx, p, p.Postgres+"&pool_max_conns=32")
		}},
	{name: "dbos-sqlite", setup: "the same on SQLite with synchronous=FULL (its default NORMAL may lose commits at power loss)",
		open: func(ctx context.Context, p *place) (caller, error) {
			return openDBOS(ctx, p, "sqlite:"+filepath.Join(p.Dir, "dbos.db")+"?_pragma=synchronous(FULL)")
		}},
}

type dbosCaller struct {
	ctx    dbos.Context
	charge dbos.Workflow[string, string]
}

func openDBOS(ctx context.Context, p *place, url string) (caller, error) {
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "peers", DatabaseURL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	charge := func(ctx dbos.Context, _ string) (string, error) {
		key, err := dbos.GetWorkflowID(ctx)
		if err != nil {
			return "", err
		}
		return dbos.RunAsStep(ctx, func(context.Context) (string, error) { return string(p.effect(key)), nil }, dbos.WithStepName("charge"))
	}
	dbos.RegisterWorkflow(d, charge, dbos.WithWorkflowName("charge"))
	if err := dbos.Launch(d); err != nil {
		return nil, err
	}
	return &dbosCaller{d, charge}, nil
}

func (c *dbosCaller) Call(_ context.Context, key string) (json.RawMessage, error) {
	h, err := dbos.RunWorkflow(c.ctx, c.charge, string(arguments), dbos.WithWorkflowID(key))
	if err != nil {
		return nil, err
	}
	result, err := h.GetResult(dbos.WithHandlePollingInterval(10*time.Millisecond), dbos.WithHandleTimeout(callTimeout))
	return json.RawMessage(result), err
}

func (c *dbosCaller) Close() error { return dbos.Shutdown(c.ctx, 5*time.Second) }
