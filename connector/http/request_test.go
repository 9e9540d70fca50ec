package httpconn_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/connector/connectortest"
	httpconn "github.com/justonce-dev/justonce/connector/http"
)

// wire sends once and returns the bytes that went over the wire.
func wire(t *testing.T, c httpconn.Config, a *justonce.Attempt) (string, justonce.Outcome) {
	t.Helper()
	got := make(chan string, 4)
	p := connectortest.Serve(t, func(c net.Conn, effect func()) {
		var raw bytes.Buffer
		r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &raw)))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		effect()
		got <- raw.String()
		_, _ = io.WriteString(c, connectortest.JSON(200, `{}`))
	})
	c.Request.URL = strings.Replace(c.Request.URL, "HOST", p.Addr(), 1)
	o := must(t, c).Send(context.Background(), a)
	p.Effects()
	select {
	case raw := <-got:
		return strings.ReplaceAll(raw, p.Addr(), "HOST"), o
	default:
		return "", o
	}
}

// A raw key is whatever a caller gave: quoted, it must stay one string.
func TestQuotedKeyStaysOneString(t *testing.T) {
	t.Parallel()
	raw, _ := wire(t, httpconn.Config{Request: httpconn.Request{URL: "http://HOST/pay"},
		Key: httpconn.Key{Header: "Idempotency-Key", Quoted: true}},
		&justonce.Attempt{Tool: "charge", WireKey: `a";b="\`})
	if want := `Idempotency-Key: "a\";b=\"\\"` + "\r\n"; !strings.Contains(raw, want) {
		t.Errorf("got %q, want %q in it", raw, want)
	}
}

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	args := `{ "order" : "a/b ?#%é" , "amount":9007199254740993, "rate":0.12345678901234567890, "tags":["x","y"], "deep":{"k":null} }`
	for name, c := range map[string]struct {
		config httpconn.Config
		want   []string
	}{
		"arguments as they came": {
			httpconn.Config{Request: httpconn.Request{URL: "http://HOST/pay"}, Key: httpconn.Key{Header: "Idempotency-Key"}},
			[]string{"POST /pay HTTP/1.1\r\n", "Idempotency-Key: 0123456789abcdef0123456789abcdef\r\n", "Content-Type: application/json\r\n", "Connection: close\r\n", "\r\n\r\n" + args},
		},
		"quoted key and field": {
			httpconn.Config{Request: httpconn.Request{URL: "http://HOST/pay"}, Key: httpconn.Key{Header: "Idempotency-Key", Quoted: true, Field: "key"}},
			[]string{"Idempotency-Key: \"0123456789abcdef0123456789abcdef\"\r\n", `{"key":"0123456789abcdef0123456789abcdef", "order" : "a/b`},
		},
		"escaped path and query": {
			httpconn.Config{Request: httpconn.Request{Method: "put", URL: "http://HOST/o/${args.order}/x?q=${args.order}&u=${uuid(wire_key)}", Encoding: "none",
				Query: map[string]string{"n": "${args.amount}", "none": "${args.?missing}", "null": "${args.deep.k}"}}},
			[]string{"PUT /o/a%2Fb%20%3F%23%25%C3%A9/x?q=a%2Fb+%3F%23%25%C3%A9&u=01234567-89ab-4def-8123-456789abcdef&n=9007199254740993 HTTP/1.1\r\n", "Content-Length: 0\r\n"},
		},
		"body from a template": {
			httpconn.Config{Request: httpconn.Request{URL: "http://HOST/", Body: map[string]any{
				"amount": "${args.amount}", "rate": "${args.rate}", "text": "order ${args.order} costs $${${args.amount}}", "tags": []any{"${args.tags}", 1, true, nil},
				"left_out": "${args.?missing}", "key": "${wire_key}", "deep": "${args.deep}"}}},
			[]string{`{"amount":9007199254740993,"deep":{"k":null},"key":"0123456789abcdef0123456789abcdef","rate":0.12345678901234567890,"tags":[["x","y"],1,true,null],"text":"order a/b ?#%é costs ${9007199254740993}"}`},
		},
		"form": {
			httpconn.Config{Request: httpconn.Request{URL: "http://HOST/", Encoding: "form"}, Key: httpconn.Key{Field: "key"}},
			[]string{"Content-Type: application/x-www-form-urlencoded\r\n", "\r\n\r\namount=9007199254740993&key=0123456789abcdef0123456789abcdef&order=a%2Fb+%3F%23%25%C3%A9&rate=0.12345678901234567890&tags%5B0%5D=x&tags%5B1%5D=y"},
		},
		"secret, basic and headers": {
			httpconn.Config{Request: httpconn.Request{URL: "http://HOST/", Basic: &httpconn.Basic{Username: "me", Password: "${secret:a}"},
				Headers: map[string]string{"X-Token": "T ${secret:vault/b}", "X-None": "${args.?none}", "X-Scope": "${scope}-${tool}-${key}"}}},
			[]string{"Authorization: Basic bWU6c2tfbGl2ZV9odW50ZXIyX2h1bnRlcjI=\r\n", "X-Token: T " + apiKey + "\r\n", "X-Scope: -pay-k-1\r\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, o := wire(t, c.config, attempt(args))
			for _, w := range c.want {
				if !strings.Contains(raw, w) {
					t.Errorf("the request lacks %q (outcome %+v):\n%s", w, o.Failure, raw)
				}
			}
			if strings.Contains(raw, "X-None") || strings.Contains(raw, "none=") || strings.Contains(raw, "null=") {
				t.Errorf("what is absent was sent:\n%s", raw)
			}
			a := attempt(args)
			a.Number, a.ID = 7, "at-7"
			if again, _ := wire(t, c.config, a); again != raw {
				t.Errorf("another attempt sends other bytes:\n%s\n%s", raw, again)
			}
		})
	}
}

func TestWhatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args string
		r    httpconn.Request
		says string
	}{
		"missing in path":      {`{}`, httpconn.Request{URL: "http://HOST/${args.id}"}, "no such key: id"},
		"empty in path":        {`{"id":""}`, httpconn.Request{URL: "http://HOST/${args.id}/refund"}, "empty"},
		"dots in path":         {`{"id":".."}`, httpconn.Request{URL: "http://HOST/a/${args.id}"}, "dot segment"},
		"half dots in path":    {`{"id":"."}`, httpconn.Request{URL: "http://HOST/a/.${args.id}"}, "dot segment"},
		"climbing in path":     {`{"id":"../refunds"}`, httpconn.Request{URL: "http://HOST/a/${args.id}"}, "dot segment"},
		"escaped climbing":     {`{"id":"%2e%2e%2frefunds"}`, httpconn.Request{URL: "http://HOST/a/${args.id}"}, "dot segment"},
		"object in path":       {`{"id":{}}`, httpconn.Request{URL: "http://HOST/${args.id}"}, "neither text nor a number"},
		"line break in header": {`{"id":"a\r\nX: y"}`, httpconn.Request{URL: "http://HOST/", Headers: map[string]string{"X-Id": "${args.id}"}}, "control character"},
		"missing in body":      {`{}`, httpconn.Request{URL: "http://HOST/", Body: map[string]any{"a": []any{"${args.id}"}}}, "no such key: id"},
		"form of a list":       {`[1]`, httpconn.Request{URL: "http://HOST/", Encoding: "form"}, "object"},
		"not JSON":             {`{`, httpconn.Request{URL: "http://HOST/"}, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, o := wire(t, httpconn.Config{Request: c.r}, attempt(c.args))
			if raw != "" || o.Kind != rejected || o.Failure == nil || !strings.Contains(o.Failure.Message, c.says) {
				t.Errorf("outcome %+v %+v, want rejected for %q; sent %q", o, o.Failure, c.says, raw)
			}
		})
	}
	for _, args := range []string{`{"key":"mine"}`, `{"KEY":"mine"}`} {
		raw, o := wire(t, httpconn.Config{Request: httpconn.Request{URL: "http://HOST/"}, Key: httpconn.Key{Field: "key"}}, attempt(args))
		if raw != "" || o.Kind != rejected {
			t.Errorf("an argument set the key's field: %+v", o)
		}
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	c := httpconn.Config{Request: httpconn.Request{URL: "http://127.0.0.1:1/", Headers: map[string]string{"X": "${secret:gone}"}}}
	k, err := httpconn.New(c, &httpconn.Options{Secrets: httpconn.SecretFunc(func(context.Context, string) (string, error) {
		return "", io.ErrUnexpectedEOF
	})})
	if err != nil {
		t.Fatal(err)
	}
	o := k.Send(context.Background(), attempt(`{}`))
	if o.Kind != not || o.Failure.Code != "secret_unavailable" || !strings.Contains(o.Failure.Message, `"gone"`) {
		t.Errorf("a secret that cannot be had: %+v", o.Failure)
	}
	// No argument chooses a secret: its text is not a template.
	raw, _ := wire(t, httpconn.Config{Request: httpconn.Request{URL: "http://HOST/", Headers: map[string]string{"X-Note": "${args.note}"}}},
		attempt(`{"note":"${secret:a}"}`))
	if strings.Contains(raw, apiKey) || !strings.Contains(raw, "X-Note: ${secret:a}\r\n") {
		t.Errorf("the request is\n%s", raw)
	}
	// An answer that echoes secrets.
	body := `{"a":"` + apiKey + `","b":"Basic bWU6c2tfbGl2ZV9odW50ZXIyX2h1bnRlcjI="}`
	o = answered(t, "HTTP/1.1 200 OK\r\nRequest-Id: "+apiKey+"\r\n"+strings.SplitN(connectortest.JSON(200, body), "\r\n", 2)[1], func(c *httpconn.Config) {
		c.Request.Basic = &httpconn.Basic{Username: "me", Password: "${secret:a}"}
	})
	if want := `{"a":"[redacted]","b":"Basic [redacted]"}`; string(o.Result) != want || o.Evidence["request-id"] != "[redacted]" {
		t.Errorf("result %s, evidence %v; want %s", o.Result, o.Evidence, want)
	}
}
