package mcpconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/secret"
	"github.com/justonce-dev/justonce/internal/sse"
)

// An exchange is one request to an endpoint, and its answer.
type exchange struct {
	e       *Endpoint
	g       *greeting
	d       dialect
	id      string
	method  string
	message []byte
	name    string      // for Mcp-Name
	more    http.Header // from the arguments
	attempt bool

	secrets secret.Redactor
	session string      // that the answer names
	dialled atomic.Bool // there was a connection
}

func (e *Endpoint) exchange(g *greeting, d dialect, method string, params json.RawMessage) *exchange {
	id := strconv.FormatInt(e.ids.Add(1), 10)
	return &exchange{e: e, g: g, d: d, id: id, method: method,
		message: jsonrpc.Request(json.RawMessage(id), method, params)}
}

// run is do for a tools/call. An attempt that was sent goes on when ctx ends.
func (x *exchange) run(ctx context.Context) Reply {
	if !x.attempt {
		return x.do(ctx)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	reply := make(chan Reply, 1)
	if !x.e.spawn(func() {
		defer cancel()
		defer context.AfterFunc(x.e.ctx, cancel)()
		reply <- x.do(own)
	}) {
		cancel()
		return Reply{Stage: Unsent, Cause: errClosed}
	}
	select {
	case r := <-reply:
		return r
	case <-ctx.Done():
	}
	if !x.dialled.Load() {
		cancel()
		r := <-reply
		if !r.Answered() {
			r.Cause = ctx.Err()
		}
		return r
	}
	enough := time.AfterFunc(linger, cancel)
	context.AfterFunc(own, func() { enough.Stop() })
	select {
	case r := <-reply: // both at once
		return r
	default:
		return Reply{Stage: Sent, Cause: ctx.Err()}
	}
}

// do sends the request once and reads to the answer.
func (x *exchange) do(ctx context.Context) Reply {
	b, err := x.e.built(ctx, http.MethodPost, x.g.session, x.d, x.message)
	if err != nil {
		return Reply{Stage: Unsent, Cause: err}
	}
	x.secrets = secrets(b.Header)
	if x.d.modern {
		b.Header.Set("Mcp-Method", x.method)
		if x.name != "" {
			b.Header.Set("Mcp-Name", headerValue(x.name))
		}
		for name, values := range x.more {
			b.Header[name] = values
		}
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.dialled.Store(true) }})
	resp, asked := x.e.client.Open(ctx, b, !x.attempt)
	if resp == nil {
		r := Reply{Cause: cause(ctx, asked.Err)}
		if asked.Unsent() {
			r.Stage = Unsent
		}
		return r
	}
	x.session = resp.Header.Get("Mcp-Session-Id")
	r := x.read(ctx, resp, b)
	r.Status = resp.StatusCode
	r.RetryAfter = httpask.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	return r
}

// cause prefers the end of the context, which callers tell timeouts by.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// read reads an answer to its end.
func (x *exchange) read(ctx context.Context, resp *http.Response, b *httpask.Built) Reply {
	defer drain(resp)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusOK && kind == "text/event-stream":
		return x.stream(ctx, resp)
	case kind == "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, bodyLimit+1))
		switch {
		case err != nil:
			return Reply{Cause: cause(ctx, fmt.Errorf("the answer was cut: %w", redacted(b, err)))}
		case len(body) > bodyLimit:
			return Reply{Cause: fmt.Errorf("the answer has more than %d bytes", bodyLimit)}
		}
		if r, ok := x.answer(body); ok {
			return r
		}
	}
	if resp.StatusCode >= 300 {
		return Reply{} // the status tells
	}
	return Reply{Cause: fmt.Errorf("the MCP server answered %d without an answer to the request", resp.StatusCode)}
}

func redacted(b *httpask.Built, err error) error { return errors.New(b.Redact.String(err.Error())) }

// answer looks for the answer in what the server sent, and answers what the
// server asks.
func (x *exchange) answer(raw []byte) (Reply, bool) {
	list, err := messages(x.secrets.Bytes(raw))
	if err != nil {
		return Reply{}, false
	}
	for _, m := range list {
		switch {
		case m.IsResponse() && m.IDKey() == x.id:
			return Reply{Result: m.Result, Error: m.Error}, true
		case m.IsRequest():
			ctx, cancel := context.WithTimeout(x.e.ctx, connectTimeout)
			_ = x.e.post(ctx, x.g.session, x.d, serverRequest(m)) // the server waits for it, or does not
			cancel()
		}
	}
	return Reply{}, false
}

// drain reads what little is left, so that the connection can be used again.
func drain(resp *http.Response) {
	if resp.ContentLength >= 0 { // it has an end
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	}
	_ = resp.Body.Close()
}

// maxResumes bounds how often in a row a stream is taken up again without that
// anything comes of it.
const maxResumes = 5

// stream reads events until the answer. A stream that ends before is taken up
// again where the revision has that and the server gave an event id.
func (x *exchange) stream(ctx context.Context, resp *http.Response) Reply {
	last, wait, idle := "", time.Second, 0
	body := resp.Body
	for {
		events := sse.NewReader(body)
		var err error
		for {
			var e sse.Event
			if e, err = events.Next(); err != nil {
				break
			}
			if e.HasID && e.ID != last {
				last, idle = e.ID, 0
			}
			if e.Retry > 0 {
				wait = e.Retry
			}
			if len(e.Data) == 0 || e.Name != "" && e.Name != "message" {
				continue
			}
			if r, ok := x.answer(e.Data); ok {
				_ = body.Close()
				return r
			}
		}
		_ = body.Close()
		if ctx.Err() != nil || x.d.modern || last == "" || errors.Is(err, sse.ErrTooLong) {
			return Reply{Cause: cause(ctx, errors.New("the stream ended before the answer"))}
		}
		for body = nil; body == nil; idle++ {
			if idle == maxResumes {
				return Reply{Cause: errors.New("the stream ended before the answer, and could not be taken up again")}
			}
			if !pause(ctx, wait) {
				return Reply{Cause: ctx.Err()}
			}
			if body, err = x.resume(ctx, last); err != nil {
				return Reply{Cause: cause(ctx, err)}
			}
		}
	}
}

// resume asks for the rest of a stream. Nil without an error: perhaps later.
func (x *exchange) resume(ctx context.Context, last string) (io.ReadCloser, error) {
	b, err := x.e.built(ctx, http.MethodGet, x.g.session, x.d, nil)
	if err != nil {
		return nil, err
	}
	b.Header.Set("Accept", "text/event-stream")
	b.Header.Set("Last-Event-ID", last)
	resp, _ := x.e.client.Open(ctx, b, false)
	if resp == nil {
		return nil, nil
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusOK && kind == "text/event-stream":
		return resp.Body, nil
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		drain(resp)
		return nil, nil
	}
	drain(resp)
	return nil, fmt.Errorf("the stream ended before the answer, and the MCP server answered %d when asked for the rest", resp.StatusCode)
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
