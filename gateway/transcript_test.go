package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
)

// TestTranscripts sends the requests of testdata/*.txtar over a socket, in
// order, and compares the answers. Date is left out; headers are sorted.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.UTC)
			p := newProvider(t)
			p.result = odd
			addr := serve(t, gateway.NewServer(newRunner(t, p, &inmem.Options{Now: func() time.Time { return now }}, nil), nil))
			var got txtar.Archive
			got.Comment = archive.Comment
			for _, f := range archive.Files {
				if f.Name == "response" {
					continue
				}
				got.Files = append(got.Files, f, txtar.File{Name: "response", Data: exchange(t, addr, f.Data)})
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(&got), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(&got))); d != "" {
				t.Errorf("run with -update to accept:\n%s", d)
			}
		})
	}
}

// serve runs s.Serve until the test ends, and returns its address.
func serve(t testing.TB, s *gateway.Server) string {
	t.Helper()
	l, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// exchange sends a request as it is written in a transcript: a line, headers,
// and a body whose length is filled in.
func exchange(t testing.TB, addr string, request []byte) []byte {
	t.Helper()
	head, body, _ := bytes.Cut(request, []byte("\n\n"))
	body = bytes.TrimSuffix(body, []byte("\n"))
	var b bytes.Buffer
	lines := strings.Split(strings.TrimSpace(string(head)), "\n")
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", lines[0])
	for _, h := range lines[1:] {
		b.WriteString(h + "\r\n")
	}
	if strings.HasPrefix(lines[0], "POST") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	resp := raw(t, addr, b.Bytes())
	var out bytes.Buffer
	fmt.Fprintln(&out, resp.Status)
	var names []string
	for name := range resp.Header {
		if name != "Date" && name != "Connection" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&out, "%s: %s\n", name, strings.Join(resp.Header[name], ", "))
	}
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "\n%s", content)
	return out.Bytes()
}

// raw sends bytes to addr and reads one answer.
func raw(t testing.TB, addr string, request []byte) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go c.Write(request) // the server may answer before it has read all
	method, _, _ := bytes.Cut(request, []byte(" "))
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: string(method)})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
