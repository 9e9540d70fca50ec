package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// echoServer is this test binary as an MCP server that answers at once: what is
// measured is the way there and back.
const echoServer = "JUSTONCE_E2E_ECHO"

func echo() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		_, rest, _ := strings.Cut(line, `"id":`)
		id, _, _ := strings.Cut(rest, ",")
		result := `{"content":[{"type":"text","text":"ok"}]}`
		switch {
		case rest == "":
			continue
		case strings.Contains(line, `"initialize"`):
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
		case strings.Contains(line, `"name":"big"`):
			result = `{"content":[{"type":"text","text":"` + strings.Repeat("x", 20<<20) + `"}]}`
		case strings.Contains(line, `"tools/list"`):
			result = `{"tools":[{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"write","inputSchema":{"type":"object"}}]}`
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
		out.Flush()
	}
}

// A host speaks to a server over pipes, one call after the other.
type host struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
	n   int
}

func newHost(b *testing.B, args ...string) *host {
	b.Helper()
	h := &host{cmd: exec.Command(args[0], args[1:]...)}
	h.cmd.Env = append(os.Environ(), echoServer+"=1")
	h.cmd.Stderr = os.Stderr
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	h.out = bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		h.in.Close()
		h.cmd.Wait()
	})
	h.ask(b, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}`)
	io.WriteString(h.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	h.ask(b, "tools/list", `{}`)
	return h
}

func (h *host) ask(b *testing.B, method, params string) {
	h.n++
	if _, err := fmt.Fprintf(h.in, `{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`+"\n", h.n, method, params); err != nil {
		b.Fatal(err)
	}
	line, err := h.out.ReadString('\n')
	if err != nil || strings.Contains(line, `"isError":true`) || strings.Contains(line, `"error"`) {
		b.Fatalf("%s %v", line, err)
	}
}

// BenchmarkMCP measures what justonce adds to a call over stdio: a direct
// connection and one through 'justonce mcp', call by call in turns, so that a
// noisy machine disturbs both alike.
func BenchmarkMCP(b *testing.B) {
	direct := newHost(b, os.Args[0])
	proxied := newHost(b, binary, "mcp", "--store", filepath.Join(b.TempDir(), "l.db"), "--name", "echo", "--trust-annotations", "--", os.Args[0])
	for _, tool := range []string{"read", "write"} {
		b.Run(tool, func(b *testing.B) {
			var d, p []time.Duration
			i := 0
			for b.Loop() {
				i++
				params := fmt.Sprintf(`{"name":"%s","arguments":{"n":%d}}`, tool, i)
				start := time.Now()
				direct.ask(b, "tools/call", params)
				middle := time.Now()
				proxied.ask(b, "tools/call", params)
				d, p = append(d, middle.Sub(start)), append(p, time.Since(middle))
			}
			b.ReportMetric(at(d, 50), "direct-p50-ms")
			b.ReportMetric(at(p, 50), "proxy-p50-ms")
			b.ReportMetric(at(p, 50)-at(d, 50), "added-p50-ms")
			b.ReportMetric(at(p, 99), "proxy-p99-ms")
		})
	}
}

func at(list []time.Duration, percentile int) float64 {
	slices.Sort(list)
	return float64(list[(len(list)-1)*percentile/100].Microseconds()) / 1e3
}
