package mcpproxy_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// A thousand calls at once end, in either form, and leave nothing behind.
func TestHTTP_Thousand(t *testing.T) {
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		answer := jsonrpc.Response(m.ID, text(string(jsonrpc.Get(m.Params, "arguments", "n"))))
		if n%2 == 0 {
			events(w, ": ok\n\ndata: %s\n\n", answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}})
	s := set(t, &upstream{}, mcpproxy.Options{NoExtras: true}, nil)
	before := runtime.NumGoroutine()
	func() {
		h := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
		c := client(t)
		var wg sync.WaitGroup
		for n := range 1000 {
			wg.Go(func() {
				a := h.post(t, c, "send", fmt.Sprintf(`{"n":%d}`, n))
				if words(a.msg) != fmt.Sprint(n) {
					t.Errorf("call %d: %d %s", n, a.status, a.body)
				}
			})
		}
		wg.Wait()
		waitFor(t, func() bool { return h.handler.Kept() == 0 })
		c.CloseIdleConnections()
		h.handler.Close()
		h.Close()
	}()
	up.CloseClientConnections()
	waitFor(t, func() bool { return runtime.NumGoroutine() <= before+2 })
	if n := up.count("send"); n != 1000 {
		t.Errorf("%d executions", n)
	}
}

// A result of 20 MB passes in both forms, and nothing of it is held afterwards.
func TestHTTP_Large(t *testing.T) {
	big := strings.Repeat("x", 20<<20)
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		answer := jsonrpc.Response(m.ID, text(big))
		if n == 2 {
			events(w, "data: %s\n\n", answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	c := client(t)
	for n := range 2 {
		if a := m.post(t, c, "send", fmt.Sprintf(`{"n":%d}`, n)); words(a.msg) != big {
			t.Errorf("call %d: %d bytes", n, len(a.body))
		}
	}
	waitFor(t, func() bool { return m.handler.Kept() == 0 })
	heap := func() uint64 {
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return ms.HeapInuse
	}
	if n := heap(); n > 100<<20 {
		t.Errorf("%d MB are in use", n>>20)
	}
}
