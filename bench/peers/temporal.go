package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
)

var temporalContestants = []contestant{
	{name: "temporal", setup: "a workflow with one local activity, started eagerly, the key as workflow ID; one server with all services beside this PostgreSQL (over TCP), plugin postgres12_pgx, 16 history shards, up to 50 connections a service, no limits of rate", servers: []string{"temporal"},
		aside: "its server was put together for this benchmark, not as its makers deploy it", open: openTemporal},
}

const (
	temporalEnv     = "JUSTONCE_TEMPORAL_SERVER"
	temporalToolEnv = "JUSTONCE_TEMPORAL_SQL_TOOL"
	temporalName    = "peers" // of namespace and task queue
)

type temporalCaller struct {
	client client.Client
	worker worker.Worker
	charge func(workflow.Context, string) (string, error)
}

func openTemporal(ctx context.Context, p *place) (caller, error) {
	c, err := client.DialContext(ctx, client.Options{HostPort: p.Temporal, Namespace: temporalName, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return nil, err
	}
	effect := func(_ context.Context, key string) (string, error) { return string(p.effect(key)), nil }
	charge := func(ctx workflow.Context, _ string) (result string, err error) {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{ScheduleToCloseTimeout: callTimeout})
		err = workflow.ExecuteLocalActivity(ctx, effect, workflow.GetInfo(ctx).WorkflowExecution.ID).Get(ctx, &result)
		return result, err
	}
	w := worker.New(c, temporalName, worker.Options{MaxConcurrentWorkflowTaskPollers: 16})
	w.RegisterWorkflowWithOptions(charge, workflow.RegisterOptions{Name: "charge"})
	if err := w.Start(); err != nil {
		c.Close()
		return nil, err
	}
	return &temporalCaller{c, w, charge}, nil
}

func (t *temporalCaller) Call(ctx context.Context, key string) (json.RawMessage, error) {
	run, err := t.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: key, TaskQueue: temporalName, EnableEagerStart: true,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, "charge", string(arguments))
	if err != nil {
		return nil, err
	}
	var result string
	err = run.Get(ctx, &result)
	return json.RawMessage(result), err
}

func (t *temporalCaller) Close() error {
	t.worker.Stop()
	t.client.Close()
	return nil
}

// startTemporal starts a server whose databases are fresh.
func startTemporal(ctx context.Context, dir string, pg *postgresServer) (_ *server, err error) {
	path, err := program(temporalEnv, "temporal-server")
	if err != nil {
		return nil, err
	}
	tool, err := program(temporalToolEnv, "temporal-sql-tool")
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, err
	}
	drop := func() (err error) {
		for _, database := range temporalDatabases {
			err = errors.Join(err, pg.each("postgres", "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)"))
		}
		return errors.Join(err, pg.each("postgres", "CHECKPOINT"))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, drop())
		}
	}()
	for i, database := range temporalDatabases {
		if err := temporalSchema(ctx, tool, pg, database, "postgresql/v12/"+[]string{"temporal", "visibility"}[i]); err != nil {
			return nil, err
		}
	}
	base, err := os.MkdirTemp(dir, "temporal-")
	if err != nil {
		return nil, err
	}
	address, err := temporalConfig(base, pg.Port)
	if err != nil {
		return nil, err
	}
	d, err := startDaemon(path, base, nil, "--config-file", filepath.Join(base, "config.yaml"), "--allow-no-auth", "start")
	if err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(d.stop(), drop()) }
	if err := temporalNamespace(ctx, address); err != nil {
		log, _ := os.ReadFile(filepath.Join(base, "log"))
		d.stop()
		return nil, fmt.Errorf("%w\n%s", err, log[max(0, len(log)-2000):])
	}
	fields := strings.Fields(string(version))
	return &server{
		version: "Temporal " + fields[len(fields)-1],
		pids:    append([]int{d.cmd.Process.Pid}, pg.pids...),
		offer: func(p *place) error {
			p.Temporal = address
			return nil
		},
		settle: func(*place) error { return pg.each(temporalDatabases[0], "VACUUM ANALYZE", "CHECKPOINT") },
		stop:   stop,
	}, nil
}

var temporalDatabases = []string{"temporal", "temporal_visibility"}

