package sandbox_test

import (
	"bufio"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce/sandbox"
)

// serveEnv makes the test binary a sandbox of its own, to be killed.
const serveEnv = "SANDBOX_TEST_JOURNAL"

func TestMain(m *testing.M) {
	journal := os.Getenv(serveEnv)
	if journal == "" {
		os.Exit(m.Run())
	}
	p, err := sandbox.New(&sandbox.Options{Journal: journal})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(httptest.NewServer(p).URL)
	bufio.NewReader(os.Stdin).ReadByte() // until it is killed or its parent is gone
}

// TestKilled kills a sandbox under load and looks for every answered effect in what the next one counts.
func TestKilled(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "effects.jsonl")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+journal)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}

	w := start(t, nil) // for its client
	w.url = strings.TrimSpace(address)
	var mu sync.Mutex
	answered := map[string]string{} // body by key
	together(8, func(i int) {
		for n := 0; ; n++ {
			key := fmt.Sprint(i, "-", n)
			r := w.post("/payments", payment, "Idempotency-Key", key)
			if r.err != nil {
				return
			}
			mu.Lock()
			answered[key] = r.body
			if len(answered) == 200 {
				cmd.Process.Kill()
			}
			mu.Unlock()
		}
	})
	cmd.Wait()

	w = start(t, &sandbox.Options{Journal: journal})
	before := w.Count(sandbox.Payment)
	if before < len(answered) || len(answered) < 200 {
		t.Errorf("%d effects are counted, %d were answered", before, len(answered))
	}
	for key, body := range answered {
		if r := w.must(w.post("/payments", payment, "Idempotency-Key", key), 201); r.body != body {
			t.Errorf("%s: got %s, want %s", key, r.body, body)
		}
	}
	w.count(sandbox.Payment, before)
}
