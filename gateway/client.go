package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/justonce-dev/justonce"
)

// ErrNoAnswer is the error of a request whose answer was lost, or did not come
// in time: the gateway may have recorded the call or decision, and may have
// carried it out. To make a call with a key again is always safe.
var ErrNoAnswer = errors.New("the gateway's answer was lost")

// ClientOptions configure a [Client]. The zero value of each field is its
// documented default.
type ClientOptions struct {
	// HTTPClient sends the requests. Its Timeout must be longer than Poll. The
	// client makes a copy that follows no redirects. Defaults to one of its own
	// with up to 64 idle connections.
	HTTPClient *http.Client
	// Poll is how long one request lets the gateway wait. Defaults to 30s, and
	// gateways have a bound of their own.
	Poll time.Duration
	// Retries is how often a request is sent again where that is safe. Defaults
	// to 3; negative: never.
	Retries int
	// Backoff is the wait before the first retry; it doubles each time, up to
	// 5s, with full jitter. Defaults to 100ms.
	Backoff time.Duration
	Rand    func() float64 // in [0,1), for jitter; defaults to math/rand/v2
}

// A Client is a [justonce.Service] that a [Server] carries out. It is safe for
// concurrent use.
//
// Operations in its answers have what the wire tells: neither leases, fences
// and versions nor arguments. Their tenant is justonce.DefaultTenant, whichever
// the gateway serves; calls and references that name another are refused, since
// the gateway alone decides that.
//
// Requests that only read are repeated when their answer was lost, and so are
// calls that have a key: the gateway sees to it that they have one effect. A
// call without a key is repeated only where it certainly was not carried out
// (no connection, or the gateway says so), because the repetition of a tool's
// call whose result was delivered may be meant as a new one. Decisions likewise.
// Nothing beneath the client repeats a POST by itself.
//
// Beside the root package's errors there is [ErrNoAnswer].
type Client struct {
	base string
	http *http.Client
	o    ClientOptions
}

var _ justonce.Service = (*Client)(nil)

// NewClient returns a Client of the gateway at baseURL, such as
// http://127.0.0.1:7411. It does not connect yet.
func NewClient(baseURL string, o *ClientOptions) (*Client, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, errors.New("gateway: the base URL is malformed") // it may hold a password
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("gateway: the base URL must be like http://127.0.0.1:7411")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("gateway: the base URL must have neither user, query nor fragment")
	}
	c := &Client{base: strings.TrimRight(baseURL, "/")}
	if o != nil {
		c.o = *o
	}
	c.o.setDefaults()
	c.http = &http.Client{}
	if c.o.HTTPClient != nil {
		*c.http = *c.o.HTTPClient
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64
		c.http.Transport = t
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// quick bounds what is done for a caller whose context has ended: an answer
// that is on its way is waited for, or the state is asked for.
const quick = time.Second

// Do implements [justonce.Service]. When ctx ends, Do finds out how things
// stand, which may take it another two seconds.
func (c *Client) Do(ctx context.Context, call justonce.Call) (*justonce.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	req, err := c.callRequest(ctx, "/v1/tool-calls", &call)
	if err != nil {
		return nil, err
	}
	wait := c.o.Poll
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	if wait = wait.Truncate(time.Second); call.NoWait || wait < 0 {
		wait = 0
	}
	req.header.Set("Prefer", "wait="+itoa(int(wait/time.Second)))
	req.wait = wait
	req.isCall = true
	body, err := c.send(ctx, req)
	if errors.Is(err, ErrNoAnswer) && ctx.Err() != nil {
		return c.recall(ctx, &call, err)
	}
	if err != nil {
		return nil, err
	}
	a, err := decodeAnswer(body)
	if err != nil || call.NoWait || a.Operation.Key == "" {
		return a, err
	}
	return c.follow(ctx, a)
}

// recall looks for the operation of a call whose answer was not waited for. It
// returns cause if there is none yet.
func (c *Client) recall(ctx context.Context, call *justonce.Call, cause error) (*justonce.Answer, error) {
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), quick)
	defer cancel()
	x, err := c.Explain(brief, *call)
	if err != nil || x.Meets == "" || x.Conflict {
		return nil, cause
	}
	a, err := c.Get(brief, justonce.Ref{Key: x.Meets})
	if err != nil {
		return nil, cause
	}
	a.MatchedBy = x.MatchedBy
	return a, nil
}

// follow waits until a's operation is settled for callers or ctx is done, and
// returns a with the operation as it was last seen. Where the ledger is gone that
// is worth nothing.
func (c *Client) follow(ctx context.Context, a *justonce.Answer) (*justonce.Answer, error) {
	for a.Operation.State.Open() && ctx.Err() == nil {
		start := time.Now()
		seen, err := c.poll(ctx, a.Operation.Key)
		switch {
		case errors.Is(err, justonce.ErrLedgerGone):
			return nil, err
		case err != nil:
			return a, nil // the answer that there is holds
		}
		if a.Operation = seen.Operation; a.Operation.State.Open() && time.Since(start) < quick {
			pause(ctx, quick) // it does not wait, for whatever reason
		}
	}
	return a, nil
}

// pause returns after d, or when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// poll asks once, letting the gateway wait.
func (c *Client) poll(ctx context.Context, key string) (*justonce.Answer, error) {
	wait := c.o.Poll
	if end, ok := ctx.Deadline(); ok {
		// The answer takes a moment; ctx must not end just before it.
		wait = min(wait, max(time.Until(end)-20*time.Millisecond, 0))
	}
	req := get(location(key), url.Values{"wait": {wait.Round(time.Millisecond).String()}})
	req.wait = wait
	body, err := c.send(ctx, req)
	if err != nil {
		return nil, err
	}
	return decodeAnswer(body)
}

// Wait implements [justonce.Service].
func (c *Client) Wait(ctx context.Context, ref justonce.Ref) (*justonce.Answer, error) {
	if err := check(ref); err != nil {
		return nil, err
	}
	a, err := c.poll(ctx, ref.Key)
	if err != nil && ctx.Err() != nil { // it ended before anything was known
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), quick)
		defer cancel()
		return c.Get(brief, ref)
	}
	if err != nil {
		return nil, err
	}
	return c.follow(ctx, a)
}

// Get implements [justonce.Service].
func (c *Client) Get(ctx context.Context, ref justonce.Ref) (*justonce.Answer, error) {
	if err := check(ref); err != nil {
		return nil, err
	}
	body, err := c.send(ctx, get(location(ref.Key), nil))
	if err != nil {
		return nil, err
	}
	return decodeAnswer(body)
}

// check refuses references that cannot be asked for.
func check(ref justonce.Ref) error {
	if ref.Key == "" {
		return justonce.ErrNotFound
	}
	return checkTenant(ref.Tenant)
}

func checkTenant(tenant string) error {
	if tenant != "" && tenant != justonce.DefaultTenant {
		return &justonce.InvalidError{Field: "tenant", Detail: "the gateway decides it; leave it out"}
	}
	return nil
}

func (o *ClientOptions) setDefaults() {
	if o.Poll <= 0 {
		o.Poll = 30 * time.Second
	}
	if o.Retries == 0 {
		o.Retries = 3
	}
	if o.Backoff <= 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.Rand == nil {
		o.Rand = defaultRand
	}
}

var errState = errors.New("it tells no state")

// malformed is the error of an answer that no gateway gives.
func malformed(err error) error {
	return fmt.Errorf("%w: what came is no answer of a gateway: %w", ErrNoAnswer, err)
}
