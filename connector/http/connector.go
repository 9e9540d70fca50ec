package httpconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/secret"
)

// New checks the declaration, compiles its expressions, and returns the
// connector. It is a [justonce.Finder] exactly if c.Lookup is set, and has a
// method Close that closes idle connections. Nothing is sent.
func New(c Config, o *Options) (justonce.Connector, error) {
	k := &connector{config: c}
	if o != nil {
		k.options = *o
	}
	if k.options.Now == nil {
		k.options.Now = time.Now
	}
	if err := k.compile(); err != nil {
		return nil, fmt.Errorf("http tool: %w", err)
	}
	if c.Lookup == nil {
		return k, nil
	}
	f, err := c.Lookup.Compile(nil)
	if err != nil {
		return nil, fmt.Errorf("http tool: lookup: %w", err)
	}
	return &finder{connector: k, lookup: f}, nil
}

var (
	_ justonce.Connector = (*connector)(nil)
	_ justonce.Finder    = (*finder)(nil)
)

type connector struct {
	config  Config
	options Options
	client  *httpask.Client
	request *httpask.Builder
	answer  judge
	reuse   bool
	limit   int64
}

// Close closes idle connections.
func (k *connector) Close() error {
	k.client.Close()
	return nil
}

func (k *connector) compile() error {
	c := &k.config
	env, err := celexpr.NewEnv(httpask.RequestVars())
	if err != nil {
		return err
	}
	if k.request, err = c.Request.Compile(env); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if c.Capability != "" && !c.Capability.Valid() {
		return fmt.Errorf("capability %q is none of key, reference, list, none", c.Capability)
	}
	if c.Capability == justonce.ByKey && c.Key.Header == "" && c.Key.Field == "" && !k.request.Uses("wire_key") {
		return errors.New("capability key, but the wire key goes nowhere: set key.header, key.field, or use ${wire_key}")
	}
	if c.Key.Header != "" && !httpask.Settable(c.Key.Header) {
		return fmt.Errorf("key.header %q cannot be set", c.Key.Header)
	}
	if c.Key.Field != "" && !k.request.HasBody() {
		return errors.New("key.field needs a body")
	}
	for _, h := range c.EvidenceHeaders {
		if !httpask.Showable(h) {
			return fmt.Errorf("header %q may hold credentials and is never kept as evidence", h)
		}
	}
	switch c.Connections {
	case "":
		k.reuse = c.Capability == justonce.ByKey
	case "reuse", "fresh":
		k.reuse = c.Connections == "reuse"
	default:
		return fmt.Errorf("connections %q is neither fresh nor reuse", c.Connections)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if k.limit = c.MaxAnswer; k.limit == 0 {
		k.limit = defaultMaxAnswer
	}
	k.client = httpask.NewClient(k.options.Client, c.ConnectTimeout)
	k.answer, err = c.Answer.compile(c.Capability)
	return err
}

// Send implements [justonce.Connector].
func (k *connector) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome {
	ctx, cancel := k.bound(ctx)
	defer cancel()
	v, err := operation(a).RequestVars()
	if err != nil {
		return refused(err)
	}
	extra := httpask.Extra{Header: k.config.Key.Header, HeaderValue: a.WireKey,
		Field: k.config.Key.Field, FieldValue: a.WireKey}
	if k.config.Key.Quoted {
		extra.HeaderValue = `"` + quotedPair.Replace(a.WireKey) + `"`
	}
	b, err := k.request.Build(ctx, v, a.Arguments, k.options.Secrets, extra)
	if m := (*secret.MissingError)(nil); errors.As(err, &m) {
		o := refused(err)
		o.Kind, o.Failure.Code = justonce.OutcomeNotExecuted, "secret_unavailable"
		return o
	}
	if err != nil {
		return refused(err)
	}
	x := k.client.Ask(ctx, b, k.reuse, k.limit)
	o := justonce.Outcome{Evidence: x.Evidence(k.config.EvidenceHeaders)}
	if x.Answer == nil {
		unanswered(&o, x)
		return o
	}
	o.RetryAfter = httpask.RetryAfter(x.Answer.Header.Get("Retry-After"), k.options.Now())
	k.answer.judge(&o, x.Answer, x.Answer.Vars(v))
	if f := o.Failure; f != nil {
		f.Code, f.Message = b.Redact.String(f.Code), b.Redact.String(f.Message)
	}
	return o
}

// quotedPair escapes what would end a structured field string early (RFC 9651,
// 3.3.3): a raw key must not turn into another key and parameters.
var quotedPair = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// refused is the outcome of a request that could not be built.
func refused(err error) justonce.Outcome {
	return justonce.Outcome{
		Kind:     justonce.OutcomeRejected,
		Failure:  &justonce.Failure{Code: "request_not_built", Message: httpask.Clip(err.Error(), 500) + "; nothing was sent"},
		Evidence: map[string]string{"stage": "request not built"},
	}
}

// unanswered judges an exchange that brought no complete answer.
func unanswered(o *justonce.Outcome, x *httpask.Exchange) {
	code := "no_answer"
	switch {
	case x.Timeout:
		code = "timeout"
	case x.Unsent():
		code = "not_sent"
	case x.Stage == httpask.StageCut:
		code = "answer_cut"
	}
	o.Failure = &justonce.Failure{Code: code, Message: string(x.Stage) + ": " + httpask.Clip(x.Err.Error(), 300)}
	if x.Unsent() {
		o.Kind = justonce.OutcomeNotExecuted
	}
}

func (k *connector) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.config.Timeout > 0 {
		return context.WithTimeout(ctx, k.config.Timeout)
	}
	return context.WithCancel(ctx)
}

func operation(a *justonce.Attempt) *httpask.Operation {
	return &httpask.Operation{Arguments: a.Arguments, WireKey: a.WireKey, Key: a.Key, Tool: a.Tool, Scope: a.Scope,
		RunID: a.RunID, FirstSent: a.FirstSent, UnknownAt: a.UnknownAt, Reference: a.Reference}
}
