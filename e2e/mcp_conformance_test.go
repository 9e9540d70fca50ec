package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A conformanceResult is what the MCP project's conformance suite found.
type conformanceResult struct {
	passed, failed int
	checks         []string // "scenario check STATUS", sorted, with repetitions
}

// The directory of a scenario: kind, name, time.
var scenarioDir = regexp.MustCompile(`^(?:server|client)-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

var conformanceTotal = regexp.MustCompile(`(?m)^Total: (\d+) passed, (\d+) failed`)

// conformance runs the suite against a server. cli is a package of the installed
// ones: conformance or conformance-next.
func conformance(t testing.TB, cli, url string, args ...string) conformanceResult {
	t.Helper()
	dir := t.TempDir()
	c := nodeScript(t, cli+"/dist/index.js", append([]string{"server", "--url", url, "--output-dir", dir}, args...)...)
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	total := conformanceTotal.FindStringSubmatch(string(out))
	if total == nil { // its exit code says whether all passed
		t.Fatalf("%s: %v\n%s", cli, err, out)
	}
	var r conformanceResult
	fmt.Sscan(total[1], &r.passed)
	fmt.Sscan(total[2], &r.failed)
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		scenario := scenarioDir.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		b, err := os.ReadFile(file)
		if scenario == nil || err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var checks []struct{ ID, Status string }
		if err := json.Unmarshal(b, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range checks {
			r.checks = append(r.checks, scenario[1]+" "+c.ID+" "+c.Status)
		}
	}
	slices.Sort(r.checks)
	if len(r.checks) < r.passed+r.failed {
		t.Fatalf("%d checks written, %d counted\n%s", len(r.checks), r.passed+r.failed, out)
	}
	return r
}

// everythingFixture starts the server with the tools that the suite asks for.
func everythingFixture(t testing.TB, args ...string) (url string) {
	t.Helper()
	addr := address(t)
	start(t, "", append([]string{program(t, "JUSTONCE_MCP_EVERYTHING"), "-http", addr}, args...)...)
	await(t, 30*time.Second, "the fixture server", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "http://" + addr + "/mcp"
}

// mounted serves an MCP server of another address through justonce.
func mounted(t testing.TB, url string) string {
	t.Helper()
	dir, addr := t.TempDir(), address(t)
	config := filepath.Join(dir, "justonce.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "servers:\n  fixture:\n    url: %s\n", url), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "http://"+addr+"/readyz", binary, "serve", "--config", config, "--store", filepath.Join(dir, "justonce.db"), "--listen", addr)
	return "http://" + addr + "/mcp/fixture"
}

// The suite finds the same through justonce as it does directly, check for
// check. What fails directly is the tasks extension, which the fixture lacks.
func TestMCPConformance(t *testing.T) {
	for _, test := range []struct {
		name           string
		cli            string
		args           []string
		fixture        []string
		passed, failed int
	}{
		{"0.1.16", "conformance", nil, []string{"-stateless=false"}, 40, 0},
		{"2025-11-25", "conformance-next", []string{"--requirements", "2025-11-25"}, []string{"-stateless=false"}, 82, 0},
		{"2026-07-28", "conformance-next", []string{"--requirements", "2026-07-28"}, nil, 165, 30},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := everythingFixture(t, test.fixture...)
			direct := conformance(t, test.cli, url, test.args...)
			if direct.passed != test.passed || direct.failed != test.failed {
				t.Fatalf("direct: %d passed, %d failed; want %d and %d\n%s", direct.passed, direct.failed, test.passed, test.failed,
					strings.Join(direct.failures(), "\n"))
			}
			for _, f := range direct.failures() {
				if !strings.HasPrefix(f, "tasks-") {
					t.Errorf("direct: %s", f)
				}
			}
			through := conformance(t, test.cli, mounted(t, url), test.args...)
			if diff := cmp.Diff(direct.checks, through.checks); diff != "" {
				t.Errorf("(-direct +through justonce):\n%s", diff)
			}
		})
	}
}

func (r conformanceResult) failures() []string {
	return slices.DeleteFunc(slices.Clone(r.checks), func(c string) bool { return !strings.HasSuffix(c, " FAILURE") })
}

// The suite notices a server that does less: a test of the test.
func TestMCPConformance_NoticesLess(t *testing.T) {
	t.Parallel()
	srv := &http.Server{Handler: http.NotFoundHandler()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	r := conformance(t, "conformance", "http://"+ln.Addr().String()+"/mcp")
	if r.passed > 5 || r.failed < 20 {
		t.Errorf("%d passed, %d failed against a server that answers 404", r.passed, r.failed)
	}
}
