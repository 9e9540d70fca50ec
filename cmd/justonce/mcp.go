package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"golang.org/x/sync/errgroup"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/mcpproxy"
)

type mcpCmd struct {
	Name             string        `help:"The server's name in the ledger. Defaults to one made of the command." env:"JUSTONCE_MCP_NAME"`
	Store            string        `help:"The ledger: ${ledger_names}. Defaults to the user's own file, see --where." env:"JUSTONCE_MCP_STORE" placeholder:"STORE"`
	Config           string        `help:"A catalog that describes the server or its tools. Defaults to none." env:"JUSTONCE_MCP_CONFIG" placeholder:"FILE"`
	Server           string        `help:"Start this one of the catalog's servers, in place of a command." env:"JUSTONCE_MCP_SERVER" placeholder:"NAME"`
	Mode             string        `help:"enforce: one effect for one intent. observe: hold nothing back, record what would have been. Defaults to enforce." env:"JUSTONCE_MCP_MODE"`
	TrustAnnotations bool          `help:"Believe the server which of its tools are harmless (readOnlyHint, idempotentHint)." env:"JUSTONCE_MCP_TRUST_ANNOTATIONS"`
	Scope            string        `help:"The account, session or user within which equal calls match." env:"JUSTONCE_MCP_SCOPE"`
	IntentKey        []string      `help:"A member of _meta that a client keeps when it repeats a call by itself. Defaults to claudecode/toolUseId." env:"JUSTONCE_MCP_INTENT_KEY" placeholder:"NAME"`
	Timeout          time.Duration `help:"Of a call to a tool that nobody described. Defaults to 1h." env:"JUSTONCE_MCP_TIMEOUT" placeholder:"TIME"`
	DedupeFor        time.Duration `help:"How long an answer that never arrived answers for its call, for tools that nobody described. Defaults to 24h." env:"JUSTONCE_MCP_DEDUPE_FOR" placeholder:"TIME"`
	Wait             time.Duration `help:"How long a call waits for an equal one under way before it is told how things stand. Defaults to 45s." env:"JUSTONCE_MCP_WAIT" placeholder:"TIME"`
	InputWait        time.Duration `help:"How long a call waits for its client to answer the server's questions. Defaults to 10m." env:"JUSTONCE_MCP_INPUT_WAIT" placeholder:"TIME"`
	Linger           time.Duration `help:"How long calls with effects may take to end when the client leaves. Defaults to 5m." env:"JUSTONCE_MCP_LINGER" placeholder:"TIME"`
	ResultLimit      *size         `help:"Greatest result that is kept whole, in bytes. Defaults to 32 MiB." env:"JUSTONCE_MCP_RESULT_LIMIT" placeholder:"BYTES"`
	NoExtras         bool          `help:"Add nothing to what the server says: no tools, no _meta, no notes." env:"JUSTONCE_MCP_NO_EXTRAS"`
	NoTools          bool          `help:"Leave out the tools justonce_status and justonce_wait." env:"JUSTONCE_MCP_NO_TOOLS"`
	LogLevel         string        `help:"debug, info, warn or error, on standard error. Defaults to warn." env:"JUSTONCE_MCP_LOG_LEVEL" placeholder:"LEVEL"`
	LogFormat        string        `help:"text or json. Defaults to text." env:"JUSTONCE_MCP_LOG_FORMAT" placeholder:"FORMAT"`
	Where            bool          `help:"Print where the user's own ledger is, and nothing else."`
	Command          []string      `arg:"" optional:"" passthrough:"partial" help:"The MCP server and its arguments, after --."`
}

func (*mcpCmd) Help() string {
	return `Put it where an agent's configuration names the server's command. In Claude Desktop,
Cursor and others:

  "mcpServers": {
    "tickets": {
      "command": "justonce",
      "args": ["mcp", "--", "npx", "-y", "@acme/tickets-mcp"]
    }
  }

Examples:
  claude mcp add tickets -- justonce mcp -- npx -y @acme/tickets-mcp
  justonce mcp --mode observe -- uvx tickets-mcp      hold nothing back, count
  justonce mcp --config justonce.yaml --server tickets
  justonce ls --store "$(justonce mcp --where)"        what was called
  justonce report                                     what observing has shown`
}

// defaultIntentKeys are those of clients that are known to repeat calls.
var defaultIntentKeys = []string{"claudecode/toolUseId"}

