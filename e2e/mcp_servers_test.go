package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lists asks a server for all it has, as it came.
func lists(t *testing.T, c command) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := startStdio(t, c)
	if _, err := s.initialize(ctx); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		results, err := s.pages(ctx, method)
		if failed := (*rpcFailure)(nil); errors.As(err, &failed) {
			results = append(results, failed.Error()) // a server without prompts says so
		} else if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		all[method] = results
	}
	if len(all["tools/list"]) == 0 || len(all["tools/list"][0]) < 100 {
		t.Fatalf("no tools: %s", all["tools/list"])
	}
	return all
}

// With its additions switched off the proxy shows a server as it is, byte for
// byte.
func TestMCPServers_ListsUnchanged(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(t testing.TB) command{
		"everything": func(t testing.TB) command { return everythingServer(t) },
		"filesystem": func(t testing.TB) command { return filesystemServer(t, resolved(t)) },
		"memory":     memoryServer,
		"git":        func(t testing.TB) command { return gitServer(t, resolved(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := server(t)
			direct := lists(t, c)
			if diff := cmp.Diff(direct, lists(t, c)); diff != "" {
				t.Fatalf("the server itself answers differently (-first +second):\n%s", diff)
			}
			got := lists(t, c.through("--no-extras", "--store", filepath.Join(t.TempDir(), "justonce.db"), "--name", name))
			if diff := cmp.Diff(direct, got); diff != "" {
				t.Errorf("(-direct +through justonce):\n%s", diff)
			}
		})
	}
}

// What happens without justonce: the answer is lost, the client starts the
// server again and repeats the call, and the effect is there twice.
func TestMCPServers_DirectRepeat(t *testing.T) {
	t.Parallel()
	for name, open := range effectServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			connect := func() *stdioClient {
				c := startStdio(t, s.command.lossy(t, dir))
				if _, err := c.initialize(ctx); err != nil {
					t.Fatal(err)
				}
				return c
			}
			if err := os.WriteFile(filepath.Join(dir, "lose"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := connect().callTool(ctx, s.tool, s.arguments(1)); !errors.Is(err, errConnectionLost) {
				t.Fatalf("the answer was not lost: %v, %+v", err, r)
			}
			r, err := connect().callTool(ctx, s.tool, s.arguments(1))
			if err != nil {
				t.Fatal(err)
			}
			if r.IsError {
				t.Errorf("the repeat: %s", r.raw)
			}
			if n := s.effects(1); n != 2 {
				t.Errorf("%d effects of a call and its repeat, want 2", n)
			}
			if n := s.effects(2); n != 0 {
				t.Errorf("%d effects of a call that was not made", n)
			}
		})
	}
}
