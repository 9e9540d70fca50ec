package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/justonce-dev/justonce"
)

const (
	answerLimit = 64 << 20         // bytes
	answerTime  = 60 * time.Second // beside the waiting; recording may take half of it
)

func defaultRand() float64 { return rand.Float64() }

// A request is one that may be sent several times.
type request struct {
	method, path string
	header       http.Header
	body         []byte
	repeatable   bool          // also when an answer was lost
	wait         time.Duration // what the gateway was asked to wait
	// isCall: refusals say that nothing was sent, and an answer is waited for a
	// moment longer than the caller does.
	isCall bool
}

func get(path string, q url.Values) *request {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return &request{method: http.MethodGet, path: path, header: http.Header{}, repeatable: true}
}

func post(path string, body []byte) *request {
	return &request{method: http.MethodPost, path: path, header: http.Header{"Content-Type": jsonType}, body: body}
}

// send sends req, again where that is safe, and returns the body of the answer.
func (c *Client) send(ctx context.Context, req *request) ([]byte, error) {
	var lost error
	for try := 0; ; try++ {
		body, again, err := c.once(ctx, req)
		if errors.Is(err, ErrNoAnswer) {
			lost = err
		}
		if err != nil && again >= 0 && try < c.o.Retries && ctx.Err() == nil {
			pause(ctx, again+time.Duration(c.o.Rand()*float64(min(c.o.Backoff<<min(try, 10), 5*time.Second))))
			if ctx.Err() == nil {
				continue
			}
		}
		if lost != nil && errors.Is(err, justonce.ErrUnavailable) && !errors.Is(err, justonce.ErrLedgerGone) {
			// That nothing was sent is true of the last try only.
			err = fmt.Errorf("%w; then: %v", lost, err)
		}
		return body, err
	}
}

// once sends req. A request that may be sent again has again >= 0, the least
// wait before that.
func (c *Client) once(ctx context.Context, req *request) (body []byte, again time.Duration, err error) {
	lost := time.Duration(-1)
	if req.repeatable {
		lost = 0
	}
	own, cancel := req.context(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(own, req.method, c.base+req.path, nil)
	if err != nil {
		return nil, -1, err
	}
	r.Header = req.header.Clone()
	if req.body != nil {
		// Without GetBody, net/http cannot send it a second time.
		r.Body, r.GetBody = io.NopCloser(bytes.NewReader(req.body)), nil
		r.ContentLength = int64(len(req.body))
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			return nil, 0, fmt.Errorf("%w: nothing was sent: %w", justonce.ErrUnavailable, err)
		}
		return nil, lost, lostError(ctx, req, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	if err != nil {
		return nil, lost, lostError(ctx, req, err)
	}
	if len(body) > answerLimit {
		return nil, -1, malformed(errors.New("it is too large"))
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted {
		return body, -1, nil
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	p := new(Problem)
	if media != "application/problem+json" || json.Unmarshal(body, p) != nil || p.Type == "" {
		return nil, lost, malformed(fmt.Errorf("status %d", resp.StatusCode))
	}
	switch p.slug() {
	case slugUnavailable, slugStopping:
		if again = lost; req.isCall {
			again = 0
		}
	case slugNoAnswerYet, slugInternal:
		again = lost
	default:
		again = -1
	}
	if again == 0 {
		n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		again = min(time.Duration(n)*time.Second, 5*time.Second)
	}
	return nil, again, p.cause()
}

// lostError is the error of a request whose answer did not come.
func lostError(ctx context.Context, req *request, err error) error {
	if ctx.Err() != nil && req.method == http.MethodGet {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// context returns the context of one sending.
func (req *request) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if !req.isCall {
		return context.WithTimeout(ctx, req.wait+answerTime)
	}
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), req.wait+answerTime)
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(quick)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-own.Done():
		}
	})
	return own, func() { stop(); cancel() }
}

// cause returns the root package's error that p stands for, or p.
func (p *Problem) cause() error {
	switch p.slug() {
	case slugInvalid, slugArguments, slugTooLarge:
		detail := p.Detail
		if n := len(p.Field) + 2; len(detail) >= n && detail[:n] == p.Field+": " {
			detail = detail[n:]
		}
		return &justonce.InvalidError{Field: p.Field, Detail: detail, Schema: p.Schema, TooLarge: p.TooLarge}
	case slugConflict:
		op := &justonce.Operation{Ref: justonce.Ref{Tenant: justonce.DefaultTenant, Key: p.Key}, Tool: p.Tool}
		op.State = p.State
		return &justonce.ConflictError{Operation: op, MatchedBy: p.MatchedBy, Paths: p.Paths, Differs: p.Differs}
	case slugNotAllowed:
		if p.Event != "" {
			return &justonce.TransitionError{State: p.State, Event: p.Event, Why: p.Why}
		}
	}
	return p
}
