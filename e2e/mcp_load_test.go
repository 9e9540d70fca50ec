package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMCPLoad sends a thousand calls before it reads one answer, and asks for
// results of 20 MB; the proxy neither stops nor keeps the memory.
func TestMCPLoad(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(binary, "mcp", "--store", filepath.Join(dir, "l.db"), "--name", "echo", "--result-limit", "64MiB", "--", os.Args[0])
	cmd.Env = append(os.Environ(), echoServer+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	answers := bufio.NewReaderSize(out, 1<<20)
	read := func() string {
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	io.WriteString(in, `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n")
	read()
	io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")

	const calls = 1000
	var batch strings.Builder
	for i := range calls {
		fmt.Fprintf(&batch, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write","arguments":{"n":%d}}}`+"\n", i, i)
	}
	if _, err := io.WriteString(in, batch.String()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range calls {
		line := read()
		_, rest, _ := strings.Cut(line, `"id":`)
		id, _, _ := strings.Cut(rest, ",")
		if seen[id] || !strings.Contains(line, `"succeeded"`) {
			t.Fatalf("call %s: %.300s", id, line)
		}
		seen[id] = true
	}

	before := memory(t, cmd.Process.Pid)
	for i := range 8 {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":"big%d","method":"tools/call","params":{"name":"big","arguments":{"n":%d}}}`+"\n", i, i)
		if line := read(); len(line) < 20<<20 || !strings.Contains(line[len(line)-300:], `"succeeded"`) {
			t.Fatalf("a result of %d bytes: %.200s", len(line), line)
		}
	}
	peak := memory(t, cmd.Process.Pid)
	// What SQLite and Go keep of it differs from run to run; most of it goes back.
	await(t, time.Minute, "the memory to return", func() bool {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":"p","method":"ping"}`+"\n")
		read()
		return memory(t, cmd.Process.Pid) < before+(peak-before)/2
	})
	t.Logf("resident: %d MiB before, %d at the peak, %d in the end", before>>20, peak>>20, memory(t, cmd.Process.Pid)>>20)
}

// memory returns what a process holds in bytes.
func memory(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Skip("there is no /proc to read memory from")
	}
	var size, resident int64
	fmt.Sscan(string(b), &size, &resident)
	return resident * int64(os.Getpagesize())
}
