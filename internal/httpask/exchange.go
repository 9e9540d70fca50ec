package httpask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// A Stage is how far a request came.
type Stage string

// The stages. Only StageNoConnection and StageNothingSent prove that the other
// side has seen nothing of the request.
const (
	StageNoConnection Stage = "no connection"
	StageNothingSent  Stage = "connected, nothing sent"
	StagePartlySent   Stage = "request perhaps sent in part, no answer"
	StageSent         Stage = "request sent, no answer"
	StageCut          Stage = "answer cut"
	StageAnswered     Stage = "answered"
)

// An Exchange is what came of a request.
type Exchange struct {
	Stage Stage
	Err   error // redacted, without the URL; nil at StageAnswered
	// Timeout: the context's time was up, or a time limit hit.
	Timeout bool
	Reused  bool // on a kept-alive connection
	Answer  *Answer
}

// Unsent reports whether nothing of the request can have arrived.
func (x *Exchange) Unsent() bool { return x.Stage == StageNoConnection || x.Stage == StageNothingSent }

// An Answer is an HTTP answer that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	// Body has secrets redacted; nil when TooLarge.
	Body     []byte
	TooLarge bool
	// JSON is Body's value; nil when it is not JSON.
	JSON any
}

// Vars adds the answer's variables to v. A body that is not JSON, or was too
// large, leaves its variables out, so that expressions about it fail.
func (a *Answer) Vars(v celexpr.Vars) celexpr.Vars {
	out := celexpr.Vars{"status": a.Status, "headers": flatten(a.Header)}
	for k, val := range v {
		out[k] = val
	}
	if !a.TooLarge {
		out["text"] = string(a.Body)
	}
	if a.JSON != nil {
		out["body"] = a.JSON
	}
	return out
}

// Ask sends b once and reads the answer, up to limit bytes of its body. With
// reuse it may take a kept-alive connection.
func (c *Client) Ask(ctx context.Context, b *Built, reuse bool, limit int64) *Exchange {
	resp, x := c.Open(ctx, b, reuse)
	if resp == nil {
		return x
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		x.fail(ctx, StageCut, err, b)
		return x
	}
	a := &Answer{Status: resp.StatusCode, Header: redactHeader(resp.Header, b), Body: b.Redact.Bytes(body)}
	switch {
	case int64(len(body)) > limit:
		a.Body, a.TooLarge = nil, true
	case len(body) == 0:
		a.JSON = celexpr.Null
	default:
		a.JSON, _ = celexpr.Value(a.Body)
	}
	if unmarked(resp) && a.JSON == nil || unmarked(resp) && len(body) == 0 {
		x.fail(ctx, StageCut, io.ErrUnexpectedEOF, b)
		return x
	}
	x.Stage, x.Answer = StageAnswered, a
	return x
}

// Open sends b once and returns the answer when its header has come; the body is
// the caller's to read and close. Nil: there is none, and the exchange tells of
// it. A request that net/http would repeat on a dead connection by itself, having
// no body, never takes a kept-alive one.
func (c *Client) Open(ctx context.Context, b *Built, reuse bool) (*http.Response, *Exchange) {
	t := &trace{}
	req := (&http.Request{Method: b.Method, URL: b.URL, Header: b.Header, Host: b.URL.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(httptrace.WithClientTrace(ctx, t.hooks()))
	if b.Body != nil {
		// GetBody stays nil: with it net/http repeats a POST that has an
		// Idempotency-Key when a kept-alive connection turns out dead.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(b.Body)), int64(len(b.Body))
	}
	hc := c.fresh
	if reuse && len(b.Body) > 0 {
		hc = c.pool
	}
	resp, err := hc.Do(req)
	x := &Exchange{Reused: t.reused()}
	if err != nil {
		x.fail(ctx, t.stage(c.own), err, b)
		return nil, x
	}
	x.Stage = StageCut // until its body was read
	return resp, x
}

// unmarked reports whether a JSON answer ends where the connection does, so
// that only its syntax can tell whether it was cut.
func unmarked(r *http.Response) bool {
	return r.ContentLength < 0 && len(r.TransferEncoding) == 0 && !r.Uncompressed &&
		strings.Contains(lower(r.Header.Get("Content-Type")), "json")
}

func (x *Exchange) fail(ctx context.Context, s Stage, err error, b *Built) {
	x.Stage = s
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // without the URL, which may hold what must not be written down
	}
	var n net.Error
	x.Timeout = errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
	x.Err = errors.New(b.Redact.String(fmt.Sprint(err)))
}

// A trace notes how far a request came. Its hooks run on several goroutines.
type trace struct {
	mu     sync.Mutex
	asked  bool // a connection was looked for
	got    int  // connections had
	reuse  bool
	conn   *countedConn
	before int64
	wrote  bool
}

func (t *trace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { t.set(func() { t.asked = true }) },
		GotConn: func(i httptrace.GotConnInfo) {
			t.set(func() {
				t.got++
				t.reuse = t.reuse || i.Reused
				if t.conn = counted(i.Conn); t.conn != nil {
					t.before = t.conn.count()
				}
			})
		},
		WroteRequest: func(i httptrace.WroteRequestInfo) { t.set(func() { t.wrote = t.wrote || i.Err == nil }) },
	}
}

func (t *trace) set(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

func (t *trace) reused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reuse
}

// stage returns how far a request came that got no answer.
func (t *trace) stage(own bool) Stage {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.got == 0 && (own || t.asked):
		return StageNoConnection
	case t.got == 1 && t.conn != nil && own:
		// Sealed, so that a write that has not begun never will.
		if sent, ok := t.conn.seal(); ok && sent == t.before {
			return StageNothingSent
		}
	}
	if t.wrote {
		return StageSent
	}
	return StagePartlySent
}

func flatten(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		out[lower(name)] = join(values)
	}
	return out
}
