// Package e2e tests the program as its users run it: real processes, real
// sockets, counterparts that nobody here wrote.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var binary string // justonce, built once

func TestMain(m *testing.M) {
	if os.Getenv(echoServer) != "" {
		echo()
	}
	dir, err := os.MkdirTemp("", "justonce-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "justonce")
		build := exec.Command("go", "build", "-o", binary, "../cmd/justonce")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: building justonce:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// A process is a program under test that can be killed and started again.
type process struct {
	t     testing.TB
	args  []string
	env   []string
	ready string // URL that answers 200 once it serves

	mu  sync.Mutex
	cmd *exec.Cmd
	log bytes.Buffer
}

// start runs a program until the test ends.
func start(t testing.TB, ready string, args ...string) *process {
	t.Helper()
	p := &process{t: t, args: args, ready: ready}
	p.run()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(p.args[0]), p.tail())
		}
	})
	return p
}

// Write implements io.Writer for both outputs.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log.Len() > 1<<20 {
		p.log.Reset()
	}
	return p.log.Write(b)
}

func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.log.Bytes()
	return string(b[max(0, len(b)-8<<10):])
}

func (p *process) run() {
	p.t.Helper()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	await(p.t, 30*time.Second, p.args[0]+" to serve", func() bool {
		if p.ready == "" {
			return true
		}
		res, err := http.Get(p.ready)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// kill is SIGKILL: no handler runs, nothing is flushed.
func (p *process) kill() {
	if p.cmd != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		p.cmd = nil
	}
}

// await polls for what another process brings about.
func await(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("waited %s for %s", limit, what)
		case <-tick.C:
		}
	}
}

// address returns a free one on loopback.
func address(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// program returns the path in the environment variable, or skips; where
// counterparts are required it fails.
func program(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		if os.Getenv("JUSTONCE_COUNTERPARTS") == "required" {
			t.Fatalf("%s is not set although counterparts are required", variable)
		}
		t.Skipf("%s is not set; scripts/test installs the counterparts and sets it", variable)
	}
	return path
}

// view is an answer on the wire.
type view struct {
	Status    int `json:"-"`
	Key       string
	Tool      string
	State     string
	Reason    string
	Reference string
	Result    json.RawMessage
	Replayed  bool
	Joined    bool
	Attempts  int
	Paths     []string
	Detail    string
	Advice    struct{ Code, Text string }
	raw       []byte
}

// client sends each request once.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

func request(ctx context.Context, method, url, body string, header ...string) (*view, error) {
	var r io.Reader
	if body != "" {
		r = bytes.NewReader([]byte(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // or net/http repeats it by itself
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	v := &view{Status: res.StatusCode, raw: b}
	if len(b) > 0 && b[0] == '{' {
		if err := json.Unmarshal(b, v); err != nil {
			return nil, fmt.Errorf("%w in %s", err, b)
		}
	}
	return v, nil
}

func mustRequest(t testing.TB, method, url, body string, header ...string) *view {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v, err := request(ctx, method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
