package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
)

func TestListen(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1"} {
		l, err := gateway.Listen(addr)
		if err == nil {
			l.Close()
			t.Errorf("%s was listened on", addr)
		}
		if addr == ":0" && !strings.Contains(err.Error(), "127.0.0.1:7411") {
			t.Errorf("no way out: %v", err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.0.0.2:0"} {
		l, err := gateway.Listen(addr)
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		l.Close()
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gateway.NewServer(nil, nil).Serve(t.Context(), l); err == nil {
		t.Error("a listener on every address was served")
	}
}

// A stop answers those who wait, lets the others finish, and leaves the attempt
// alone.
func TestServe_Stop(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	listing, goOn, getting := make(chan struct{}), make(chan struct{}), make(chan struct{}, 10)
	r := newRunner(t, p, &inmem.Options{Fault: func(method string) error {
		switch method {
		case "List":
			close(listing)
			<-goOn
		case "Get":
			getting <- struct{}{}
		}
		return nil
	}}, nil)
	s := gateway.NewServer(r, nil)
	l, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, l) }()
	url := "http://" + l.Addr().String()

	type answer struct {
		status int
		body   string
	}
	ask := func(method, path, body string) chan answer {
		c := make(chan answer, 1)
		go func() {
			req, _ := http.NewRequest(method, url+path, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Prefer", "wait=60")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				c <- answer{body: err.Error()}
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			c <- answer{resp.StatusCode, string(b)}
		}()
		return c
	}
	call := ask("POST", "/v1/tool-calls", `{"name":"slow"}`)
	<-p.started
	x, err := r.Explain(t.Context(), justonce.Call{Tool: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	<-getting
	wait := ask("GET", "/v1/tool-calls/"+x.Key+"?wait=60", "")
	list := ask("GET", "/v1/tool-calls", "")
	<-listing
	<-getting
	stop()
	for name, c := range map[string]chan answer{"call": call, "wait": wait} {
		a := <-c
		if want := map[string]int{"call": 202, "wait": 200}[name]; a.status != want || !strings.Contains(a.body, `"state":"running"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	rec := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "http://localhost/readyz", nil)
	s.ServeHTTP(rec, req)
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), "shutting down") {
		t.Errorf("readyz: %d %s", rec.Code, rec.Body)
	}
	rec = httptest.NewRecorder()
	req = httptest.NewRequest("POST", "http://localhost/v1/tool-calls", strings.NewReader(`{"name":"lose"}`))
	req.Header.Set("Content-Type", "application/json")
	s.ServeHTTP(rec, req)
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), "nothing was sent") || rec.Header().Get("Retry-After") == "" {
		t.Errorf("a call: %d %s", rec.Code, rec.Body)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("it still accepts")
	}
	select {
	case err := <-served:
		t.Errorf("Serve returned while a request was under way: %v", err)
	default:
	}
	close(goOn)
	if a := <-list; a.status != 200 || !strings.Contains(a.body, x.Key) {
		t.Errorf("list: %d %s", a.status, a.body)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	p.finish()
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, err := r.Get(t.Context(), justonce.Ref{Key: x.Key}); err != nil || a.Operation.State != justonce.Succeeded || p.sends.Load() != 1 {
		t.Errorf("afterwards: %+v, %v, %d sends", a, err, p.sends.Load())
	}
}

func TestServe_GraceEnds(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	listing, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	r := newRunner(t, p, &inmem.Options{Fault: func(method string) error {
		if method == "List" {
			close(listing)
			<-goOn
		}
		return nil
	}}, nil)
	l, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- gateway.NewServer(r, &gateway.Options{Grace: time.Millisecond}).Serve(ctx, l) }()
	go http.Get("http://" + l.Addr().String() + "/v1/tool-calls")
	<-listing
	stop()
	if err := <-served; err == nil || !strings.Contains(err.Error(), "still under way") {
		t.Errorf("Serve: %v", err)
	}
}
