package httpconn_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/connector/connectortest"
	httpconn "github.com/justonce-dev/justonce/connector/http"
	"github.com/justonce-dev/justonce/internal/faultconn"
)

// dying answers the first request on each connection, carries out the second,
// and closes without an answer.
func dying(t *testing.T) *connectortest.Server {
	return connectortest.Serve(t, func(c net.Conn, effect func()) {
		in := bufio.NewReader(c)
		for i := range 2 {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			effect()
			if i == 0 {
				_, _ = io.WriteString(c, connectortest.JSON(200, `{}`))
			}
		}
	})
}

func TestDeadKeptAliveConnection(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "DELETE", "GET"} {
		for _, encoding := range []string{"json", "none"} {
			t.Run(method+" "+encoding, func(t *testing.T) {
				t.Parallel()
				p := dying(t)
				k := must(t, httpconn.Config{Request: httpconn.Request{Method: method, URL: "http://" + p.Addr() + "/", Encoding: encoding},
					Key: httpconn.Key{Header: "Idempotency-Key"}, Connections: "reuse"})
				first := k.Send(context.Background(), attempt(`{"a":1}`))
				second := k.Send(context.Background(), attempt(`{"a":1}`))
				_ = k.(io.Closer).Close()
				effects := p.Effects()
				if first.Kind != ok || effects != 2 {
					t.Fatalf("first %s, then %s, with %d effects; want one for each", first.Kind, second.Kind, effects)
				}
				// Without a body a new connection is taken, since net/http
				// repeats such requests by itself.
				if want := map[string]justonce.OutcomeKind{"json": unknown, "none": ok}[encoding]; second.Kind != want {
					t.Errorf("second: %s, want %s (%v)", second.Kind, want, second.Evidence)
				}
			})
		}
	}
}

// The trap that the connector avoids, to notice when net/http changes.
func TestNetHTTPRepeatsByItself(t *testing.T) {
	t.Parallel()
	p := dying(t)
	tr := &http.Transport{}
	for range 2 {
		req, _ := http.NewRequest("POST", "http://"+p.Addr()+"/", strings.NewReader("{}"))
		req.Header.Set("Idempotency-Key", "k")
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	tr.CloseIdleConnections()
	if n := p.Effects(); n != 3 {
		t.Logf("net/http has changed: two requests had %d effects, once three", n)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var n atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			http.Redirect(w, r, "/elsewhere", status)
		}))
		o := must(t, httpconn.Config{Request: httpconn.Request{URL: s.URL}}).Send(context.Background(), attempt(`{}`))
		s.Close()
		want := unknown
		if status > 303 {
			want = rejected
		}
		if n.Load() != 1 || o.Kind != want {
			t.Errorf("%d: %d requests, outcome %s; want 1 and %s", status, n.Load(), o.Kind, want)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"proto":%q}`, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	client := s.Client()
	// A client that has spoken HTTP/2 already.
	resp, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatalf("the test's client speaks %s", resp.Proto)
	}
	for _, connections := range []string{"fresh", "reuse"} {
		c := httpconn.Config{Request: httpconn.Request{URL: s.URL}, Connections: connections}
		k, err := httpconn.New(c, &httpconn.Options{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		o := k.Send(context.Background(), attempt(`{}`))
		if o.Kind != ok || string(o.Result) != `{"proto":"HTTP/1.1"}` {
			t.Errorf("%s: %+v", connections, o)
		}
	}
	// A certificate that is not trusted: nothing is sent.
	o := must(t, httpconn.Config{Request: httpconn.Request{URL: s.URL}}).Send(context.Background(), attempt(`{}`))
	if o.Kind != not || o.Evidence["stage"] != "no connection" {
		t.Errorf("untrusted: %+v", o)
	}
	// TLS that is cut at every byte until it is up.
	p, err := faultconn.Listen(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	pool := client.Transport.(*http.Transport).TLSClientConfig.RootCAs
	k, err := httpconn.New(httpconn.Config{Request: httpconn.Request{URL: "https://" + p.Addr()}},
		&httpconn.Options{Client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for after := int64(0); after < 500; after += 50 {
		p.Set(faultconn.Fault{Action: faultconn.Reset, Direction: faultconn.Down, After: after})
		if o := k.Send(context.Background(), attempt(`{}`)); o.Kind != not {
			t.Errorf("cut after %d bytes of the handshake: %s (%v)", after, o.Kind, o.Evidence)
		}
		p.Drain()
	}
}

// errTransport never reaches a network, or so it says.
type errTransport struct{}

func (errTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("broken")
}

func TestForeignTransportIsNotTrusted(t *testing.T) {
	t.Parallel()
	c := httpconn.Config{Request: httpconn.Request{URL: "http://127.0.0.1:1/"}}
	for want, rt := range map[justonce.OutcomeKind]http.RoundTripper{
		unknown: errTransport{},                                     // nobody knows what it did
		not:     struct{ http.RoundTripper }{http.DefaultTransport}, // passes the trace on
	} {
		k, err := httpconn.New(c, &httpconn.Options{Client: &http.Client{Transport: rt}})
		if err != nil {
			t.Fatal(err)
		}
		if o := k.Send(context.Background(), attempt(`{}`)); o.Kind != want {
			t.Errorf("%T: outcome %s, want %s", rt, o.Kind, want)
		}
	}
}

func TestTimeoutWhileConnecting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// The dialer never connects; the context ends meanwhile.
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel(context.DeadlineExceeded)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	k, err := httpconn.New(httpconn.Config{Request: httpconn.Request{URL: "http://192.0.2.1/"}}, &httpconn.Options{Client: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	if o := k.Send(ctx, attempt(`{}`)); o.Kind != not {
		t.Errorf("outcome %+v, want not executed", o)
	}
}
