package httpconn

import (
	"net/http"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/secret"
)

// Config declares an HTTP tool.
type Config struct {
	// Request is what is sent.
	Request Request `json:"request"`
	// Key is where the wire key goes. Empty where templates place it, as
	// ${wire_key}, or where the provider takes none.
	Key Key `json:"key"`
	// Capability repeats that of the tool's policy; it chooses defaults, and
	// with [justonce.ByKey] it is an error if the wire key goes nowhere.
	Capability justonce.Capability `json:"-"`
	// Answer says what an answer proves.
	Answer Answer `json:"answer"`
	// Lookup says how to ask afterwards. Nil: the provider cannot be asked, and
	// the connector is no [justonce.Finder].
	Lookup *Lookup `json:"lookup,omitempty"`

	// Timeout bounds one send or lookup beyond what the context says. Zero: no
	// further bound.
	Timeout time.Duration `json:"timeout,omitempty"`
	// ConnectTimeout bounds connecting, and again TLS. Defaults to 10s.
	ConnectTimeout time.Duration `json:"connect_timeout,omitempty"`
	// Connections is fresh or reuse. A kept-alive connection that died makes a
	// send's outcome unknown, so that only tools with capability key, where the
	// next attempt finds out, reuse connections by default.
	Connections string `json:"connections,omitempty"`
	// MaxAnswer bounds an answer's body, in bytes. Defaults to 1 MiB. The body
	// of a larger answer is dropped: the status still counts, expressions about
	// the body fail.
	MaxAnswer int64 `json:"max_answer,omitempty"`
	// EvidenceHeaders names further headers of answers to keep as evidence.
	// Credentials and cookies are refused.
	EvidenceHeaders []string `json:"evidence_headers,omitempty"`
}

// A Request describes an HTTP request.
type Request = httpask.Request

// Basic holds the templates of HTTP Basic authentication.
type Basic = httpask.Basic

// A Lookup describes how the provider is asked what became of an operation.
type Lookup = httpask.Lookup

// Secrets resolves secrets by name when a request is sent. Its values appear in
// no outcome, finding, error or evidence; where an answer echoes one it is
// replaced.
type Secrets = secret.Source

// SecretFunc is a function used as [Secrets].
type SecretFunc = secret.Func

// A Key says where the wire key goes.
type Key struct {
	// Header is the name of a header, such as Idempotency-Key.
	Header string `json:"header,omitempty"`
	// Quoted sends it as a structured field string, in double quotes.
	Quoted bool `json:"quoted,omitempty"`
	// Field is the name of a member of the body's outer object.
	Field string `json:"field,omitempty"`
}

// An Answer says what an answer proves, by CEL expressions.
//
// First the declared conditions are asked. If exactly one is true it decides;
// if several are, or one cannot be evaluated, the outcome is unknown. If none
// is, the defaults of those not declared are asked, and if none of them is true
// either the outcome is unknown.
type Answer struct {
	// Succeeded: the effect happened. Defaults to a 2xx status.
	Succeeded string `json:"succeeded,omitempty"`
	// Rejected: the provider did not and will not. Defaults to status 400, 402,
	// 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 417, 422, 426, 428, 431,
	// 451, and 307 and 308, which say that the URL is another one.
	Rejected string `json:"rejected,omitempty"`
	// NotExecuted: this send had no effect, another may. Defaults to status
	// 401, 407, 425 and 429.
	NotExecuted string `json:"not_executed,omitempty"`
	// Accepted: a long-running job was started. No default.
	Accepted string `json:"accepted,omitempty"`

	// Conclusive: a rejection is the provider's answer for the wire key, and so
	// speaks for every earlier send under it. Defaults to an answer marked as
	// replayed (idempotent-replayed or idempotency-replayed: true, or
	// x-idempotency-lookup: hit) and, with capability key, to status 402. Never
	// with status 401, 403, 407 or 429.
	Conclusive string `json:"conclusive,omitempty"`

	// Reference gives the provider's name for the effect or the job. No default.
	Reference string `json:"reference,omitempty"`
	// Result gives what callers get. Defaults to the body, which must be JSON or
	// empty: a success that is neither is unknown.
	Result string `json:"result,omitempty"`
	// FailureCode and FailureMessage tell of what did not succeed. Default to
	// the first of body.error.code, body.error.type, body.code, body.error, and
	// of body.error.message, body.message, body.detail, body.error_description,
	// body.title, else to the status.
	FailureCode    string `json:"failure_code,omitempty"`
	FailureMessage string `json:"failure_message,omitempty"`
}

// Options are what a connector needs besides its declaration. Nil is the same
// as the zero value.
type Options struct {
	// Client gives transport settings: TLS, proxy, DialContext. It is copied: its
	// redirect policy, timeout, cookies and HTTP/2 do not apply. Its transport
	// must be an *http.Transport, or one that never repeats a request. Defaults
	// to http.DefaultTransport's settings.
	Client *http.Client
	// Secrets resolves ${secret:name}. Nil: there are none.
	Secrets Secrets
	// Now is the clock against which dates in Retry-After count. Defaults to
	// time.Now.
	Now func() time.Time
}

const (
	defaultConnectTimeout = 10 * time.Second
	defaultMaxAnswer      = 1 << 20
)
