package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/internal/redistest"
)

var update = flag.Bool("update", false, "rewrite the scripts' expected outputs")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"justonce": main, "ticket-server": ticketServer})
}

func TestScripts(t *testing.T) { runScripts(t, "testdata/script", nil, nil) }

// The ledger is in a Redis of which REDISURL is the URL; redis sends it a command.
func TestRedisScripts(t *testing.T) {
	redistest.Skip(t)
	server, err := redistest.Start("appendfsync=everysec")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	setup := func(e *testscript.Env) { e.Setenv("REDISURL", fmt.Sprintf("redis://127.0.0.1:%d", server.Port)) }
	runScripts(t, "testdata/redis", setup, map[string]func(*testscript.TestScript, bool, []string){
		"redis": func(ts *testscript.TestScript, _ bool, args []string) {
			out, err := server.Do(args...)
			ts.Check(err)
			ts.Logf("%s", out)
		},
	})
}

// runScripts runs the scripts in dir, with what setup and more add.
func runScripts(t *testing.T, dir string, setup func(*testscript.Env), more map[string]func(*testscript.TestScript, bool, []string)) {
	cmds := map[string]func(*testscript.TestScript, bool, []string){
		"await": await, "post": postCmd, "answers": answers, "rpc": rpcCmd, "postgres": postgresCmd,
	}
	maps.Copy(cmds, more)
	testscript.Run(t, testscript.Params{
		Dir:           dir,
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"GATEWAY", "SANDBOX"} {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				e.Setenv(name, ln.Addr().String())
				ln.Close()
			}
			e.Setenv("JUSTONCE_LISTEN", e.Getenv("GATEWAY"))
			e.Setenv("JUSTONCE_SANDBOX_LISTEN", e.Getenv("SANDBOX"))
			e.Setenv("JUSTONCE_URL", "http://"+e.Getenv("GATEWAY"))
			e.Setenv("JUSTONCE_ACTOR", "ann")
			if setup != nil {
				setup(e)
			}
			return nil
		},
		Cmds: cmds,
		Condition: func(cond string) (bool, error) {
			if cond != "postgres" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			why := pgtest.Missing()
			if why != "" && os.Getenv("JUSTONCE_COUNTERPARTS") == "required" {
				return false, fmt.Errorf("%s although counterparts are required", why)
			}
			return why == "", nil
		},
	})
}

// postgresCmd starts a server until the end of the script, with a database named
// ledger and a role that may nothing. PGADDRESS is where it is, and PGURL that as
// a URL, to which the name of a database is to be added.
func postgresCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: postgres")
	}
	server, err := pgtest.Start("fsync=off")
	ts.Check(err)
	ts.Defer(func() { ts.Check(server.Stop()) })
	for _, statement := range []string{"CREATE DATABASE ledger", "CREATE ROLE poor LOGIN"} {
		_, err := server.Query("postgres", statement)
		ts.Check(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port))
	ts.Setenv("PGADDRESS", address)
	ts.Setenv("PGURL", "postgresql://ann@"+address)
}

// await waits until a URL answers 200.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := until(ctx, 20*time.Second, func() bool {
		status, _, err := get(ctx, args[0])
		return err == nil && status == http.StatusOK
	})
	ts.Check(err)
}

// postCmd sends a JSON body, prints the answer to the log, and wants the status
// that is given, or any that is no error.
func postCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: post URL BODY [STATUS]")
	}
	status, body, err := post(context.Background(), args[0], "", args[1])
	ts.Check(err)
	ts.Logf("%d %s", status, body)
	if len(args) == 3 && args[2] != strconv.Itoa(status) || len(args) == 2 && status >= 400 {
		ts.Fatalf("%s answered %d", args[0], status)
	}
}

// answers compares what a URL answers with a regular expression.
func answers(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: answers URL REGEXP")
	}
	_, body, err := get(context.Background(), args[0])
	ts.Check(err)
	if regexp.MustCompile(args[1]).Match(body) == neg {
		ts.Fatalf("%s answered %s", args[0], body)
	}
}
