package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A ticketServer is flaky-server with a journal and faults of its own.
type ticketServer struct {
	journal, faults string
}

func newTicketServer(t testing.TB) *ticketServer {
	t.Helper()
	s := &ticketServer{journal: filepath.Join(t.TempDir(), "journal.jsonl"), faults: t.TempDir()}
	return s
}

func (s *ticketServer) command(t testing.TB, args ...string) command {
	t.Helper()
	return command{args: append([]string{built(t, "flaky-server"), "-journal", s.journal, "-faults", s.faults}, args...)}
}

// serve starts it over HTTP.
func (s *ticketServer) serve(t testing.TB) (url string) {
	t.Helper()
	addr := address(t)
	start(t, "http://"+addr+"/healthz", s.command(t, "-http", addr).args...)
	return "http://" + addr + "/mcp"
}

// fault arms the next write; its name without extension is returned.
func (s *ticketServer) fault(t testing.TB, kind string) string {
	t.Helper()
	name := filepath.Join(s.faults, "1")
	if err := os.WriteFile(name+"."+kind, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// tickets counts those of a case.
func (s *ticketServer) tickets(t testing.TB, caseID string) (n int) {
	t.Helper()
	b, err := os.ReadFile(s.journal)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var e struct {
			Case string `json:"case_id"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if e.Case == caseID {
			n++
		}
	}
	return n
}

// scenario is what a scripted model of a framework experienced.
type scenario struct {
	Framework   string
	Calls       int
	ToolResults []string `json:"tool_results"`
	Ticket      int      // 0: it never saw one
	Final       string
}

// runScenario lets a framework's scripted model open the ticket "case-1", until
// it sees one or has called three times.
func runScenario(t testing.TB, framework string, args ...string) scenario {
	t.Helper()
	dir := scriptDir(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, "JUSTONCE_MCP_NODE"),
		append([]string{filepath.Join(dir, framework+".mjs"), "--case", "case-1"}, args...)...)
	// A file, not a pipe: servers that outlive the script keep it open.
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	var got scenario
	stdout, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(stdout, &got)
	}
	if err != nil {
		b, _ := os.ReadFile(stderr.Name())
		t.Fatalf("%s: %v\n%s\n%s", framework, err, stdout, b)
	}
	return got
}

// scriptDir holds the scripts with the packages beside them, where Node looks.
func scriptDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(program(t, "JUSTONCE_MCP_MODULES"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/mcp/frameworks")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// frameworks whose models are scripted; claude-agent is run where its packages
// are, by scripts/test-claude.
func frameworks() []string {
	if os.Getenv("JUSTONCE_MCP_CLAUDE") != "" {
		return []string{"claude-agent"}
	}
	return []string{"ai-sdk", "langchain", "openai-agents"}
}

// The ticket is opened and the answer lost, or late. The model sees an error and
// calls again: two tickets without justonce, one with it.
func TestMCPFrameworks(t *testing.T) {
	t.Parallel()
	for _, framework := range frameworks() {
		for _, transport := range []string{"stdio", "http"} {
			for _, fault := range []string{"drop", "wait"} {
				t.Run(framework+"/"+transport+"/"+fault, func(t *testing.T) {
					t.Parallel()
					run := func(t *testing.T, target func(*ticketServer) []string) (scenario, int) {
						s := newTicketServer(t)
						args := []string{"--release", s.fault(t, fault) + ".go"}
						got := runScenario(t, framework, append(args, target(s)...)...)
						t.Logf("%+v", got)
						return got, s.tickets(t, "case-1")
					}
					got, tickets := run(t, func(s *ticketServer) []string {
						if transport == "http" {
							return []string{"--url", s.serve(t)}
						}
						return append([]string{"--"}, s.command(t).args...)
					})
					if tickets < 2 || tickets != got.Calls {
						t.Errorf("direct: %d tickets of %d calls, want one for each of 2", tickets, got.Calls)
					}
					got, tickets = run(t, func(s *ticketServer) []string {
						if transport == "http" {
							return []string{"--url", mounted(t, s.serve(t))}
						}
						return append([]string{"--"}, s.command(t).through("--store", filepath.Join(t.TempDir(), "justonce.db"), "--name", "tickets", "--linger", "1s").args...)
					})
					if tickets != 1 {
						t.Errorf("through justonce: %d tickets, want 1", tickets)
					}
					// A late answer is known; one that never came is not, and a person decides.
					if fault == "wait" && got.Ticket != 1 {
						t.Errorf("through justonce the model never saw ticket 1: %+v", got)
					}
				})
			}
		}
	}
}