func (c *mcpCmd) Run(ctx context.Context, o *output) error {
	own, err := userLedger(o.env)
	if c.Where {
		if err == nil {
			o.printf("%s\n", own)
		}
		return err
	}
	p, err := c.plan()
	if err != nil {
		return err
	}
	log, err := newLogger(o, cmp.Or(c.LogLevel, "warn"), cmp.Or(c.LogFormat, "text"))
	if err != nil {
		return err
	}
	if c.Store == "" {
		if own == "" {
			return hint(errors.New("there is no place for a ledger of your own: HOME is not set"), "name a file with --store")
		}
		if c.Store = own; os.MkdirAll(filepath.Dir(own), 0o700) != nil {
			return hint(fmt.Errorf("%w: %s cannot be made", justonce.ErrUnavailable, filepath.Dir(own)), "--store names another file; without a ledger nothing is started")
		}
	}
	store, err := openStore(ctx, c.Store, log)
	if err != nil {
		return fmt.Errorf("no MCP server is started without a ledger: %w", err)
	}
	return errors.Join(c.serve(ctx, o, p, store, log), store.Close())
}

// serve stands between the client and the server until one of them is gone or
// ctx ends.
func (c *mcpCmd) serve(ctx context.Context, o *output, p *mcpPlan, store justonce.Store, log *slog.Logger) error {
	limit := size(32 << 20)
	if c.ResultLimit != nil {
		limit = *c.ResultLimit
	}
	ledger := newOwnWork(store)
	runner, err := justonce.New(ledger, &justonce.RunnerOptions{Tools: p.tools, ResultLimit: int(limit), Logger: log})
	if err != nil {
		return err
	}
	p.options.Logger = log
	p.options.Decide = decideCommand(" --store " + shellWord(shownStore(fullPath(c.Store))))
	proxy, err := mcpproxy.New(runner, &p.options)
	if err != nil {
		return &usageError{err}
	}
	p.servers.bind(p.options.Name, proxy)
	ledger.runs(&p.options, infosOf(p.tools), false)
	if err := proxy.Adopt(ctx); err != nil {
		return err
	}
	if f, ok := o.stdin.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		fmt.Fprintf(o.stderr, "justonce: speaking MCP on standard input, as an agent's configuration starts it; see 'justonce mcp --help'. Ctrl-C ends it.\n")
	}

	// A write to a client that has gone must fail, not end the process.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		o.stop() // a second signal ends the process at once
		stop()
	})()

	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var worker errgroup.Group
	worker.Go(func() error { return runner.Work(work) })
	worker.Go(func() error { trimMemory(work); return nil })
	err = proxy.ServeStdio(ctx, &mcpproxy.StdioOptions{In: o.stdin, Out: o.stdout, Linger: p.linger,
		Start: func(handle func([]byte)) (mcpproxy.Peer, error) {
			return mcpconn.Start(&mcpconn.ProcessOptions{Command: p.command, Env: p.env, Dir: p.dir,
				Stderr: o.stderr, Handle: handle, Logger: log})
		}})
	stopWork()
	err = errors.Join(err, worker.Wait())
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, runner.Shutdown(grace))
}

// A mcpPlan is what is started, and what stands in front of it.
type mcpPlan struct {
	command []string
	env     []string
	dir     string
	linger  time.Duration
	options mcpproxy.Options
	tools   []*justonce.Tool
	servers *mcpServers
}

// plan puts flags and catalog together. Flags come first.
func (c *mcpCmd) plan() (*mcpPlan, error) {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	switch {
	case c.Server != "" && c.Config == "":
		return nil, &usageError{hint(errors.New("--server names one of a catalog's servers, and there is no catalog"), "add --config FILE")}
	case c.Server != "" && len(c.Command) > 0:
		return nil, &usageError{hint(errors.New("there is both --server and a command"), "leave one of them out")}
	case c.Server != "" && c.Name != "" && c.Name != c.Server:
		return nil, &usageError{hint(errors.New("a server of the catalog has its name there"), "leave --name out")}
	case c.Server == "" && len(c.Command) == 0:
		return nil, &usageError{hint(errors.New("there is no MCP server to start"), "give its command after --, such as: justonce mcp -- npx -y @modelcontextprotocol/server-memory")}
	}
	if unprintable := func(r rune) bool { return r < ' ' || r > '~' }; len(c.Scope) > justonce.MaxKey || strings.ContainsFunc(c.Scope, unprintable) {
		return nil, &usageError{hint(errors.New("the scope has more than 255 characters, or some that are not printable ASCII"), "--scope wants a name such as team-1")}
	}
	name := cmp.Or(c.Server, c.Name)
	if name == "" {
		name = serverNameOf(c.Command)
	}
	p := &mcpPlan{command: c.Command, servers: newMCPServers()}
	s := &catalog.Server{}
	if c.Config != "" {
		var err error
		if s, err = c.load(p, name); err != nil {
			return nil, err
		}
	}
	p.linger = cmp.Or(c.Linger, s.Linger)
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return nil, err
	}
	c.override(s)
	p.options = proxyOptions(name, s)
	p.options.Tools = p.servers.tools(name)
	p.options.Instance = instanceOf(dir, append(slices.Clone(p.command), accountOf(append(os.Environ(), p.env...))...)...)
	return p, nil
}

