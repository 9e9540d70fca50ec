package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
)

func TestNewClient(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "127.0.0.1:7411", "ftp://a", "http://", "http://u:secret@a", "http://a?b=c", "http://a#b", "http://a:secret"} {
		if _, err := gateway.NewClient(url, nil); err == nil {
			t.Errorf("%q was taken", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// A losing handler carries requests out and loses the first answers.
type losing struct {
	next  http.Handler
	lose  atomic.Int64
	mu    sync.Mutex
	calls []string
}

func (l *losing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.calls = append(l.calls, r.Method+" "+r.URL.Path)
	l.mu.Unlock()
	if l.lose.Add(-1) < 0 {
		l.next.ServeHTTP(w, r)
		return
	}
	l.next.ServeHTTP(httptest.NewRecorder(), r)
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	c.Close()
}

func (l *losing) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(l.calls), func(c string) bool { return c != what }))
}

func TestClient_LostAnswers(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, lose int64) (*gateway.Client, *losing, *provider) {
		p := newProvider(t)
		l := &losing{next: gateway.NewServer(newRunner(t, p, nil, nil), nil)}
		l.lose.Store(lose)
		return newClient(t, start(t, l), nil), l, p
	}
	t.Run("with a key the call is repeated", func(t *testing.T) {
		t.Parallel()
		c, l, p := open(t, 2)
		a, err := c.Do(t.Context(), justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 1)})
		if err != nil || a.Operation.State != justonce.Succeeded || !a.Replayed || p.sends.Load() != 1 || l.count("POST /v1/tool-calls") != 3 {
			t.Errorf("%+v, %v, %d sends, %v", a, err, p.sends.Load(), l.calls)
		}
	})
	t.Run("not for ever", func(t *testing.T) {
		t.Parallel()
		c, l, p := open(t, 100)
		_, err := c.Do(t.Context(), justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 1)})
		if !errors.Is(err, gateway.ErrNoAnswer) || errors.Is(err, justonce.ErrUnavailable) || p.sends.Load() != 1 || l.count("POST /v1/tool-calls") != 4 {
			t.Errorf("%v, %d sends, %v", err, p.sends.Load(), l.calls)
		}
	})
	t.Run("without a key it is not", func(t *testing.T) {
		t.Parallel()
		c, l, p := open(t, 1)
		_, err := c.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if !errors.Is(err, gateway.ErrNoAnswer) || errors.Is(err, justonce.ErrUnavailable) || p.sends.Load() != 1 || l.count("POST /v1/tool-calls") != 1 {
			t.Errorf("%v, %d sends, %v", err, p.sends.Load(), l.calls)
		}
	})
	t.Run("decisions are not", func(t *testing.T) {
		t.Parallel()
		c, l, _ := open(t, 0)
		ref := must(t, c, justonce.Call{Tool: "lose", Key: "k"}).Operation.Ref
		l.lose.Store(1)
		_, err := c.Decide(t.Context(), ref, justonce.Decision{Verdict: justonce.Cancel, Actor: "ann", Reason: "r"})
		if !errors.Is(err, gateway.ErrNoAnswer) || l.count("POST /v1/tool-calls/k/resolve") != 1 {
			t.Errorf("%v, %v", err, l.calls)
		}
	})
	t.Run("reads are", func(t *testing.T) {
		t.Parallel()
		c, l, _ := open(t, 0)
		ref := must(t, c, justonce.Call{Tool: "lose", Key: "k"}).Operation.Ref
		l.lose.Store(3)
		if _, err := c.Get(t.Context(), ref); err != nil || l.count("GET /v1/tool-calls/k") != 4 {
			t.Errorf("%v, %v", err, l.calls)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// That the last try reached nobody says nothing of the one before.
func TestClient_LostThenUnreachable(t *testing.T) {
	t.Parallel()
	tries := 0
	c := newClient(t, "http://127.0.0.1:1", &gateway.ClientOptions{HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		if tries++; tries == 1 {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	})}})
	_, err := c.Do(t.Context(), justonce.Call{Tool: "charge", Key: "k"})
	if !errors.Is(err, gateway.ErrNoAnswer) || errors.Is(err, justonce.ErrUnavailable) || tries != 4 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// That the ledger is gone is told whatever came before: neither a lost answer nor
// one that says "running" means then that the call may be made again.
func TestClient_LedgerGone(t *testing.T) {
	t.Parallel()
	gone, err := json.Marshal(gateway.Problem{Type: "https://justonce.dev/problems/ledger-gone", Title: "The ledger is gone", Status: 503})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(status int, media, body string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}
	}
	for name, first := range map[string]func() (*http.Response, error){
		"at once":          nil,
		"after a lost one": func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"after one that ran": func() (*http.Response, error) {
			return answer(202, "application/json", `{"key":"k","tool":"charge","state":"running"}`), nil
		},
	} {
		tries := 0
		c := newClient(t, "http://127.0.0.1:1", &gateway.ClientOptions{HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			if tries++; tries == 1 && first != nil {
				return first()
			}
			return answer(503, "application/problem+json", string(gone)), nil
		})}})
		want := 2
		if first == nil {
			want = 1
		}
		a, err := c.Do(t.Context(), justonce.Call{Tool: "charge", Key: "k"})
		if !errors.Is(err, justonce.ErrLedgerGone) || errors.Is(err, gateway.ErrNoAnswer) || tries != want {
			t.Errorf("%s: %+v, %v after %d tries, want ErrLedgerGone after %d", name, a, err, tries, want)
		}
	}
}

