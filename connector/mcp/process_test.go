package mcpconn_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

func start(t *testing.T, o *mcpconn.ProcessOptions, env ...string) *mcpconn.Process {
	t.Helper()
	if o == nil {
		o = &mcpconn.ProcessOptions{}
	}
	o.Command, o.Env = os.Args[:1], env
	p, err := mcpconn.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestLinesGoForthAndBack(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 10)
	p := start(t, &mcpconn.ProcessOptions{Handle: func(line []byte) { lines <- string(line) }}, fakeMode+"=echo")
	for _, line := range []string{`{"n":1}`, "{\n\"n\":\r\n2}", `{"n":"\n"}`} {
		if err := p.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{`{"n":1}`, `{ "n":  2}`, `{"n":"\n"}`} {
		if got := <-lines; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	p.Close()
	if err := p.Err(); err != nil {
		t.Error(err)
	}
	if err := p.Write([]byte(`{}`)); !errors.Is(err, mcpconn.ErrNotSent) {
		t.Errorf("written after the end: %v", err)
	}
}

func TestOnlyMessagesAreHandled(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"half": `{"n":1}`, "chatty": `{"n":1} {"n":2}`} {
		var got []string
		var log lockedBuffer
		p := start(t, &mcpconn.ProcessOptions{Limit: 1000, Logger: logTo(&log),
			Handle: func(line []byte) { got = append(got, string(line)) }}, fakeMode+"="+mode)
		<-p.Done()
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", mode, d)
		}
		if n := strings.Count(log.String(), "skipped a line"); mode == "chatty" && n != 1 {
			t.Errorf("%d warnings:\n%s", n, log.String())
		}
		if strings.Contains(log.String(), "Starting") {
			t.Error("the log has what the server wrote")
		}
	}
}

func TestHowItEndedIsTold(t *testing.T) {
	t.Parallel()
	p := start(t, nil, fakeMode+"=exit 3")
	<-p.Done()
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

func TestAFloodOnStandardErrorHurtsNobody(t *testing.T) {
	t.Parallel()
	got := make(chan struct{})
	w := &gatedWriter{open: make(chan struct{})}
	p := start(t, &mcpconn.ProcessOptions{Stderr: w, Handle: func([]byte) { close(got) }}, fakeMode+"=flood")
	<-got // the child was not held up, though nobody takes what it wrote
	close(w.open)
	<-p.Done()
	if s := w.String(); len(s) > 1<<20 || !strings.Contains(s, "bytes dropped") {
		t.Errorf("%d bytes passed on", len(s))
	}
}

func TestACommandThatIsNotThere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]*mcpconn.ProcessOptions{
		"the command is empty": {},
		"no such program":      {Command: []string{"justonce-no-such-program"}},
		"check the path":       {Command: []string{"/no/such/program"}},
		"check that both":      {Command: []string{"/bin/sh"}, Dir: "/no/such/dir"},
		"is executable":        {Command: []string{file}},
	} {
		if _, err := mcpconn.Start(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", o.Command, err)
		}
	}
}

func TestAChildThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	env, accept := controlled(t, "deaf")
	p := start(t, &mcpconn.ProcessOptions{Limit: 1 << 20}, env...)
	accept()
	line := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	var last *mcpconn.Queued
	for n := 0; ; n++ {
		m, err := p.Queue(line)
		if err != nil {
			if !errors.Is(err, mcpconn.ErrNotSent) || !strings.Contains(err.Error(), "does not read") {
				t.Fatal(err)
			}
			break
		}
		if last = m; n > 20 {
			t.Fatal("the queue has no bound")
		}
	}
	for range 2 {
		if !last.Withdraw() {
			t.Error("a message that waits cannot be taken back")
		}
	}
	if _, err := p.Queue(line); err != nil {
		t.Errorf("what was taken back still counts: %v", err)
	}
	p.Close()
	if !last.Withdraw() {
		t.Error("what was never written counts as written after the end")
	}
}

func TestWhatMayHaveArrivedCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	lines := make(chan []byte, 1)
	p := start(t, &mcpconn.ProcessOptions{Handle: func(line []byte) { lines <- line }}, fakeMode+"=echo")
	m, err := p.Queue([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	<-lines
	if m.Withdraw() {
		t.Error("taken back, though it was answered")
	}
}

func TestWhatAKilledChildMayHaveRead(t *testing.T) {
	t.Parallel()
	env, accept := controlled(t, "sips")
	p := start(t, nil, env...)
	first, err := p.Queue([]byte(`"` + strings.Repeat("x", 1<<20) + `"`)) // more than a pipe holds
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Queue([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	c := accept()
	expect(t, c, "sip")
	kill(t, c.pid)
	<-p.Done()
	if first.Withdraw() {
		t.Error("what the child began to read counts as not sent")
	}
	if !second.Withdraw() {
		t.Error("what was never written counts as sent")
	}
	if _, err := p.Queue([]byte(`{}`)); !errors.Is(err, mcpconn.ErrNotSent) {
		t.Errorf("got %v", err)
	}
}

func TestCloseEndsWhoeverDoesNotWantTo(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	for _, mode := range []string{"stubborn", "deaf"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			env, accept := controlled(t, mode)
			p := start(t, nil, env...)
			c := accept()
			p.Close()
			if mode == "stubborn" {
				expect(t, c, "asked to end")
			}
			if c.lines.Scan() {
				t.Error("it still speaks")
			}
		})
	}
}

func TestWhatAChildLeavesBehindEndsToo(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no process groups")
	}
	env, accept := controlled(t, "leaves one behind")
	p := start(t, nil, env...)
	c := accept()
	if err := p.Write([]byte(`{}`)); err != nil { // the child ends, its own child holds the output
		t.Fatal(err)
	}
	<-p.Done()
	expect(t, c, "asked to end")
	if c.lines.Scan() {
		t.Error("it still speaks")
	}
}

func TestNobodyWaitsForAStandardErrorThatStaysOpen(t *testing.T) {
	t.Parallel()
	env, accept := controlled(t, "leaves one on stderr")
	p := start(t, &mcpconn.ProcessOptions{Stderr: new(lockedBuffer)}, env...)
	accept()
	if err := p.Write([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}

func TestAChildDoesNotOutliveAKilledParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("Linux only")
	}
	env, accept := controlled(t, "parent")
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), env...)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	c := accept()
	if p, err := os.FindProcess(c.pid); err != nil || p.Signal(syscall.Signal(0)) != nil {
		t.Fatal("the child does not run", err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if c.lines.Scan() { // blocks for as long as the child lives
		t.Error("it still speaks")
	}
}

func TestNoGoroutineIsLeft(t *testing.T) {
	// Not parallel: it counts.
	before := runtime.NumGoroutine()
	for _, mode := range []string{"echo", "exit 3", "half", "polite"} {
		p, err := mcpconn.Start(&mcpconn.ProcessOptions{Command: os.Args[:1], Env: []string{fakeMode + "=" + mode}, Stderr: new(lockedBuffer)})
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	_, _ = mcpconn.Start(&mcpconn.ProcessOptions{Command: []string{"/no/such"}, Stderr: new(lockedBuffer)})
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			b := make([]byte, 64<<10)
			t.Fatalf("%d goroutines more\n%s", runtime.NumGoroutine()-before, b[:runtime.Stack(b, true)])
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// gatedWriter blocks until it is opened.
type gatedWriter struct {
	lockedBuffer
	open chan struct{}
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	<-w.open
	return w.lockedBuffer.Write(p)
}