// load reads the catalog and returns what it says of the server.
func (c *mcpCmd) load(p *mcpPlan, name string) (*catalog.Server, error) {
	opts := &catalog.Options{Connectors: connectors(nil, p.servers)}
	if c.Server == "" {
		opts.Servers = []string{name}
	}
	cat, err := catalog.Load(c.Config, opts)
	if err != nil {
		return nil, catalogError(err)
	}
	all, err := cat.Tools()
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if strings.HasPrefix(t.Name, name+"/") {
			p.tools = append(p.tools, t)
		}
	}
	if err := c.settings(cat); err != nil {
		return nil, err
	}
	s := cat.Servers()[name]
	switch {
	case s == nil && c.Server == "":
		return &catalog.Server{}, nil // a command of its own, with tools that the file describes
	case s == nil:
		return nil, &usageError{hint(fmt.Errorf("%s has no MCP server %q", c.Config, name), "it has: %s", cmp.Or(strings.Join(sortedKeys(cat.Servers()), ", "), "none"))}
	case c.Server == "":
		return s, nil
	case len(s.Command) == 0:
		return nil, &usageError{hint(fmt.Errorf("the MCP server %q has no command", name), "'justonce serve' stands in front of one with a url; or give a command after --")}
	}
	p.command, p.env, p.dir, err = launch(s, cat.Secrets(), filepath.Dir(c.Config))
	return s, err
}

// settings takes from the catalog what neither flags nor environment say.
func (c *mcpCmd) settings(cat *catalog.Catalog) error {
	text := func(flag string, p *string) {
		if v, ok := cat.Setting(flag); ok && *p == "" {
			*p = v
		}
	}
	text("log-level", &c.LogLevel)
	text("log-format", &c.LogFormat)
	if v, ok := cat.Setting("result-limit"); ok && c.ResultLimit == nil {
		c.ResultLimit = new(size)
		if err := c.ResultLimit.UnmarshalText([]byte(v)); err != nil {
			return err
		}
	}
	if v, ok := cat.Setting("store"); ok && c.Store == "" {
		path, err := cat.Secrets().Expand(context.Background(), v)
		if err != nil {
			return err
		}
		if storeScheme(path) == "" && !filepath.IsAbs(path) { // an agent starts its servers anywhere
			path = filepath.Join(filepath.Dir(c.Config), path)
		}
		c.Store = path
	}
	return nil
}

// override puts the flags over what the catalog says of the server.
func (c *mcpCmd) override(s *catalog.Server) {
	s.Mode = cmp.Or(c.Mode, s.Mode)
	s.Scope = cmp.Or(c.Scope, s.Scope)
	s.Timeout = cmp.Or(c.Timeout, s.Timeout)
	s.DedupeFor = cmp.Or(c.DedupeFor, s.DedupeFor)
	s.Wait = cmp.Or(c.Wait, s.Wait)
	s.InputWait = cmp.Or(c.InputWait, s.InputWait)
	s.TrustAnnotations = c.TrustAnnotations || s.TrustAnnotations
	s.NoExtras = c.NoExtras || s.NoExtras
	s.NoTools = c.NoTools || s.NoTools
	if c.IntentKey != nil {
		s.IntentKeys = slices.Clone(c.IntentKey)
	}
}

// fullPath returns a ledger's name as it holds in any folder.
func fullPath(name string) string {
	if storeScheme(name) != "" {
		return name
	}
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}