// net/http sends a POST with an Idempotency-Key again by itself when a
// connection that was kept alive turns out dead. This client's must not be.
func TestClient_NothingRepeatsBehindItsBack(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var requests atomic.Int64
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"tools":[]}`)
			return
		}
		requests.Add(1)
		c, _, _ := http.NewResponseController(w).Hijack()
		c.Close()
	})}
	go srv.Serve(l)
	defer srv.Close()
	c := newClient(t, "http://"+l.Addr().String(), &gateway.ClientOptions{Retries: -1})
	if _, err := c.Tools(t.Context()); err != nil { // keeps a connection
		t.Fatal(err)
	}
	_, err = c.Do(t.Context(), justonce.Call{Tool: "charge", Key: "k"})
	if !errors.Is(err, gateway.ErrNoAnswer) || requests.Load() != 1 {
		t.Errorf("%v after %d requests, want 1", err, requests.Load())
	}
}

func TestClient_Unavailable(t *testing.T) {
	t.Parallel()
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		c := newClient(t, "http://"+l.Addr().String(), nil)
		_, err = c.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		var op *net.OpError
		if !errors.Is(err, justonce.ErrUnavailable) || errors.Is(err, gateway.ErrNoAnswer) || !errors.As(err, &op) || op.Op != "dial" {
			t.Error(err)
		}
	})
	t.Run("the ledger fails", func(t *testing.T) {
		t.Parallel()
		p := newProvider(t)
		var begins atomic.Int64
		r := newRunner(t, p, &inmem.Options{Fault: func(method string) error {
			if method == "Begin" && begins.Add(1) == 1 {
				return errors.New("dial postgres://user:secret@host")
			}
			return nil
		}}, nil)
		url := start(t, gateway.NewServer(r, nil))
		_, err := newClient(t, url, &gateway.ClientOptions{Retries: -1}).Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if !errors.Is(err, justonce.ErrUnavailable) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "nothing was sent") || p.sends.Load() != 0 {
			t.Errorf("%v, %d sends", err, p.sends.Load())
		}
		// Without a key, too: nothing was sent.
		if a, err := newClient(t, url, nil).Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 1)}); err != nil || a.Operation.State != justonce.Succeeded {
			t.Errorf("%+v, %v", a, err)
		}
	})
	t.Run("the ledger fails while somebody decides", func(t *testing.T) {
		t.Parallel()
		p := newProvider(t)
		fail := atomic.Bool{}
		r := newRunner(t, p, &inmem.Options{FaultAfter: func(method string) error {
			if fail.Load() {
				return errors.New("gone")
			}
			return nil
		}}, nil)
		c := newClient(t, start(t, gateway.NewServer(r, nil)), nil)
		ref := must(t, c, justonce.Call{Tool: "lose", Key: "k"}).Operation.Ref
		fail.Store(true)
		_, err := c.Decide(t.Context(), ref, justonce.Decision{Verdict: justonce.Cancel, Actor: "ann", Reason: "r"})
		if !errors.Is(err, justonce.ErrUnavailable) || !strings.Contains(err.Error(), "not known whether the decision was recorded") {
			t.Error(err)
		}
	})
	t.Run("after Shutdown", func(t *testing.T) {
		t.Parallel()
		r := newRunner(t, newProvider(t), nil, nil)
		c := newClient(t, start(t, gateway.NewServer(r, nil)), &gateway.ClientOptions{Retries: -1})
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(t.Context(), justonce.Call{Tool: "charge", Arguments: order("1", 1)}); !errors.Is(err, justonce.ErrUnavailable) {
			t.Error(err)
		}
	})
}

// What is no gateway must not be believed.
func TestClient_StrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"a proxy":     func(w http.ResponseWriter, r *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) },
		"a page":      func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") },
		"an object":   func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") },
		"half of one": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"state":"succ`) },
		"a problem": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(503)
			io.WriteString(w, `{"status":503}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			c := newClient(t, start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				h(w, r)
			})), nil)
			_, err := c.Do(t.Context(), justonce.Call{Tool: "charge"})
			if !errors.Is(err, gateway.ErrNoAnswer) || errors.Is(err, justonce.ErrUnavailable) || requests.Load() != 1 {
				t.Errorf("%v after %d requests", err, requests.Load())
			}
		})
	}
}

func TestClient_Tenant(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	c := newClient(t, start(t, gateway.NewServer(newRunner(t, p, nil, nil), nil)), nil)
	ctx := t.Context()
	ref := justonce.Ref{Tenant: "acme", Key: "k"}
	for name, f := range map[string]func() error{
		"do":      func() error { _, err := c.Do(ctx, justonce.Call{Tool: "charge", Tenant: "acme"}); return err },
		"get":     func() error { _, err := c.Get(ctx, ref); return err },
		"wait":    func() error { _, err := c.Wait(ctx, ref); return err },
		"history": func() error { _, err := c.History(ctx, ref); return err },
		"decide":  func() error { _, err := c.Decide(ctx, ref, justonce.Decision{}); return err },
		"list":    func() error { _, err := c.List(ctx, justonce.Filter{Tenant: "acme"}); return err },
	} {
		if err := f(); !errors.Is(err, justonce.ErrInvalid) {
			t.Errorf("%s for another tenant: %v", name, err)
		}
	}
}

// A server's calls are its tenant's.
func TestServer_Tenant(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newRunner(t, p, nil, nil)
	acme := newClient(t, start(t, gateway.NewServer(r, &gateway.Options{Tenant: "acme"})), nil)
	other := newClient(t, start(t, gateway.NewServer(r, nil)), nil)
	call := justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 1)}
	must(t, acme, call)
	if a := must(t, other, call); a.Replayed || p.sends.Load() != 2 {
		t.Error("another tenant's operation was replayed")
	}
	if a, err := r.Get(t.Context(), justonce.Ref{Tenant: "acme", Key: "k"}); err != nil || a.Operation.Tenant != "acme" {
		t.Errorf("%+v, %v", a, err)
	}
}

// panicking stands for a defect.
type panicking struct {
	justonce.Service
	with any
}

func (p panicking) Do(context.Context, justonce.Call) (*justonce.Answer, error) { panic(p.with) }
