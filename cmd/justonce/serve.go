package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/sandbox"
)

type serveCmd struct {
	sandboxOf
	servers *mcpServers

	Config        string         `help:"The catalog. Defaults to justonce.yaml if it is there; empty for none." default:"justonce.yaml" env:"JUSTONCE_CONFIG" placeholder:"FILE"`
	Store         string         `help:"The ledger: ${ledger_names}. Defaults to justonce.db." env:"JUSTONCE_STORE" placeholder:"STORE"`
	Listen        string         `help:"The gateway's address; loopback only. Defaults to 127.0.0.1:7411." env:"JUSTONCE_LISTEN" placeholder:"ADDR"`
	Sandbox       string         `help:"on: start the sandbox provider. off: none. A URL: use that one. Defaults to on if no catalog declares tools." env:"JUSTONCE_SANDBOX" placeholder:"on|off|URL"`
	SandboxListen string         `help:"The sandbox's address. Defaults to 127.0.0.1:7412." env:"JUSTONCE_SANDBOX_LISTEN" placeholder:"ADDR"`
	DefaultWait   *time.Duration `help:"How long a call waits that does not say, in whole seconds up to 60s; 0: not at all. Defaults to 30s." env:"JUSTONCE_DEFAULT_WAIT" placeholder:"TIME"`
	Concurrency   *int           `help:"Attempts at a time that nobody waits for. Defaults to 256." env:"JUSTONCE_CONCURRENCY" placeholder:"N"`
	ResultLimit   *size          `help:"Greatest result that is kept whole, in bytes. Defaults to 1 MiB." env:"JUSTONCE_RESULT_LIMIT" placeholder:"BYTES"`
	CacheBytes    *size          `help:"Memory for replays without the ledger; negative: none. Defaults to 8 MiB." env:"JUSTONCE_CACHE_BYTES" placeholder:"BYTES"`
	Poll          *time.Duration `help:"How often to look for what is due. Defaults to 500ms." env:"JUSTONCE_POLL" placeholder:"TIME"`
	Worker        string         `help:"Names the process in histories. Defaults to host and pid." env:"JUSTONCE_WORKER"`
	LogLevel      string         `help:"debug, info, warn or error. Defaults to info." env:"JUSTONCE_LOG_LEVEL" placeholder:"LEVEL"`
	LogFormat     string         `help:"text or json. Defaults to text." env:"JUSTONCE_LOG_FORMAT" placeholder:"FORMAT"`
}

func (*serveCmd) Help() string {
	return `Without arguments: a ledger in ./justonce.db, the gateway on 127.0.0.1:7411, and a
sandbox provider with payment, ticket, mail, post and job tools to try it with, whose
effects are kept beside the ledger (justonce.db.sandbox.jsonl; with a ledger that is
no file in ./justonce.sandbox.jsonl). Any number of gateways share a ledger in PostgreSQL
or Redis.
Every flag has an environment variable and a key in justonce.yaml.

Examples:
  justonce serve
  justonce serve --config examples/stripe.yaml
  justonce serve --store postgres://justonce@db.internal/justonce    password: PGPASSWORD
  justonce serve --sandbox http://127.0.0.1:7412     with a sandbox of its own process`
}

