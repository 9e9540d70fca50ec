// Command justonce makes the side effects of AI agents safe to retry: a gateway
// that executes each intent once, and the tools to look after it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	// An empty variable is one that nobody set; to kong it would be a value. To
	// have no catalog is one.
	for _, kv := range os.Environ() {
		if name, v, _ := strings.Cut(kv, "="); v == "" && strings.HasPrefix(name, "JUSTONCE_") && name != "JUSTONCE_CONFIG" {
			os.Unsetenv(name)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], &world{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv, stop: stop})
	stop()
	os.Exit(code)
}

// world is what a command touches outside of itself.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
	stop           func() // gives signals their default meaning back
}

// cli is the command line. What one would set once, and every flag of serve, has
// an environment variable.
type cli struct {
	JSON bool `help:"Print JSON for programs." env:"JUSTONCE_JSON"`

	Serve   serveCmd   `cmd:"" help:"Run the gateway (and, without a configuration, a sandbox provider to try it with)."`
	Demo    demoCmd    `cmd:"" help:"See a flaky charge without and with justonce, and a kill -9 in the middle."`
	MCP     mcpCmd     `cmd:"" name:"mcp" help:"Stand in front of an MCP server, in the place of its command."`
	Call    callCmd    `cmd:"" help:"Call a tool once."`
	Ls      lsCmd      `cmd:"" help:"List operations, newest first."`
	Tools   toolsCmd   `cmd:"" help:"List the tools that can be called."`
	Show    showCmd    `cmd:"" help:"Show one operation and its timeline."`
	Explain explainCmd `cmd:"" help:"Tell which key a call gets, and why, without running it."`
	Resolve resolveCmd `cmd:"" help:"Decide an operation that is in review."`
	Redrive redriveCmd `cmd:"" help:"Send a failed operation once more."`
	Cancel  cancelCmd  `cmd:"" help:"Cancel an operation that was not sent yet."`
	Report  reportCmd  `cmd:"" help:"Tell what observing has shown: which calls were duplicates."`
	Check   checkCmd   `cmd:"" help:"Check justonce.yaml and warn of what makes retries unsafe."`
	Migrate migrateCmd `cmd:"" help:"Bring a ledger to this version's schema."`
	Purge   purgeCmd   `cmd:"" help:"Remove arguments, results and histories of what ended long ago."`
	Sandbox sandboxCmd `cmd:"" help:"Run the sandbox provider by itself."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

const description = `justonce makes the side effects of AI agents safe to retry: one intent, one effect.

  justonce serve                      start the gateway on 127.0.0.1:7411
  justonce demo                       see what it is for, in ten seconds
  justonce call payment '{"order_id":"1","amount":9900,"currency":"CNY"}'
  justonce ls --state review          what waits for a person

Exit codes: 0 done, 1 failed, 2 wrong usage or arguments, 3 not found,
4 conflict or not allowed, 5 not ended yet or not known, 6 a person must decide,
7 gateway or ledger unavailable (nothing was sent).`

// exitPanic is how kong's exit reaches run.
type exitPanic int

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, w *world) (code int) {
	var c cli
	defer func() {
		if v := recover(); v != nil {
			e, ok := v.(exitPanic)
			if !ok {
				panic(v)
			}
			code = int(e)
		}
	}()
	parser, err := kong.New(&c,
		kong.Name("justonce"), kong.Description(description),
		kong.Vars{"default_url": defaultURL, "ledger_names": ledgerNames},
		spans,
		kong.Writers(w.stdout, w.stderr),
		kong.Exit(func(code int) { panic(exitPanic(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		fmt.Fprintln(w.stderr, "justonce:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return newOutput(w, c.JSON || wantsJSON(args, w)).fail(hint(&usageError{err}, "see '%s --help'", commandOf(err)))
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	out := newOutput(w, c.JSON)
	if err := kctx.Run(w, out); err != nil {
		return out.fail(err)
	}
	return out.code
}

// wantsJSON looks where kong did not get to before it found a mistake.
func wantsJSON(args []string, w *world) bool {
	env, _ := strconv.ParseBool(w.env("JUSTONCE_JSON"))
	return env || w.env("JUSTONCE_JSON") == "yes" || slices.Contains(args, "--json")
}

// commandOf names the command that err is about.
func commandOf(err error) string {
	var e *kong.ParseError
	if errors.As(err, &e) && e.Context != nil && e.Context.Selected() != nil {
		return "justonce " + e.Context.Selected().Name
	}
	return "justonce"
}
