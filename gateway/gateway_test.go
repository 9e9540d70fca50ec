package gateway_test

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A provider is the other side of every tool in these tests. It counts what it
// is asked to do.
type provider struct {
	sends   atomic.Int64
	started chan struct{} // told of each send to slow
	release chan struct{} // sends to slow wait for it
	result  string        // of charge; "" has one
}

func newProvider(t testing.TB) *provider {
	p := &provider{started: make(chan struct{}, 100), release: make(chan struct{})}
	t.Cleanup(p.finish)
	return p
}

// finish lets what waits go on.
func (p *provider) finish() {
	select {
	case <-p.release:
	default:
		close(p.release)
	}
}

// odd is a result that an encoder would not leave alone.
const odd = "{ \"id\" : \"ch_1\",\n\t\"html\":\"<a href='x'>&</a>\u2028\", \"n\":1.0e2, \"esc\":\"\\u00e9\\/\" }"

type job struct{ *provider }

func (p job) Send(context.Context, *justonce.Attempt) justonce.Outcome {
	p.sends.Add(1)
	return justonce.Outcome{Kind: justonce.OutcomeAccepted, Reference: "job_1", Result: json.RawMessage(`{"percent": 10}`)}
}

func (p job) Lookup(context.Context, *justonce.Attempt) justonce.Finding {
	select {
	case <-p.release:
		return justonce.Finding{Kind: justonce.FindingFound, Matches: []justonce.Found{{Reference: "job_1", Result: json.RawMessage(`"done"`)}}}
	default:
		return justonce.Finding{Kind: justonce.FindingProgress, Reference: "job_1"}
	}
}

type sender func(*justonce.Attempt) justonce.Outcome

func (f sender) Send(_ context.Context, a *justonce.Attempt) justonce.Outcome { return f(a) }

// tools of the provider: each shows one way in which a call can end.
func (p *provider) tools() []*justonce.Tool {
	counted := func(f func(a *justonce.Attempt) justonce.Outcome) justonce.Connector {
		return sender(func(a *justonce.Attempt) justonce.Outcome { p.sends.Add(1); return f(a) })
	}
	return []*justonce.Tool{
		{Name: "charge", Description: "Charge a card.", Identity: []string{"/order_id"}, Ignore: []string{"/trace"},
			Schema: json.RawMessage(`{"type":"object","required":["order_id"]}`),
			Validate: func(arguments json.RawMessage) error {
				if strings.Contains(string(arguments), `"refuse me"`) {
					return &justonce.InvalidError{Field: "/note", Detail: "it is not wanted", Schema: true}
				}
				return nil
			},
			Connector: counted(func(*justonce.Attempt) justonce.Outcome {
				result := p.result
				if result == "" {
					result = `{"id":"ch_1"}`
				}
				return justonce.Outcome{Kind: justonce.OutcomeSucceeded, Reference: "ch_1", Result: json.RawMessage(result)}
			})},
		{Name: "lose", Connector: counted(func(*justonce.Attempt) justonce.Outcome { return justonce.Outcome{} })},
		{Name: "reject", Connector: counted(func(*justonce.Attempt) justonce.Outcome {
			return justonce.Outcome{Kind: justonce.OutcomeRejected, Failure: &justonce.Failure{Code: "card_declined", Message: "no <money>"}}
		})},
		{Name: "slow", Connector: counted(func(*justonce.Attempt) justonce.Outcome {
			p.started <- struct{}{}
			<-p.release
			return justonce.Outcome{Kind: justonce.OutcomeSucceeded, Result: json.RawMessage(`"at last"`)}
		})},
		{Name: "lookup", Effect: justonce.Read, Connector: counted(func(*justonce.Attempt) justonce.Outcome {
			return justonce.Outcome{Kind: justonce.OutcomeSucceeded, Result: json.RawMessage(`[1]`)}
		})},
		{Name: "job", Effect: justonce.LongRunning, Connector: job{p},
			Policy: justonce.Policy{Capability: justonce.ByReference, Poll: 5 * time.Millisecond}},
	}
}

func newRunner(t testing.TB, p *provider, o *inmem.Options, m *gateway.Metrics) *justonce.Runner {
	t.Helper()
	ro := &justonce.RunnerOptions{Tools: p.tools(), Worker: "test", Rand: func() float64 { return 0 }}
	if m != nil {
		ro.Observer = m.Observer()
	}
	r, err := justonce.New(inmem.New(o), ro)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.finish()
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// start serves h on a socket and returns its URL.
func start(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func newClient(t testing.TB, url string, o *gateway.ClientOptions) *gateway.Client {
	t.Helper()
	if o == nil {
		o = &gateway.ClientOptions{}
	}
	if o.Backoff == 0 {
		o.Backoff = time.Millisecond
	}
	c, err := gateway.NewClient(url, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
