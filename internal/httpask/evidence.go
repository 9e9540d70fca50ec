package httpask

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// shown are the headers of answers that help a person and hold no secret.
var shown = []string{
	"Date", "Request-Id", "X-Request-Id", "X-Correlation-Id", "Idempotent-Replayed", "Idempotency-Replayed",
	"X-Idempotency-Lookup", "Transient-Error", "Stripe-Should-Retry", "Paypal-Debug-Id", "Retry-After",
}

// neverShown may hold secrets whatever the configuration says.
var neverShown = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "Www-Authenticate",
	"Proxy-Authenticate", "Authentication-Info"}

// Showable reports whether a header may become evidence.
func Showable(name string) bool { return !slices.Contains(neverShown, http.CanonicalHeaderKey(name)) }

// Evidence says what was seen: stage, error, status and headers that help,
// with the names in more among them; never bodies or credentials.
func (x *Exchange) Evidence(more []string) map[string]string {
	e := map[string]string{"stage": string(x.Stage)}
	if x.Reused {
		e["connection"] = "kept alive"
	}
	if x.Err != nil {
		e["error"] = Clip(x.Err.Error(), 300)
	}
	a := x.Answer
	if a == nil {
		return e
	}
	e["status"] = strconv.Itoa(a.Status)
	for _, names := range [][]string{shown, more} {
		for _, name := range names {
			if v := a.Header.Get(name); v != "" && Showable(name) {
				e[lower(name)] = Clip(v, 200)
			}
		}
	}
	if a.TooLarge {
		e["note"] = "the answer's body was over the size limit and was dropped"
	}
	return e
}

// Clip returns at most n bytes of s, cut at a rune.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func redactHeader(h http.Header, b *Built) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		for _, v := range values {
			out[name] = append(out[name], b.Redact.String(v))
		}
	}
	return out
}

func lower(s string) string       { return strings.ToLower(s) }
func join(values []string) string { return strings.Join(values, ", ") }