func (c *serveCmd) Run(ctx context.Context, o *output) error {
	c.servers = newMCPServers()
	cat, err := c.load()
	if err != nil {
		return err
	}
	log, err := newLogger(o, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	for _, f := range c.findings(cat) {
		log.Warn("the catalog can be used, but: "+f.Message, "at", f.Position.String(), "rule", f.Rule, "hint", f.Hint)
	}
	tools, err := cat.Tools()
	if err != nil {
		return err
	}
	name, err := cat.Secrets().Expand(ctx, c.Store)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, name, log)
	if err != nil {
		return err
	}
	if storeScheme(name) != "" {
		c.Store = shownStore(name)
	}
	metrics := gateway.NewMetrics()
	work := newOwnWork(store)
	runner, err := justonce.New(work, &justonce.RunnerOptions{
		Tools: tools, ResultLimit: int(*c.ResultLimit), CacheBytes: int(*c.CacheBytes), Concurrency: *c.Concurrency,
		Poll: *c.Poll, Worker: c.Worker, Logger: log, Observer: metrics.Observer(),
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	ln, err := listen(c.Listen, "--listen")
	if err != nil {
		return errors.Join(err, store.Close())
	}
	m := &mounter{mounts: &mounts{handle: map[string]http.Handler{}}, cat: cat, base: filepath.Dir(c.Config), work: work,
		servers: c.servers, runner: runner, decide: decideCommand(c.urlFlag(ln.Addr())), out: o, log: log}
	if err := m.all(ctx); err != nil {
		m.closeCallers()
		return errors.Join(err, m.close(), ln.Close(), store.Close())
	}
	warnOfStranded(ctx, log, runner)
	wait := *c.DefaultWait
	if wait == 0 {
		wait = -1 // to the gateway 0 is its default
	}
	server := gateway.NewServer(runner, &gateway.Options{
		DefaultWait: wait, Metrics: metrics, Logger: log, Version: version(),
		Handle: m.handle, ConnContext: m.connections.ConnContext, ConnState: m.connections.ConnState,
	})
	context.AfterFunc(ctx, func() {
		o.stop() // a second signal ends the process at once
		log.Info("stopping; attempts under way have 30s to end, a second signal ends them at once")
	})
	return errors.Join(c.serve(ctx, o, runner, server, m.mounts, ln, sandboxJournal(name)), store.Close())
}

// serve runs everything until ctx ends, and then stops it in order: requests,
// mounts, worker, attempts under way, sandbox.
func (c *serveCmd) serve(ctx context.Context, o *output, runner *justonce.Runner, server *gateway.Server, m *mounts, ln net.Listener, journal string) error {
	defer m.closeCallers()
	after, stopSandbox := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSandbox()
	var sandboxDone errgroup.Group
	if c.sandboxListener != nil {
		// Beside the ledger, so that both remember the same after a restart.
		p, err := sandbox.New(&sandbox.Options{Journal: journal})
		if err != nil {
			return errors.Join(hint(err, "does another serve use this ledger? then share its sandbox: --sandbox URL"), m.close(), ln.Close(), c.sandboxListener.Close())
		}
		sandboxDone.Go(func() error { return serveSandbox(after, p, c.sandboxListener) })
	}
	c.welcome(ctx, o, runner, m, ln.Addr())
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var worker errgroup.Group
	worker.Go(func() error { return runner.Work(work) })
	worker.Go(func() error { trimMemory(work); return nil })
	err := errors.Join(server.Serve(ctx, m.connections.Listener(ln)), m.close())
	stopWork()
	err = errors.Join(err, worker.Wait())
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err = errors.Join(err, runner.Shutdown(grace))
	stopSandbox()
	return errors.Join(err, sandboxDone.Wait())
}

// urlFlag is what names this gateway to other commands; "" if it is where they
// look anyway.
func (c *serveCmd) urlFlag(addr net.Addr) string {
	if url := "http://" + addr.String(); url != defaultURL {
		return " --url " + url
	}
	return ""
}

func (c *serveCmd) welcome(ctx context.Context, o *output, runner *justonce.Runner, m *mounts, addr net.Addr) {
	url := "http://" + addr.String()
	if o.json {
		urls := []string{}
		for _, p := range m.paths {
			urls = append(urls, url+p.path)
		}
		o.object(map[string]any{"gateway": url, "ledger": c.Store, "sandbox": c.sandboxURL, "mcp": urls})
		return
	}
	row := func(name, value string) { o.printf("  %s %s\n", o.paint(dim, pad(name, 9)), value) }
	o.printf("%s\n", o.paint(bold, "justonce "+version()))
	row("gateway", url)
	ledger := c.Store
	if stats, err := runner.Stats(ctx); err == nil {
		n := int64(0)
		for _, m := range stats.Count {
			n += m
		}
		if n > 0 {
			ledger += fmt.Sprintf("  (%d operations from before, %d wait for a person)", n, stats.Count[justonce.Review])
		}
	}
	row("ledger", ledger)
	tools, _ := runner.Tools(ctx)
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	switch {
	case len(names) > 0:
		row("tools", strings.Join(names, ", "))
	case len(m.paths) == 0:
		row("tools", o.paint(yellow, "none: declare them in justonce.yaml"))
	}
	width := 0
	for _, p := range m.paths {
		width = max(width, len(p.path))
	}
	for i, p := range m.paths {
		name := ""
		if i == 0 {
			name = "mcp"
		}
		note := ""
		if p.note != "" {
			note = strings.Repeat(" ", width-len(p.path)) + "  (" + p.note + ")"
		}
		row(name, url+p.path+note)
	}
	if c.sandboxURL == "" {
		return
	}
	row("sandbox", c.sandboxURL+"  (open it in a browser)")
	if !slices.Contains(names, "payment") {
		o.printf("\n")
		return
	}
	at := c.urlFlag(addr)
	o.printf(`
try it: break the provider's next answer, pay, and pay again

  curl -d '{"service":"payment","kind":"lost_reply"}' %[2]s/faults
  curl -H 'Content-Type: application/json' -H 'Idempotency-Key: shop-1:order-123:pay-v1' \
    -d '{"name":"payment","arguments":{"order_id":"123","amount":9900,"currency":"CNY"}}' \
    %[1]s/v1/tool-calls
  curl %[2]s/effects/count

then: justonce ls%[3]s · justonce show shop-1:order-123:pay-v1%[3]s · justonce tools%[3]s

`, url, c.sandboxURL, at)
}

// warnOfStranded says so if operations wait for tools that nobody declares any
// more: no worker of this process takes them up.
func warnOfStranded(ctx context.Context, log *slog.Logger, runner *justonce.Runner) {
	tools, err := runner.Tools(ctx)
	if err != nil {
		return
	}
	page, err := runner.List(ctx, justonce.Filter{States: []justonce.State{justonce.Pending, justonce.Running, justonce.Unknown}, Limit: 1000})
	if err != nil {
		return
	}
	stranded := map[string]int{}
	for _, op := range page.Operations {
		if !slices.ContainsFunc(tools, func(t justonce.ToolInfo) bool { return t.Name == op.Tool }) {
			stranded[op.Tool]++
		}
	}
	for _, tool := range sortedKeys(stranded) {
		log.Warn("operations wait for a tool that is not declared", "tool", tool, "operations", stranded[tool], "hint", "declare it again, or see: justonce ls --tool "+tool)
	}
}

// findings are the warnings about the file, also about the environment it is
// used in.
func (c *serveCmd) findings(cat *catalog.Catalog) []catalog.Finding {
	if c.Config != "" && fileThere(c.Config) {
		if all, err := catalog.CheckFile(c.Config, &catalog.Options{Connectors: connectors(nil, newMCPServers()), LookupEnv: c.lookupEnv}); err == nil {
			return slices.DeleteFunc(all, func(f catalog.Finding) bool {
				return f.Rule == "no-tools" && c.sandboxURL != "" // it has the sandbox's
			})
		}
	}
	return cat.Findings()
}

// newLogger returns what logs to standard error.
func newLogger(o *output, logLevel, format string) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(logLevel)); err != nil {
		return nil, &usageError{hint(err, "--log-level wants debug, info, warn or error")}
	}
	opts := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(newSparing(slog.NewTextHandler(o.stderr, opts))), nil
	case "json":
		return slog.New(newSparing(slog.NewJSONHandler(o.stderr, opts))), nil
	}
	return nil, &usageError{hint(fmt.Errorf("log format %q", format), "--log-format wants text or json")}
}

// fileThere reports whether the default catalog is there.
func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
