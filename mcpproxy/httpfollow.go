package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/sse"
)

// Times of coming back to a stream that ended before its answer.
const (
	firstRetry = time.Second // where the server names no time
	lastRetry  = 30 * time.Second
	// maxRetries bounds the failures in a row.
	maxRetries = 8
)

var errCut = errors.New("the stream ended before the answer")

// follow reads a stream of events to the answer. Where the server ends it before
// that, and its events have ids, it comes back for the rest, which repeats
// nothing.
func (x *exchange) follow(ctx context.Context, resp *http.Response) mcpconn.Reply {
	for {
		reply, err := x.read(resp)
		resp.Body.Close()
		switch {
		case err == nil:
			return reply
		case ctx.Err() != nil:
			return mcpconn.Reply{Cause: ctx.Err()}
		case x.last == "":
			if x.f != nil && x.retry > 0 && errors.Is(err, io.EOF) {
				x.f.cut() // the server told its client to come back by itself
			}
			return mcpconn.Reply{Cause: fmt.Errorf("%w: %w", errCut, err)}
		}
		if x.f != nil {
			x.f.cut()
		}
		if resp, err = x.comeBack(ctx); err != nil {
			return mcpconn.Reply{Cause: fmt.Errorf("%w, and could not be taken up again: %w", errCut, err)}
		}
	}
}

// read reads one stream; an error: it ended without the answer.
func (x *exchange) read(resp *http.Response) (mcpconn.Reply, error) {
	events := x.p.events(resp.Body)
	for {
		e, err := events.Next()
		if err != nil {
			return mcpconn.Reply{}, err
		}
		if e.HasID {
			x.last = e.ID
		}
		if e.Retry > 0 {
			x.retry = e.Retry
		}
		if len(e.Data) > 0 {
			if m, err := x.single(e.Data); err == nil && m.IsResponse() && x.ours(m, http.StatusOK) {
				x.answered(&e)
				return mcpconn.Reply{Result: m.Result, Error: m.Error, Status: http.StatusOK}, nil
			}
		}
		x.relay(&e)
	}
}

func (x *exchange) relay(e *sse.Event) {
	if x.f == nil {
		return
	}
	id := ""
	if e.HasID {
		id = e.ID
	}
	x.f.add(e.Raw, id)
}

// comeBack asks for the rest of a stream until the server gives it.
func (x *exchange) comeBack(ctx context.Context) (*http.Response, error) {
	wait := x.retry
	if wait == 0 {
		wait = firstRetry
	}
	header := x.header.Clone()
	header.Del("Content-Type")
	header.Del(headerMethod)
	header.Del(headerName)
	header.Set("Accept", "text/event-stream")
	header.Set(headerLastEvent, x.last)
	for try := 1; ; try++ {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		resp, _, err := x.send(ctx, http.MethodGet, header, nil)
		if err == nil {
			s := resp.StatusCode
			if s == http.StatusOK && mediaType(resp.Header) == "text/event-stream" {
				return resp, nil
			}
			resp.Body.Close()
			err = fmt.Errorf("the MCP server answered %d %s", s, http.StatusText(s))
			if s < 500 && s != http.StatusRequestTimeout && s != http.StatusTooManyRequests {
				return nil, err
			}
		}
		if try == maxRetries {
			return nil, err
		}
		wait = min(2*wait, max(x.retry, lastRetry))
	}
}
