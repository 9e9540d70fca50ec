package smtpconn_test

import (
	"context"
	"encoding/json"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/connector/connectortest"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

const password = "correct horse battery staple"

var secrets = smtpconn.SecretFunc(func(context.Context, string) (string, error) { return password, nil })

func must(t testing.TB, c smtpconn.Config, o *smtpconn.Options) justonce.Connector {
	t.Helper()
	if c.Message.From == "" {
		c.Message.From = "Shop <shop@example.com>"
	}
	if o == nil {
		o = &smtpconn.Options{}
	}
	o.Secrets = secrets
	k, err := smtpconn.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var arguments = json.RawMessage(`{"to":["ada@example.com","Bob <bob@example.com>"],"subject":"Your order","text":"Hello\n.\nGood bye."}`)

func TestConformance(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate(t)
	every := 0
	if testing.Short() {
		every = 40
	}
	for name, v := range map[string]struct {
		server func() *server
		config smtpconn.Config
		secret string
		cuts   int
	}{
		"plain": {func() *server { return &server{} }, smtpconn.Config{TLS: smtpconn.TLSNone}, "none in use", every},
		"starttls and login": {
			func() *server {
				return &server{extensions: []string{"STARTTLS", "AUTH PLAIN LOGIN"}, tls: serverTLS}
			},
			smtpconn.Config{Auth: &smtpconn.Auth{Username: "shop", Password: "${secret:smtp}"}}, password, 40,
		},
		"implicit": {
			func() *server { return &server{tls: serverTLS, implicit: true} },
			smtpconn.Config{TLS: smtpconn.TLSImplicit}, "none in use", 40,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connectortest.Run(t, connectortest.Suite{
				Accepting: func(t testing.TB) connectortest.Provider { return v.server().start(t) },
				Refusing: func(t testing.TB) connectortest.Provider {
					s := v.server()
					s.replies = map[string]string{"end": "554 5.7.1 spam, " + v.secret}
					return s.start(t)
				},
				Connector: func(t testing.TB, addr string) justonce.Connector {
					c := v.config
					c.Addr = addr
					return must(t, c, &smtpconn.Options{TLS: clientTLS})
				},
				Arguments: arguments,
				Secrets:   secretsOf(v.secret),
				MaxCuts:   v.cuts,
			})
		})
	}
}

func secretsOf(s string) []string {
	if s == password {
		return []string{s}
	}
	return nil
}
