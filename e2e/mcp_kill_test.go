package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var (
	mcpKills = flag.Int("mcp.kills", 12, "intents for each MCP server, each of which meets one death")
	mcpSeed  = flag.Uint64("mcp.seed", 0, "seed of the moments of death; 0: a new one")
)

// What an intent meets with its first call.
const (
	killProxy  = "proxy killed"
	killServer = "server killed"
	killBoth   = "both killed"
	loseAnswer = "answer lost" // between server and proxy: the server dies with it
	loseAgent  = "agent lost"  // it never took the proxy's answer
)

// An agent that calls until it gets an answer, with a server that anybody may
// kill behind whatever front connects them.
type kills struct {
	t      *testing.T
	server effectServer
	front  command
	dir    string // of lossy-pipe
	rng    *rand.Rand
	pace   time.Duration // of a call that meets nothing

	client  *stdioClient // nil: none
	met     map[string]int
	tries   int
	answers map[int]*toolResult // by intent
}

// newKills takes what puts a front before the server.
func newKills(t *testing.T, server effectServer, seed uint64, front func(command) command) *kills {
	t.Helper()
	dir := t.TempDir()
	k := &kills{t: t, server: server, front: front(server.command.lossy(t, dir)), dir: dir,
		rng: rand.New(rand.NewPCG(seed, 0)), met: map[string]int{}, answers: map[int]*toolResult{}}
	k.call("", 0) // warm
	begin := time.Now()
	k.call("", 1)
	k.pace = time.Since(begin)
	return k
}

// run lets each of n more intents meet a death.
func (k *kills) run(n int) {
	k.t.Helper()
	deaths := []string{killProxy, killServer, killBoth, loseAnswer, loseAgent}
	for i := range n {
		k.call(deaths[i%len(deaths)], i+2)
	}
	if k.client != nil {
		k.client.close()
	}
	// Those that still work at something may not end it: nobody waits for it.
	await(k.t, 30*time.Second, "the servers to end", func() bool {
		return k.killServers() == 0
	})
	k.t.Logf("%s: %d calls for %d intents, a call takes %s, met %v", k.server.name, k.tries, len(k.answers), k.pace, k.met)
}

// call has intent i done: calls, and again with equal arguments, until there is
// an answer.
func (k *kills) call(death string, i int) {
	k.t.Helper()
	if death != "" {
		k.met[death]++
	}
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	arguments := k.server.arguments(i)
	for range 20 {
		if !k.connect(ctx) {
			continue
		}
		k.tries++
		c, died := k.client, k.arm(death)
		result, err := c.callTool(ctx, k.server.tool, arguments)
		died()
		first := death
		death = ""
		switch {
		case errors.Is(err, errConnectionLost):
			k.drop()
			continue
		case err != nil:
			k.t.Fatalf("intent %d, %s: %v", i, first, err)
		case first == loseAgent:
			k.drop()
			continue
		case first == killProxy || first == killBoth: // it came before the death
			k.drop()
		}
		k.answers[i] = result
		return
	}
	k.t.Fatalf("intent %d: no answer", i)
}

func (k *kills) connect(ctx context.Context) bool {
	k.t.Helper()
	if k.client != nil {
		return true
	}
	c := startStdio(k.t, k.front)
	_, err := c.initialize(ctx)
	failed := (*rpcFailure)(nil)
	switch {
	case errors.Is(err, errConnectionLost), errors.As(err, &failed): // an old death met the new server
		c.kill()
		return false
	case err != nil:
		k.t.Fatal(err)
	}
	k.client = c
	return true
}

func (k *kills) drop() {
	k.client.kill()
	k.client = nil
}

// arm brings death over the next call, at a random moment of it or a little
// later. The function returned waits for it.
func (k *kills) arm(death string) (wait func()) {
	k.t.Helper()
	var kill func()
	client := k.client
	switch death {
	case killProxy:
		kill = func() { client.cmd.Process.Kill() }
	case killServer:
		kill = func() { k.killServers() }
	case killBoth:
		kill = func() { client.cmd.Process.Kill(); k.killServers() }
	case loseAnswer:
		if err := os.WriteFile(filepath.Join(k.dir, "lose"), nil, 0o600); err != nil {
			k.t.Fatal(err)
		}
		return func() {}
	default:
		return func() {}
	}
	moment := time.Duration(k.rng.Int64N(int64(k.pace) * 5 / 4))
	died := make(chan struct{})
	time.AfterFunc(moment, func() { kill(); close(died) })
	return func() { <-died }
}

