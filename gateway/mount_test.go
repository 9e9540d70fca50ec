package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
)

// What is handled beside the gateway's own paths has its own rules; the
// gateway's stay as they are.
func TestHandlesFurtherPaths(t *testing.T) {
	t.Parallel()
	runner, err := justonce.New(inmem.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	type connKey struct{}
	var states atomic.Int64
	stopped := make(chan struct{})
	begun := make(chan struct{})
	server := gateway.NewServer(runner, &gateway.Options{
		Handle: map[string]http.Handler{
			"/other/{name}": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if err != nil || r.Context().Value(connKey{}) == nil {
					t.Error(err, r.Context().Value(connKey{}))
				}
				_, _ = io.WriteString(w, r.PathValue("name"))
				if len(b) < 2<<20 {
					t.Errorf("%d bytes", len(b))
				}
			}),
			"/stream": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(begun)
				<-r.Context().Done()
				close(stopped)
			}),
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(net.Conn, http.ConnState) { states.Add(1) },
	})
	l, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	url := "http://" + l.Addr().String()
	// A large body, under a foreign name: both are the handler's to judge.
	req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/other/x", strings.NewReader(strings.Repeat("x", 2<<20)))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "elsewhere.example"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "x" {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	req, _ = http.NewRequestWithContext(t.Context(), "GET", url+"/v1/tools", nil)
	req.Host = "elsewhere.example"
	if resp, err = http.DefaultClient.Do(req); err != nil || resp.StatusCode != 403 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if states.Load() == 0 {
		t.Error("the connections are not watched")
	}
	go func() {
		if resp, err := http.Get(url + "/stream"); err == nil {
			resp.Body.Close()
		}
	}()
	<-begun
	stop()
	<-stopped
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	metrics := gateway.NewMetrics()
	runner := newRunner(t, p, nil, metrics)
	for range 3 {
		if _, err := runner.Observe(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 9)}); err != nil {
			t.Fatal(err)
		}
	}
	page := httptest.NewRecorder()
	metrics.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	if s := page.Body.String(); !strings.Contains(s, `justonce_observed_total{tool="charge",would="joined"} 2`) {
		t.Error("what is observed is not counted")
	}
	client := newClient(t, start(t, gateway.NewServer(runner, nil)), nil)
	got, err := client.Report(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := runner.Report(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" || got.Tools[0].Calls != 3 {
		t.Error(d, got)
	}
	later, err := client.Report(t.Context(), &justonce.ReportOptions{Since: want.Tools[0].Examples[0].DuplicateAt})
	if err != nil || len(later.Tools) != 0 {
		t.Errorf("%+v, %v", later, err)
	}
	if _, err := client.Report(t.Context(), &justonce.ReportOptions{Tenant: "other"}); err == nil {
		t.Error("another tenant's")
	}
}
