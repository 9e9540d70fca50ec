package httpconn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/connector/connectortest"
	httpconn "github.com/justonce-dev/justonce/connector/http"
)

const (
	unknown  = justonce.OutcomeUnknown
	ok       = justonce.OutcomeSucceeded
	rejected = justonce.OutcomeRejected
	not      = justonce.OutcomeNotExecuted
	accepted = justonce.OutcomeAccepted
)

func attempt(args string) *justonce.Attempt {
	return &justonce.Attempt{Ref: justonce.Ref{Key: "k-1"}, Tool: "pay", Arguments: json.RawMessage(args),
		WireKey: "0123456789abcdef0123456789abcdef", Number: 1, ID: "at-1",
		FirstSent: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// answered sends once to a server that gives the answer.
func answered(t *testing.T, answer string, change func(*httpconn.Config)) justonce.Outcome {
	t.Helper()
	p := connectortest.HTTP(t, true, answer)
	c := httpconn.Config{Request: httpconn.Request{URL: "http://" + p.Addr() + "/"}, Key: httpconn.Key{Header: "Idempotency-Key"}}
	if change != nil {
		change(&c)
	}
	return must(t, c).Send(context.Background(), attempt(`{"amount":5}`))
}

func TestStatusDefaults(t *testing.T) {
	t.Parallel()
	want := map[int]justonce.OutcomeKind{}
	for _, s := range []int{200, 201, 202, 204, 226} {
		want[s] = ok
	}
	for _, s := range []int{307, 308, 400, 402, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 417, 422, 426, 428, 431, 451} {
		want[s] = rejected
	}
	for _, s := range []int{401, 407, 425, 429} {
		want[s] = not
	}
	for status := 200; status < 600; status++ {
		if status > 230 && status < 300 || status > 310 && status < 400 || status > 455 && status < 500 || status > 515 {
			continue
		}
		answer := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 0\r\nRetry-After: 7\r\nLocation: /again\r\n\r\n", status)
		for _, c := range []justonce.Capability{justonce.ByKey, justonce.ByNothing} {
			o := answered(t, answer, func(x *httpconn.Config) { x.Capability = c })
			w, known := want[status]
			if !known && status < 300 {
				w = ok
			}
			if o.Kind != w {
				t.Errorf("%d: outcome %s, want %s", status, o.Kind, w)
			}
			if o.Conclusive != (c == justonce.ByKey && status == 402) {
				t.Errorf("%d with capability %s: conclusive is %t", status, c, o.Conclusive)
			}
			if o.RetryAfter != 7*time.Second {
				t.Errorf("%d: retry after %s", status, o.RetryAfter)
			}
			if o.Kind != ok && (o.Failure == nil || o.Failure.Code != fmt.Sprintf("http_%d", status)) {
				t.Errorf("%d: failure %+v", status, o.Failure)
			}
		}
	}
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	text := func(status int, body string) string {
		return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
	}
	js := connectortest.JSON
	slack := httpconn.Answer{Succeeded: "status == 200 && body.ok", Rejected: "status == 200 && !body.ok",
		Reference: "body.ts", FailureCode: "body.error"}
	for name, c := range map[string]struct {
		answer string
		a      httpconn.Answer
		want   justonce.OutcomeKind
		result string
		detail string // of reference, or of the failure's code
	}{
		"declared success":         {js(200, `{"ok":true,"ts":"1.5"}`), slack, ok, `{"ok":true,"ts":"1.5"}`, "1.5"},
		"declared rejection":       {js(200, `{"ok":false,"error":"no_channel"}`), slack, rejected, "", "no_channel"},
		"default beside declared":  {js(429, `{}`), slack, not, "", "http_429"},
		"absent member":            {js(200, `{"yes":true}`), slack, unknown, "", "answer_not_understood"},
		"wrong type":               {js(200, `{"ok":"true"}`), slack, unknown, "", "answer_not_understood"},
		"malformed 200":            {js(200, `{"id":`), httpconn.Answer{}, unknown, "", "answer_not_understood"},
		"a proxy's page":           {text(200, "<html>Sign in</html>"), httpconn.Answer{}, unknown, "", "answer_not_understood"},
		"a page that is meant":     {text(200, "ok"), httpconn.Answer{Result: "text"}, ok, `"ok"`, ""},
		"two JSON values":          {js(200, `{"id":1}{"id":2}`), httpconn.Answer{}, unknown, "", "answer_not_understood"},
		"no body":                  {js(204, ""), httpconn.Answer{}, ok, "", ""},
		"no body where one is due": {js(200, ""), httpconn.Answer{Reference: "body.id"}, unknown, "", "answer_not_understood"},
		"contradiction":            {js(200, `{}`), httpconn.Answer{Succeeded: "true", Rejected: "true"}, unknown, "", "answer_not_understood"},
		"declared beats default":   {js(202, `{"job":7}`), httpconn.Answer{Accepted: "status == 202", Reference: "body.job"}, accepted, `{"job":7}`, "7"},
		"conflict means exists":    {js(409, `{"id":"t1"}`), httpconn.Answer{Succeeded: "status == 409 || status == 201", Reference: "body.id"}, ok, `{"id":"t1"}`, "t1"},
		"unavailable by promise":   {js(503, `{}`), httpconn.Answer{NotExecuted: "status == 503 && headers[?'content-type'].hasValue()"}, not, "", "http_503"},
		"exact numbers":            {js(200, `{"id":9007199254740993,"x":0.12345678901234567890,"big":123456789012345678901234567890}`), httpconn.Answer{Reference: "body.id", Result: "{'id': body.id, 'x': body.x, 'big': body.big}"}, ok, `{"big":123456789012345678901234567890,"id":9007199254740993,"x":0.12345678901234567890}`, "9007199254740993"},
		"arguments in expressions": {js(200, `{"charged":5}`), httpconn.Answer{Succeeded: "status == 200 && body.charged == args.amount"}, ok, `{"charged":5}`, ""},
		"endless":                  {js(200, `{"a":[`+strings.Repeat("1,", 3000)+`1]}`), httpconn.Answer{Succeeded: "body.a.all(x, body.a.all(y, x == y))"}, unknown, "", "answer_not_understood"},
		"nested error":             {js(400, `{"error":{"type":"card_error","message":"no"}}`), httpconn.Answer{}, rejected, "", "card_error"},
		"flat error":               {js(400, `{"error":"bad"}`), httpconn.Answer{}, rejected, "", "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := answered(t, c.answer, func(x *httpconn.Config) { x.Answer = c.a })
			got := o.Reference
			if o.Failure != nil {
				got = o.Failure.Code
			}
			if o.Kind != c.want || string(o.Result) != c.result || got != c.detail {
				t.Errorf("got %s, result %s, detail %q (%+v); want %s, %s, %q", o.Kind, o.Result, got, o.Failure, c.want, c.result, c.detail)
			}
		})
	}
}

func TestConclusive(t *testing.T) {
	t.Parallel()
	replayed := func(status int) string {
		return fmt.Sprintf("HTTP/1.1 %d X\r\nIdempotent-Replayed: true\r\nContent-Length: 0\r\n\r\n", status)
	}
	for status, want := range map[int]bool{400: true, 402: true, 403: false, 404: true, 422: true} {
		if o := answered(t, replayed(status), nil); o.Conclusive != want || o.Evidence["idempotent-replayed"] != "true" {
			t.Errorf("replayed %d: conclusive %t (%v)", status, o.Conclusive, o.Evidence)
		}
	}
	declared := func(x *httpconn.Config) { x.Answer.Conclusive = "status in [403, 422]" }
	for status, want := range map[int]bool{400: false, 402: false, 403: false, 422: true} {
		if o := answered(t, connectortest.JSON(status, "{}"), declared); o.Conclusive != want {
			t.Errorf("declared, %d: conclusive %t", status, o.Conclusive)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	big := connectortest.JSON(200, `{"id":"x","pad":"`+strings.Repeat("x", 2000)+`"}`)
	limit := func(x *httpconn.Config) { x.MaxAnswer = 1000 }
	o := answered(t, big, limit)
	if o.Kind != ok || o.Result != nil || o.Evidence["note"] == "" {
		t.Errorf("by status: %+v", o)
	}
	o = answered(t, big, func(x *httpconn.Config) { limit(x); x.Answer.Reference = "body.id" })
	if o.Kind != ok || o.Reference != "" {
		t.Errorf("with a reference that is lost: %+v", o)
	}
	o = answered(t, big, func(x *httpconn.Config) { limit(x); x.Answer.Succeeded = "body.id == 'x'" })
	if o.Kind != unknown {
		t.Errorf("by the body: %+v", o)
	}
}

func TestWhatIsNoDeclaration(t *testing.T) {
	t.Parallel()
	req := httpconn.Request{URL: "https://api.example.com/v1"}
	for name, c := range map[string]httpconn.Config{
		"no url":                 {},
		"no scheme":              {Request: httpconn.Request{URL: "api.example.com/v1"}},
		"host from an argument":  {Request: httpconn.Request{URL: "https://${args.host}/v1"}},
		"port from an argument":  {Request: httpconn.Request{URL: "https://x:${args.port}/v1"}},
		"credentials in the url": {Request: httpconn.Request{URL: "https://user:pw@x/v1"}},
		"fragment":               {Request: httpconn.Request{URL: "https://x/v1#a"}},
		"dot segment":            {Request: httpconn.Request{URL: "https://x/a/../b"}},
		"unended placeholder":    {Request: httpconn.Request{URL: "https://x/${args.a"}},
		"unknown variable":       {Request: httpconn.Request{URL: "https://x/${attempt}"}},
		"transport's header":     {Request: httpconn.Request{URL: "https://x/", Headers: map[string]string{"content-length": "1"}}},
		"method":                 {Request: httpconn.Request{URL: "https://x/", Method: "BREW"}},
		"encoding":               {Request: httpconn.Request{URL: "https://x/", Encoding: "xml"}},
		"key goes nowhere":       {Request: req, Capability: justonce.ByKey},
		"key without a body":     {Request: httpconn.Request{URL: "https://x/", Encoding: "none"}, Key: httpconn.Key{Field: "k"}},
		"key header's name":      {Request: req, Key: httpconn.Key{Header: "Idempotency Key"}},
		"key as transport's":     {Request: req, Key: httpconn.Key{Header: "host"}},
		"not a condition":        {Request: req, Answer: httpconn.Answer{Succeeded: "status"}},
		"bad expression":         {Request: req, Answer: httpconn.Answer{Reference: "body."}},
		"secret header shown":    {Request: req, EvidenceHeaders: []string{"set-cookie"}},
		"connections":            {Request: req, Connections: "maybe"},
		"capability":             {Request: req, Capability: "magic"},
		"lookup without match":   {Request: req, Lookup: &httpconn.Lookup{Request: req, Items: "body"}},
		"match without items":    {Request: req, Lookup: &httpconn.Lookup{Request: req, Match: "true"}},
	} {
		if _, err := httpconn.New(c, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := httpconn.New(httpconn.Config{Request: httpconn.Request{URL: "https://x/${wire_key}"}, Capability: justonce.ByKey}, nil); err != nil {
		t.Errorf("the wire key in a template: %v", err)
	}
}
