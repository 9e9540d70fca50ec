package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/sqlite"
)

const connections = 64

// A wire is a keep-alive connection of a client that costs next to nothing, so
// that a benchmark measures the server.
type wire struct {
	c net.Conn
	r *bufio.Reader
}

func dial(b *testing.B, addr string) *wire {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return &wire{c, bufio.NewReader(c)}
}

func post(body string) []byte {
	return fmt.Appendf(nil, "POST /v1/tool-calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func (w *wire) exchange(request []byte) error {
	if _, err := w.c.Write(request); err != nil {
		return err
	}
	length, status := 0, ""
	for {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if status == "" {
			status = string(line)
		}
		if v, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(v))
		}
		if len(line) == 2 {
			break
		}
	}
	if _, err := w.r.Discard(length); err != nil {
		return err
	}
	if !strings.Contains(status, " 200 ") {
		return errors.New(strings.TrimSpace(status))
	}
	return nil
}

// hammer shares b.N exchanges between the connections.
func hammer(b *testing.B, addr string, request func(n int64) []byte) {
	b.Helper()
	wires := make([]*wire, connections)
	for i := range wires {
		wires[i] = dial(b, addr)
	}
	share(b, func(i int, n int64) error { return wires[i].exchange(request(n)) })
}

func share(b *testing.B, do func(worker int, n int64) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range connections {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := do(i, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// listen serves h as Server.Serve does and returns the address.
func listen(b *testing.B, h http.Handler) string {
	b.Helper()
	l, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	if s, ok := h.(*gateway.Server); ok {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- s.Serve(ctx, l) }()
		b.Cleanup(func() { cancel(); <-done })
		return l.Addr().String()
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(l)
	b.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

func charging() *justonce.Tool {
	return &justonce.Tool{Name: "charge", Identity: []string{"/order_id"},
		Connector: justonce.Func(func(context.Context, json.RawMessage) (any, error) {
			return json.RawMessage(`{"id":"ch_1","amount":9900,"currency":"CNY","status":"captured"}`), nil
		})}
}

func benchRunner(b *testing.B, store justonce.Store) (*justonce.Runner, *gateway.Metrics) {
	b.Helper()
	m := gateway.NewMetrics()
	r, err := justonce.New(store, &justonce.RunnerOptions{Tools: []*justonce.Tool{charging()}, Observer: m.Observer()})
	if err != nil {
		b.Fatal(err)
	}
	return r, m
}

func chargeBody(n int64) string {
	return fmt.Sprintf(`{"name":"charge","arguments":{"order_id":"%d","amount":9900,"currency":"CNY","note":"two tickets"},"scope":"alice"}`, n)
}

// BenchmarkReplay compares replays through the gateway with a handler that
// decodes a call, and encodes as large an answer, by encoding/json.
func BenchmarkReplay(b *testing.B) {
	request := post(chargeBody(1))
	b.Run("bare", func(b *testing.B) {
		type call struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
			Scope     string          `json:"scope"`
		}
		type answer struct {
			Key         string            `json:"key"`
			Tool        string            `json:"tool"`
			State       string            `json:"state"`
			Replayed    bool              `json:"replayed"`
			Result      json.RawMessage   `json:"result"`
			Fingerprint string            `json:"fingerprint"`
			WireKey     string            `json:"wire_key"`
			CreatedAt   string            `json:"created_at"`
			UpdatedAt   string            `json:"updated_at"`
			Advice      map[string]string `json:"advice"`
		}
		a := &answer{"op_0123456789012345678901234567890123456789", "charge", "succeeded", true,
			json.RawMessage(`{"id":"ch_1","amount":9900,"currency":"CNY","status":"captured"}`),
			strings.Repeat("f", 64), strings.Repeat("e", 32), "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.123456789Z",
			map[string]string{"code": "done", "text": "This was already done; this is the recorded result. Do not call again."}}
		addr := listen(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var c call
			if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Name != "charge" {
				http.Error(w, "no", 400)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(a)
		}))
		hammer(b, addr, func(int64) []byte { return request })
	})
	b.Run("gateway", func(b *testing.B) {
		r, m := benchRunner(b, inmem.New(nil))
		addr := listen(b, gateway.NewServer(r, &gateway.Options{Metrics: m}))
		hammer(b, addr, func(int64) []byte { return request })
	})
}

// BenchmarkFirstCall compares first calls through the gateway with the Runner's
// own, on a ledger in memory, where the Runner costs less than HTTP does, and on
// a durable one.
func BenchmarkFirstCall(b *testing.B) {
	for _, ledger := range []struct {
		name string
		open func(b *testing.B) justonce.Store
	}{
		{"inmem", func(b *testing.B) justonce.Store { return inmem.New(nil) }},
		{"sqlite", func(b *testing.B) justonce.Store {
			st, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "ledger.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { st.Close() })
			return st
		}},
	} {
		b.Run(ledger.name+"/runner", func(b *testing.B) {
			r, _ := benchRunner(b, ledger.open(b))
			share(b, func(_ int, n int64) error {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // as for a caller with patience
				defer cancel()
				_, err := r.Do(ctx, justonce.Call{Tool: "charge", Scope: "alice",
					Arguments: fmt.Appendf(nil, `{"order_id":"%d","amount":9900,"currency":"CNY","note":"two tickets"}`, n)})
				return err
			})
		})
		b.Run(ledger.name+"/gateway", func(b *testing.B) {
			r, m := benchRunner(b, ledger.open(b))
			addr := listen(b, gateway.NewServer(r, &gateway.Options{Metrics: m}))
			hammer(b, addr, func(n int64) []byte { return post(chargeBody(n)) })
		})
	}
}
