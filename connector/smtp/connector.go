package smtpconn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/secret"
)

// New checks the declaration, compiles its templates, and returns the
// connector. It is a [justonce.Finder] exactly if c.Lookup is set. Nothing is
// sent.
func New(c Config, o *Options) (justonce.Connector, error) {
	k := &connector{config: c}
	if o != nil {
		k.options = *o
	}
	if err := k.compile(); err != nil {
		return nil, fmt.Errorf("smtp tool: %w", err)
	}
	if c.Lookup == nil {
		return k, nil
	}
	f, err := c.Lookup.Compile(moreVars)
	if err != nil {
		return nil, fmt.Errorf("smtp tool: lookup: %w", err)
	}
	return &finder{k, f, httpask.NewClient(k.options.Client, k.config.ConnectTimeout)}, nil
}

var (
	_ justonce.Connector = (*connector)(nil)
	_ justonce.Finder    = (*finder)(nil)

	moreVars = map[string]celexpr.Kind{"message_id": celexpr.Text}
)

type connector struct {
	config  Config
	options Options
	host    string
	domain  string
	message *composer
	login   *login
	secrets map[string]bool
}

var domainName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

func (k *connector) compile() error {
	c := &k.config
	var err error
	if k.host, _, err = net.SplitHostPort(c.Addr); err != nil {
		return fmt.Errorf("addr %q is not host:port", c.Addr)
	}
	switch c.TLS {
	case "":
		c.TLS = TLSStart
	case TLSStart, TLSImplicit, TLSOpportunistic, TLSNone:
	default:
		return fmt.Errorf("tls %q is none of starttls, implicit, opportunistic, none", c.TLS)
	}
	if c.Auth != nil && c.TLS == TLSNone && !local(k.host) {
		return errors.New("a login without TLS would show the password to the network")
	}
	if c.Hello == "" {
		c.Hello = "localhost"
	}
	if !domainName.MatchString(c.Hello) {
		return fmt.Errorf("hello %q is no host name", c.Hello)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	vars := httpask.RequestVars()
	vars["message_id"] = celexpr.Text
	env, err := celexpr.NewEnv(vars)
	if err != nil {
		return err
	}
	k.secrets = map[string]bool{}
	if k.message, err = c.Message.compile(env, k.secrets); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if k.domain = c.Domain; k.domain == "" {
		k.domain = k.message.domain
	}
	if !domainName.MatchString(k.domain) {
		return errors.New("domain: give the right half of the Message-ID; the sender's address does not tell it")
	}
	if c.Auth != nil {
		if k.login, err = c.Auth.compile(env, k.secrets); err != nil {
			return fmt.Errorf("auth: %w", err)
		}
	}
	return nil
}

// Send implements [justonce.Connector].
func (k *connector) Send(ctx context.Context, a *justonce.Attempt) justonce.Outcome {
	ctx, cancel := k.bound(ctx)
	defer cancel()
	id := k.messageID(a.WireKey)
	v, err := k.operation(a).RequestVars()
	if err != nil {
		return refused(err)
	}
	values, err := secret.Resolve(ctx, k.options.Secrets, k.secrets)
	if err != nil {
		o := refused(err)
		o.Kind, o.Failure.Code = justonce.OutcomeNotExecuted, "secret_unavailable"
		return o
	}
	s := &session{connector: k, id: id}
	for _, value := range values {
		s.redact.Hide(value)
	}
	m, err := k.message.compose(v, values, id, a.FirstSent)
	if err == nil {
		err = s.credentials(v, values)
	}
	if err != nil {
		return refused(errors.New(s.redact.String(err.Error())))
	}
	return s.send(ctx, m)
}

// refused is the outcome of a mail that could not be composed.
func refused(err error) justonce.Outcome {
	return justonce.Outcome{
		Kind:     justonce.OutcomeRejected,
		Failure:  &justonce.Failure{Code: "invalid_message", Message: httpask.Clip(err.Error(), 500) + "; nothing was sent"},
		Evidence: map[string]string{"stage": "message not composed"},
	}
}

var safeLeft = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// messageID returns the Message-ID without its angle brackets.
func (k *connector) messageID(wireKey string) string {
	left := wireKey
	if !safeLeft.MatchString(left) {
		h := sha256.Sum256([]byte(wireKey))
		left = hex.EncodeToString(h[:16])
	}
	return left + "@" + k.domain
}

func (k *connector) operation(a *justonce.Attempt) *httpask.Operation {
	return &httpask.Operation{Arguments: a.Arguments, WireKey: a.WireKey, Key: a.Key, Tool: a.Tool, Scope: a.Scope,
		RunID: a.RunID, FirstSent: a.FirstSent, UnknownAt: a.UnknownAt, Reference: a.Reference,
		More: celexpr.Vars{"message_id": k.messageID(a.WireKey)}}
}

func (k *connector) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if k.config.Timeout > 0 {
		return context.WithTimeout(ctx, k.config.Timeout)
	}
	return context.WithCancel(ctx)
}

// local reports whether host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
