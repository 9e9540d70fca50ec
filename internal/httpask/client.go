package httpask

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Client sends requests exactly once each: it follows no redirect, replays
// nothing on a dead connection, and speaks HTTP/1.1, where a connection carries
// one request at a time. It may be used from many goroutines.
type Client struct {
	fresh *http.Client // a new connection for each request
	pool  *http.Client // may use a kept-alive one
	own   bool         // the transports are ours, so their traces can be trusted
}

// NewClient returns a client with the transport settings (TLS, proxy, DialContext)
// of base, which is not changed; nil stands for http.DefaultTransport's. A
// RoundTripper that is not an *http.Transport is used as it is: it must not
// repeat a request and should pass net/http/httptrace on, or else every failure
// counts as possibly sent.
func NewClient(base *http.Client, connectTimeout time.Duration) *Client {
	var c http.Client
	if base != nil {
		c = *base
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Timeout = 0 // contexts bound requests
	c.Jar = nil   // every attempt sends the same bytes
	rt := c.Transport
	if rt == nil {
		rt = http.DefaultTransport
	}
	t, ok := rt.(*http.Transport)
	if !ok {
		return &Client{fresh: &c, pool: &c}
	}
	fresh, pool := c, c
	fresh.Transport, pool.Transport = own(t, connectTimeout, false), own(t, connectTimeout, true)
	return &Client{fresh: &fresh, pool: &pool, own: true}
}

// Close closes idle connections.
func (c *Client) Close() { c.pool.CloseIdleConnections() }

func own(base *http.Transport, connectTimeout time.Duration, keepAlive bool) *http.Transport {
	t := base.Clone()
	// HTTP/2 repeats requests by itself after GOAWAY and REFUSED_STREAM, and
	// shares a connection, which blurs what was sent.
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.ForceAttemptHTTP2 = false
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	if c := t.TLSClientConfig; c != nil {
		c.NextProtos = slices.DeleteFunc(slices.Clone(c.NextProtos), func(p string) bool { return p == "h2" })
	}
	t.DisableKeepAlives = !keepAlive
	if t.IdleConnTimeout == 0 || t.IdleConnTimeout > 20*time.Second {
		t.IdleConnTimeout = 20 * time.Second // close before most servers do
	}
	if t.TLSHandshakeTimeout == 0 || t.TLSHandshakeTimeout > connectTimeout {
		t.TLSHandshakeTimeout = connectTimeout
	}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: c}, nil
	}
	return t
}

// A countedConn counts the bytes that were given to the kernel, and can be
// sealed, after which it takes no more.
type countedConn struct {
	net.Conn
	mu     sync.Mutex
	sent   int64
	sealed bool
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(p)
	c.sent += int64(n)
	return n, err
}

func (c *countedConn) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// seal stops all writing and returns what was sent; false if a write is still
// under way, so that nothing can be said.
func (c *countedConn) seal() (int64, bool) {
	if !c.mu.TryLock() {
		return 0, false
	}
	defer c.mu.Unlock()
	c.sealed = true
	return c.sent, true
}

// counted finds the counted connection below TLS; nil if there is none.
func counted(c net.Conn) *countedConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	n, _ := c.(*countedConn)
	return n
}
