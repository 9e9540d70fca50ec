package sandbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/sandbox"
)

// clock is time that moves when a test says so.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// timers hands every delay to the test: it is told of it on started and ends it by sending on fire.
type timers struct {
	started chan time.Duration
	fire    chan time.Time
}

func newTimers() *timers {
	return &timers{started: make(chan time.Duration), fire: make(chan time.Time)}
}

func (t *timers) After(d time.Duration) <-chan time.Time {
	t.started <- d
	return t.fire
}

// world is a provider behind a real socket.
type world struct {
	t *testing.T
	*sandbox.Provider
	url    string
	server *httptest.Server
	client *http.Client
}

func start(t *testing.T, opt *sandbox.Options) *world {
	t.Helper()
	p, err := sandbox.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		server.Close()
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return &world{t, p, server.URL, server, client}
}

type response struct {
	status int
	header http.Header
	body   string
	err    error // of the request or of reading the body
}

// do sends a request; headers are pairs of name and value.
func (w *world) do(method, path, body string, headers ...string) response {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return response{err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(data), err}
}

func (w *world) post(path, body string, headers ...string) response {
	w.t.Helper()
	return w.do(http.MethodPost, path, body, headers...)
}

func (w *world) get(path string, headers ...string) response {
	w.t.Helper()
	return w.do(http.MethodGet, path, "", headers...)
}

// must fails the test unless the answer has the status.
func (w *world) must(r response, status int) response {
	w.t.Helper()
	if r.err != nil || r.status != status {
		w.t.Fatalf("got status %d, error %v, body %s; want status %d", r.status, r.err, r.body, status)
	}
	return r
}

// count fails the test unless the service has had so many effects, as the provider itself and its
// HTTP surface have it.
func (w *world) count(service string, want int) {
	w.t.Helper()
	if got := w.Count(service); got != want {
		w.t.Fatalf("%s: got %d effects, want %d", service, got, want)
	}
	r := w.must(w.get("/effects/count?service="+service), http.StatusOK)
	if got := field[float64](w.t, r.body, "count"); int(got) != want {
		w.t.Fatalf("%s: /effects/count says %v, want %d", service, got, want)
	}
}

func (w *world) inject(f sandbox.Fault) {
	w.t.Helper()
	if err := w.Inject(f); err != nil {
		w.t.Fatal(err)
	}
}

// field reads a member of a JSON object by its path.
func field[T any](t *testing.T, body string, path ...string) T {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	got, ok := v.(T)
	if !ok {
		t.Fatalf("%v is a %T in %s", path, v, body)
	}
	return got
}

func code(t *testing.T, r response) string {
	t.Helper()
	return field[string](t, r.body, "error", "code")
}

const payment = `{"amount":500,"currency":"EUR","order_id":"A-1"}`
