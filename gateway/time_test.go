package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// pipes is a listener whose connections are in memory, so that time may be
// what a test makes of it.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { c, _ := net.Pipe(); return c.LocalAddr() }

// inTime runs f in a bubble, with a server and what dials it.
func inTime(t *testing.T, o *gateway.Options, f func(t *testing.T, p *provider, r *justonce.Runner, dial func() net.Conn)) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{started: make(chan struct{}, 100), release: make(chan struct{})}
		r, err := justonce.New(inmem.New(nil), &justonce.RunnerOptions{Tools: p.tools()})
		if err != nil {
			t.Fatal(err)
		}
		l := make(pipes)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- gateway.NewServer(r, o).Serve(ctx, l) }()
		f(t, p, r, func() net.Conn {
			here, there := net.Pipe()
			l <- there
			return here
		})
		p.finish()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func answerOf(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestTime_Patience(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		o      *gateway.Options
		prefer string
		took   time.Duration
	}{
		{"default", nil, "", 10 * time.Second},
		{"own default", &gateway.Options{DefaultWait: 3 * time.Second}, "", 3 * time.Second},
		{"no default", &gateway.Options{DefaultWait: -1}, "", 0},
		{"asked for", nil, "Prefer: wait=7\n", 7 * time.Second},
		{"too long", nil, "Prefer: wait=600\n", time.Minute},
		{"own bound", &gateway.Options{MaxWait: 5 * time.Second}, "", 5 * time.Second},
		{"none", nil, "Prefer: wait=0\n", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inTime(t, test.o, func(t *testing.T, p *provider, _ *justonce.Runner, dial func() net.Conn) {
				c := dial()
				defer c.Close()
				begin := time.Now()
				go c.Write(message("POST /v1/tool-calls HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"+test.prefer, `{"name":"slow"}`))
				resp, body := answerOf(t, c)
				if took := time.Since(begin); resp.StatusCode != 202 || took != test.took || !strings.Contains(body, `"state":"running"`) {
					t.Errorf("%d after %s, want 202 after %s: %s", resp.StatusCode, took, test.took, body)
				}
			})
		})
	}
}

// A request that comes by drops is given up.
func TestTime_Slow(t *testing.T) {
	t.Parallel()
	t.Run("head", func(t *testing.T) {
		inTime(t, nil, func(t *testing.T, _ *provider, _ *justonce.Runner, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			begin := time.Now()
			io.WriteString(c, "POST /v1/tool-calls HTTP/1.1\r\nHost: ")
			io.Copy(io.Discard, c)
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	})
	t.Run("body", func(t *testing.T) {
		inTime(t, nil, func(t *testing.T, p *provider, r *justonce.Runner, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			begin := time.Now()
			go io.WriteString(c, "POST /v1/tool-calls HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"name\":\"sl")
			resp, body := answerOf(t, c)
			if took := time.Since(begin); resp.StatusCode != 400 || took != 30*time.Second || !strings.Contains(body, "did not arrive whole") {
				t.Errorf("%d after %s: %s", resp.StatusCode, took, body)
			}
			if p.sends.Load() != 0 {
				t.Error("something was sent")
			}
		})
	})
	t.Run("body that nobody wants", func(t *testing.T) {
		inTime(t, nil, func(t *testing.T, _ *provider, _ *justonce.Runner, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			begin := time.Now()
			go io.WriteString(c, "POST /v1/tool-calls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{")
			if resp, body := answerOf(t, c); resp.StatusCode != 415 || time.Since(begin) > 30*time.Second {
				t.Errorf("%d after %s: %s", resp.StatusCode, time.Since(begin), body)
			}
		})
	})
	t.Run("but a wait is none", func(t *testing.T) {
		inTime(t, nil, func(t *testing.T, p *provider, r *justonce.Runner, dial func() net.Conn) {
			c := dial()
			defer c.Close()
			go c.Write(message("POST /v1/tool-calls HTTP/1.1\nHost: localhost\nContent-Type: application/json\nPrefer: wait=60", `{"name":"slow"}`))
			time.Sleep(59 * time.Second) // in the bubble
			p.finish()
			if resp, body := answerOf(t, c); resp.StatusCode != 200 || !strings.Contains(body, "at last") {
				t.Errorf("%d: %s", resp.StatusCode, body)
			}
		})
	})
}
