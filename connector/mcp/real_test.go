package mcpconn_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

// These tests run against servers that others wrote, where they are installed:
// a Node of version 22 or newer (JUSTONCE_MCP_NODE), a folder of npm packages
// (JUSTONCE_MCP_MODULES), and the Go SDK's everything-server
// (JUSTONCE_MCP_EVERYTHING).

func installed(t *testing.T, variable string) string {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		t.Skip(variable + " is not set")
	}
	return v
}

func node(t *testing.T, script string, args ...string) []string {
	t.Helper()
	return append([]string{installed(t, "JUSTONCE_MCP_NODE"), filepath.Join(installed(t, "JUSTONCE_MCP_MODULES"), script)}, args...)
}

const (
	everythingJS = "@modelcontextprotocol/server-everything/dist/index.js"
	memoryJS     = "@modelcontextprotocol/server-memory/dist/index.js"
)

func realSession(t *testing.T, revision string, command []string, env ...string) *mcpconn.Session {
	t.Helper()
	s := mcpconn.NewSession(&mcpconn.SessionOptions{Revision: revision, Process: mcpconn.ProcessOptions{Command: command, Env: env}})
	t.Cleanup(s.Close)
	return s
}

// serving starts a program that serves HTTP, and returns its URL.
func serving(t *testing.T, command func(addr string) *exec.Cmd) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	c := command(addr)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return "http://" + addr
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			t.Fatal("the server does not listen:", err)
		}
	}
}

func realEndpoint(t *testing.T, revision, url string) *mcpconn.Endpoint {
	t.Helper()
	e, err := mcpconn.NewEndpoint(&mcpconn.EndpointOptions{URL: url, Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// A lister is what both transports are.
type lister interface {
	mcpconn.Caller
	ListTools(ctx context.Context) ([]json.RawMessage, error)
}

// send sends one call through a connector.
func send(t *testing.T, c mcpconn.Caller, tool, args string) justonce.Outcome {
	t.Helper()
	k, err := mcpconn.New(mcpconn.Config{Tool: tool}, c)
	if err != nil {
		t.Fatal(err)
	}
	return k.Send(context.Background(), attempt(args))
}

func TestServerEverything(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) lister{
		"stdio": func(t *testing.T) lister { return realSession(t, "", node(t, everythingJS, "stdio")) },
		"stdio, the new revision first": func(t *testing.T) lister {
			return realSession(t, mcpconn.Revision2026, node(t, everythingJS, "stdio"))
		},
		"http": func(t *testing.T) lister {
			argv := node(t, everythingJS, "streamableHttp")
			return realEndpoint(t, "", serving(t, func(addr string) *exec.Cmd {
				c := exec.Command(argv[0], argv[1:]...)
				_, port, _ := net.SplitHostPort(addr)
				c.Env = append(os.Environ(), "PORT="+port)
				return c
			})+"/mcp")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			if tools, err := c.ListTools(context.Background()); len(tools) < 10 || err != nil {
				t.Errorf("%d tools, %v", len(tools), err)
			}
			o := send(t, c, "echo", `{"message":"fire"}`)
			if o.Kind != justonce.OutcomeSucceeded || string(o.Result) != `{"content":[{"type":"text","text":"Echo: fire"}]}` || o.Note != "" {
				t.Errorf("got %+v", o)
			}
			// Arguments that are wrong come back as a result with isError.
			if o := send(t, c, "get-sum", `{"a":"x"}`); o.Kind != justonce.OutcomeSucceeded || o.Note == "" {
				t.Errorf("got %+v", o)
			}
		})
	}
}

func TestServerMemoryIsAskedAfterwards(t *testing.T) {
	t.Parallel()
	s := realSession(t, "", node(t, memoryJS), "MEMORY_FILE_PATH="+filepath.Join(t.TempDir(), "memory.jsonl"))
	k, err := mcpconn.New(mcpconn.Config{Tool: "create_entities", Lookup: &mcpconn.Lookup{
		Tool: "open_nodes", Arguments: map[string]any{"names": []any{"${args.entities[0].name}"}},
		Items: "json.entities", Match: "item.name == args.entities[0].name", Reference: "item.name",
	}}, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	a := attempt(`{"entities":[{"name":"ada","entityType":"person","observations":["counts"]}]}`)
	if f := k.(justonce.Finder).Lookup(ctx, a); f.Kind != justonce.FindingAbsent {
		t.Errorf("before: %+v", f)
	}
	if o := k.Send(ctx, a); o.Kind != justonce.OutcomeSucceeded || o.Note != "" {
		t.Errorf("got %+v", o)
	}
	f := k.(justonce.Finder).Lookup(ctx, a)
	if f.Kind != justonce.FindingFound || len(f.Matches) != 1 || f.Matches[0].Reference != "ada" {
		t.Errorf("after: %+v", f)
	}
}

func TestTheSDKsEverythingServer(t *testing.T) {
	t.Parallel()
	http := func(revision string, args ...string) func(t *testing.T) lister {
		return func(t *testing.T) lister {
			program := installed(t, "JUSTONCE_MCP_EVERYTHING")
			return realEndpoint(t, revision, serving(t, func(addr string) *exec.Cmd {
				return exec.Command(program, append([]string{"-http", addr}, args...)...)
			})+"/mcp")
		}
	}
	stdio := func(revision string) func(t *testing.T) lister {
		return func(t *testing.T) lister {
			return realSession(t, revision, []string{installed(t, "JUSTONCE_MCP_EVERYTHING")})
		}
	}
	for name, open := range map[string]func(t *testing.T) lister{
		"stdio":                         stdio(""),
		"stdio, 2026-07-28":             stdio(mcpconn.Revision2026),
		"stateful":                      http("", "-stateless=false"),
		"stateful, 2026-07-28 is tried": http(mcpconn.Revision2026, "-stateless=false"),
		"stateless":                     http(""),
		"stateless, 2026-07-28":         http(mcpconn.Revision2026),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			tools, err := c.ListTools(context.Background())
			if len(tools) < 10 || err != nil {
				t.Errorf("%d tools, %v", len(tools), err)
			}
			if o := send(t, c, "test_simple_text", `{}`); o.Kind != justonce.OutcomeSucceeded || o.Note != "" {
				t.Errorf("got %+v", o)
			}
			if o := send(t, c, "test_error_handling", `{}`); o.Kind != justonce.OutcomeSucceeded || o.Note == "" {
				t.Errorf("got %+v", o)
			}
			if o := send(t, c, "test_x_mcp_header", `{"region":"Köln ","level":3}`); o.Kind != justonce.OutcomeSucceeded || o.Note != "" {
				t.Errorf("got %+v %+v", o, o.Failure)
			}
			if o := send(t, c, "test_tool_with_progress", `{}`); o.Kind != justonce.OutcomeSucceeded || o.Note != "" {
				t.Errorf("got %+v", o)
			}
			if o := send(t, c, "no_such_tool", `{}`); o.Kind != justonce.OutcomeRejected || o.Failure.Code != "-32602" {
				t.Errorf("got %+v", o)
			}
			if name == "stateful" {
				// It closes the stream before the answer, and gave no event id to
				// take it up again by.
				if o := send(t, c, "test_reconnection", `{}`); o.Kind != justonce.OutcomeUnknown {
					t.Errorf("got %+v", o)
				}
			}
			if strings.HasSuffix(name, ", 2026-07-28") {
				if o := send(t, c, "test_input_required_result_elicitation", `{}`); o.Kind != justonce.OutcomeWithdrawn {
					t.Errorf("got %+v", o)
				}
			}
		})
	}
}
