package smtpconn

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/secret"
)

// Config declares a tool that sends mail. Its strings are templates where it is
// said: ${…} holds a CEL expression over args, wire_key, key, tool, scope,
// run_id, first_sent and message_id, ${secret:name} a secret, $${ stands for ${.
type Config struct {
	// Addr is the server's host:port.
	Addr string `json:"addr"`
	// TLS is starttls (required), implicit, opportunistic (STARTTLS if it is
	// offered) or none. Defaults to starttls.
	TLS string `json:"tls,omitempty"`
	// Hello is the name given with EHLO. Defaults to localhost.
	Hello string `json:"hello,omitempty"`
	// Auth logs in. Nil: no login.
	Auth *Auth `json:"auth,omitempty"`

	// Message is the mail.
	Message Message `json:"message"`
	// Domain is the right half of the Message-ID. Defaults to that of the
	// sender's address.
	Domain string `json:"domain,omitempty"`

	// Lookup asks over HTTP what became of a mail; its templates and expressions
	// also have message_id. A match without a reference gets the message_id.
	// Nil: nobody can be asked, and the connector is no [justonce.Finder].
	Lookup *Lookup `json:"lookup,omitempty"`

	// Timeout bounds one send or lookup beyond what the context says. Zero: no
	// further bound.
	Timeout time.Duration `json:"timeout,omitempty"`
	// ConnectTimeout bounds connecting. Defaults to 10s.
	ConnectTimeout time.Duration `json:"connect_timeout,omitempty"`
}

// The values of [Config.TLS].
const (
	TLSStart         = "starttls"
	TLSImplicit      = "implicit"
	TLSOpportunistic = "opportunistic"
	TLSNone          = "none"
)

// Auth is a login.
type Auth struct {
	// Mechanism is plain, login, cram-md5 or xoauth2 (the password is then the
	// access token). Defaults to plain, or login where only that is offered.
	Mechanism string `json:"mechanism,omitempty"`
	// Username and Password are templates, such as ${secret:smtp}.
	Username string `json:"username"`
	Password string `json:"password"`
}

// A Message holds the templates of a mail. Control characters in addresses,
// subject or headers are refused: nothing is sent then.
type Message struct {
	// From is one address, with or without a name. Required.
	From string `json:"from"`
	// To, Cc and Bcc hold addresses; each element may give several, separated by
	// commas or as a list. To defaults to ${args.to}, and the others to none.
	To  []string `json:"to,omitempty"`
	Cc  []string `json:"cc,omitempty"`
	Bcc []string `json:"bcc,omitempty"`
	// Subject defaults to ${args.subject}.
	Subject string `json:"subject,omitempty"`
	// Text and HTML are the body; with both the reader chooses. Where neither is
	// set they default to ${args.?text} and ${args.?html}. A mail without a body
	// is refused.
	Text string `json:"text,omitempty"`
	HTML string `json:"html,omitempty"`
	// Headers adds fields, such as Reply-To or a provider's idempotency key:
	// {Resend-Idempotency-Key: ${wire_key}}. One whose only placeholder is
	// absent is left out.
	Headers map[string]string `json:"headers,omitempty"`
}

// A Lookup describes how a provider is asked over HTTP what became of a mail.
type Lookup = httpask.Lookup

// A Request describes a lookup's HTTP request.
type Request = httpask.Request

// Secrets resolves secrets by name when a mail is sent. Its values appear in no
// outcome, finding, error or evidence.
type Secrets = secret.Source

// SecretFunc is a function used as [Secrets].
type SecretFunc = secret.Func

// Options are what a connector needs besides its declaration. Nil is the same
// as the zero value.
type Options struct {
	// TLS is the base of the connection's configuration. Defaults to the
	// system's roots and the server's name, TLS 1.2 or later.
	TLS *tls.Config
	// Client gives the lookup's transport settings.
	Client *http.Client
	// Secrets resolves ${secret:name}. Nil: there are none.
	Secrets Secrets
}