// temporalSchema creates a database with one of the schemas that the tool knows.
func temporalSchema(ctx context.Context, tool string, pg *postgresServer, database, schema string) error {
	if err := pg.each("postgres", "CREATE DATABASE "+database); err != nil {
		return err
	}
	for _, do := range [][]string{{"setup-schema", "-v", "0.0"}, {"update-schema", "--schema-name", schema}} {
		args := append([]string{"--plugin", "postgres12_pgx", "--endpoint", "127.0.0.1", "--port", fmt.Sprint(pg.Port), "--user", "ann", "--database", database}, do...)
		if out, err := exec.CommandContext(ctx, tool, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", filepath.Base(tool), do[0], err, out)
		}
	}
	return nil
}

// temporalConfig writes the server's configuration to dir and returns where
// its frontend will be.
func temporalConfig(dir string, postgresPort int) (frontend string, err error) {
	store := func(database string, conns int) map[string]any {
		return map[string]any{"sql": map[string]any{"pluginName": "postgres12_pgx", "databaseName": database, "connectAddr": fmt.Sprintf("127.0.0.1:%d", postgresPort), "connectProtocol": "tcp",
			"user": "ann", "password": "none", "maxConns": conns, "maxIdleConns": conns, "maxConnLifetime": "1h"}}
	}
	services, taken := map[string]any{}, map[int]bool{}
	for _, name := range []string{"frontend", "history", "matching", "worker"} {
		var ports [2]int
		for i := range ports {
			if ports[i], err = lowPort(taken); err != nil {
				return "", err
			}
		}
		services[name] = map[string]any{"rpc": map[string]any{"grpcPort": ports[0], "membershipPort": ports[1], "bindOnLocalHost": true}}
		if name == "frontend" {
			frontend = fmt.Sprintf("127.0.0.1:%d", ports[0])
		}
	}
	config := map[string]any{
		"log": map[string]any{"stdout": true, "level": "error"},
		"persistence": map[string]any{"defaultStore": "main", "visibilityStore": "visibility", "numHistoryShards": 16,
			"datastores": map[string]any{"main": store(temporalDatabases[0], 50), "visibility": store(temporalDatabases[1], 10)}},
		"global":   map[string]any{"membership": map[string]any{"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"}},
		"services": services,
		"clusterMetadata": map[string]any{"enableGlobalNamespace": false, "failoverVersionIncrement": 10, "masterClusterName": "active", "currentClusterName": "active",
			"clusterInformation": map[string]any{"active": map[string]any{"enabled": true, "initialFailoverVersion": 1, "rpcName": "frontend", "rpcAddress": frontend}}},
		"dcRedirectionPolicy": map[string]any{"policy": "noop"},
		"dynamicConfigClient": map[string]any{"filepath": filepath.Join(dir, "dynamic.yaml"), "pollInterval": "1h"},
	}
	value := func(v any) []any { return []any{map[string]any{"value": v}} }
	dynamic := map[string]any{"frontend.rps": value(100_000), "frontend.namespaceRPS": value(100_000), "history.rps": value(100_000), "matching.rps": value(100_000),
		"frontend.persistenceMaxQPS": value(100_000), "history.persistenceMaxQPS": value(100_000), "matching.persistenceMaxQPS": value(100_000)}
	for name, content := range map[string]any{"config.yaml": config, "dynamic.yaml": dynamic} {
		b, err := json.Marshal(content) // JSON is YAML
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	return frontend, nil
}

// lowPort returns a free port that fits the smallint in which the schema keeps
// it, and that is not taken yet.
func lowPort(taken map[int]bool) (int, error) {
	for port := 21000; port < 32768; port++ {
		if taken[port] {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			taken[port] = true
			return port, l.Close()
		}
	}
	return 0, errors.New("no port below 32768 is free")
}

// temporalNamespace registers one as soon as the server serves, and waits
// until it is known.
func temporalNamespace(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := reachable(ctx, address); err != nil {
		return err
	}
	c, err := client.NewNamespaceClient(client.Options{HostPort: address, Logger: temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	registered := false
	for {
		if !registered {
			err = c.Register(ctx, &workflowservice.RegisterNamespaceRequest{Namespace: temporalName, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
			registered = err == nil
		} else if _, err = c.Describe(ctx, temporalName); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("temporal does not serve: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