// killServers kills all that there are and says how many.
func (k *kills) killServers() (n int) {
	files, _ := filepath.Glob(filepath.Join(k.dir, "control-*"))
	for _, f := range files {
		addr, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if c, err := net.Dial("tcp", string(addr)); err == nil {
			n++
			c.Read(make([]byte, 1)) // until it is done
			c.Close()
		} else {
			os.Remove(f)
		}
	}
	return n
}

// Proxy, server or both are killed at any moment, the answer or the agent is
// lost: no intent has more than one effect, and the ledger tells the truth.
func TestMCPKills(t *testing.T) {
	t.Parallel()
	seed := killSeed(t)
	for name, open := range effectServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir := open(t), t.TempDir()
			store := filepath.Join(dir, "justonce.db")
			k := newKills(t, server, seed, func(c command) command {
				return c.through("--store", store, "--name", server.name, "--config", server.config(t, dir), "--wait", "2s")
			})
			k.run(*mcpKills)
			operations := ledger(t, store)
			if len(operations) != len(k.answers) {
				t.Errorf("%d operations in the ledger for %d intents", len(operations), len(k.answers))
			}
			states := map[string]int{}
			for _, i := range slices.Sorted(maps.Keys(k.answers)) {
				answer, n := k.answers[i], server.effects(i)
				state := operations[answer.Meta.Key]
				states[state]++
				if n > 1 || state == "succeeded" && n != 1 || state == "failed" && n != 0 || state == "" {
					t.Errorf("intent %d: %d effects, in the ledger %q as %q, answered %s", i, n, state, answer.Meta.Key, answer.raw)
				}
			}
			t.Logf("in the ledger: %v", states)
		})
	}
}

// The same without justonce, which shows that the deaths do harm.
func TestMCPKills_Direct(t *testing.T) {
	t.Parallel()
	seed := killSeed(t)
	for name, open := range effectServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := open(t)
			pipe := []string{built(t, "lossy-pipe"), "-dir", t.TempDir(), "-grace", "20s", "--"} // longer than the inner one's
			k := newKills(t, server, seed, func(c command) command { return command{append(pipe, c.args...), c.env} })
			k.run(*mcpKills)
			twice := 0
			for i := range k.answers {
				if server.effects(i) > 1 {
					twice++
				}
			}
			if twice == 0 {
				t.Errorf("no intent of %d had two effects", len(k.answers))
			}
			t.Logf("%d of %d intents had more than one effect", twice, len(k.answers))
		})
	}
}

func killSeed(t *testing.T) uint64 {
	t.Helper()
	seed := *mcpSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-mcp.seed=%d", seed)
	return seed
}

// config declares the server's tool to justonce.
func (s effectServer) config(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "justonce.yaml")
	text := fmt.Sprintf("tools:\n  %s/%s:\n    identity: [%s]\n    mcp: {}\n", s.name, s.tool, s.identity)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ledger returns the state of every operation by its key, as ls and show agree.
func ledger(t testing.TB, store string) map[string]string {
	t.Helper()
	ask := func(v any, args ...string) {
		// The exit code tells the state, so that it may be anything.
		out, err := exec.Command(binary, append(args, "--store", store, "--json")...).Output()
		if json.Unmarshal(out, v) != nil {
			t.Fatalf("justonce %v: %v\n%s", args, err, out)
		}
	}
	states := map[string]string{}
	for cursor := ""; ; {
		var page struct {
			Operations []struct{ Key, State string }
			Next       string
		}
		ask(&page, "ls", "--limit", "100", "--cursor", cursor)
		for _, op := range page.Operations {
			var shown struct{ State string }
			if ask(&shown, "show", op.Key); shown.State != op.State {
				t.Errorf("%s: ls says %s, show says %s", op.Key, op.State, shown.State)
			}
			states[op.Key] = op.State
		}
		if cursor = page.Next; cursor == "" {
			return states
		}
	}
}
