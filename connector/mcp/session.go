package mcpconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// SessionOptions say what a [Session] speaks to.
type SessionOptions struct {
	// Process says what is started. Its Handle is the session's own.
	Process ProcessOptions
	// Revision of MCP that is tried first, Revision2025 or Revision2026. Defaults
	// to Revision2025.
	Revision string
	// Handshake bounds the start of the server until it is ready. Defaults to
	// 2 minutes: some are installed when they are first started.
	Handshake time.Duration
	Now       func() time.Time // defaults to time.Now
	Logger    *slog.Logger     // defaults to discarding
}

// A Session is an MCP client over a child process of its own, which it starts
// when it is first needed, and again when it has ended: at once the first time,
// then after 1 s and longer and longer, up to 1 minute, until a server has
// answered a call. It is safe for concurrent use.
type Session struct {
	o   SessionOptions
	ctx context.Context // ends with Close
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	current  *opening
	failures int       // starts and ends since a call was answered
	notUntil time.Time // no start before
}

// An opening is a start of the server.
type opening struct {
	done chan struct{} // the fields below are set
	link *link
	d    dialect
	err  error

	counted bool // as a failure; the session's lock guards it
}

var _ Caller = (*Session)(nil)

// NewSession returns a session. Nothing is started yet.
func NewSession(o *SessionOptions) *Session {
	s := &Session{o: *o}
	if s.o.Handshake == 0 {
		s.o.Handshake = 2 * time.Minute
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Logger == nil {
		s.o.Logger = slog.New(slog.DiscardHandler)
	}
	if s.o.Process.Logger == nil {
		s.o.Process.Logger = s.o.Logger
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// A laterError says when a server may be started again.
type laterError struct {
	after time.Duration
	err   error
}

func (e *laterError) Error() string {
	return fmt.Sprintf("%v; it is not started again before %s", e.err, e.after.Round(time.Millisecond))
}
func (e *laterError) Unwrap() error { return e.err }

var errClosed = errors.New("the session with the MCP server was closed")

// ready returns a server that has been greeted.
func (s *Session) ready(ctx context.Context) (*opening, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o, err := s.opening()
	if err != nil {
		return nil, err
	}
	select {
	case <-o.done:
		return o, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// opening returns the current start, or begins one.
func (s *Session) opening() (*opening, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	if o := s.current; o != nil {
		if !o.over() {
			return o, nil
		}
		s.count(o)
		if wait := s.notUntil.Sub(s.o.Now()); wait > 0 {
			return nil, &laterError{wait, o.why()}
		}
	}
	o := &opening{done: make(chan struct{})}
	s.current = o
	s.wg.Go(func() { s.open(o) })
	return o, nil
}

// over reports whether the server cannot be used any more.
func (o *opening) over() bool {
	select {
	case <-o.done:
	default:
		return false
	}
	if o.err != nil {
		return true
	}
	select {
	case <-o.link.p.Done():
		return true
	default:
		return false
	}
}

func (o *opening) why() error {
	if o.err != nil {
		return o.err
	}
	return o.link.gone()
}

// open starts and greets a server, and stays until it has ended.
func (s *Session) open(o *opening) {
	o.link, o.err = startLink(s.o.Process)
	if o.err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, s.o.Handshake)
		o.d, o.err = negotiate(ctx, o.link, s.o.Revision)
		cancel()
	}
	if o.err != nil {
		if o.link != nil {
			o.link.p.Close()
		}
		s.o.Logger.Warn("the MCP server is not ready", "error", o.err)
		close(o.done)
		s.failed(o)
		return
	}
	close(o.done)
	select {
	case <-s.ctx.Done():
		o.link.p.Close()
	case <-o.link.p.Done():
		s.o.Logger.Warn("the MCP server ended", "error", o.link.gone())
		s.failed(o)
	}
}

func (s *Session) failed(o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(o)
}

// count notes that a server ended, or did not start. The lock is held.
func (s *Session) count(o *opening) {
	if o.counted {
		return
	}
	o.counted = true
	s.failures++
	if s.failures > 1 {
		s.notUntil = s.o.Now().Add(min(time.Second<<min(s.failures-2, 6), time.Minute))
	}
}

// CallTool implements [Caller]. When ctx ends, a lookup is cancelled at the
// server; an attempt never is, since it may have had its effect.
func (s *Session) CallTool(ctx context.Context, c *ToolCall) Reply {
	o, err := s.ready(ctx)
	if err != nil {
		return unsent(err)
	}
	q, err := o.link.send("tools/call", o.d.params(callParams(c)))
	if err != nil {
		return unsent(err)
	}
	m, stage, err := o.link.wait(ctx, q)
	if err != nil {
		if c.Attempt == nil && stage == Sent && ctx.Err() != nil {
			_ = o.link.tell(ctx, o.d, "notifications/cancelled", cancelled(q.id)) // it does no harm if it goes on
		}
		return Reply{Stage: stage, Cause: err}
	}
	s.mu.Lock()
	s.failures, s.notUntil = 0, time.Time{}
	s.mu.Unlock()
	return Reply{Result: m.Result, Error: m.Error}
}

func cancelled(id string) json.RawMessage {
	return json.RawMessage(`{"requestId":` + id + `,"reason":"the lookup took too long"}`)
}

func unsent(err error) Reply {
	r := Reply{Stage: Unsent, Cause: err}
	if l := (*laterError)(nil); errors.As(err, &l) {
		r.RetryAfter = l.after
	}
	return r
}

// ListTools returns the server's tools as it sent them, all pages.
func (s *Session) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	o, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return listTools(ctx, o.link, o.d)
}

// Close ends the server and returns when nothing is left of it. Calls under way
// are told how far they got.
func (s *Session) Close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.wg.Wait()
}
