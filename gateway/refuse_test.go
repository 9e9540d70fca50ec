package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
)

// message composes a request of lines that end in LF here.
func message(lines string, body string) []byte {
	head := strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\r\n")
	return fmt.Appendf(nil, "%s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

func readProblem(t *testing.T, resp *http.Response) gateway.Problem {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p gateway.Problem
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%s: %s: %v", resp.Status, body, err)
	}
	if resp.Header.Get("Content-Type") != "application/problem+json" || p.Status != resp.StatusCode ||
		p.Title == "" || p.Advice.Code == "" || p.Advice.Text == "" {
		t.Errorf("%s: %s: not a whole problem", resp.Status, body)
	}
	return p
}

// Whatever is wrong with a request, the answer is a clear problem, nothing is
// sent, and nothing is recorded but a count.
func TestRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	m := gateway.NewMetrics()
	run := newRunner(t, p, nil, m)
	addr := serve(t, gateway.NewServer(run, &gateway.Options{Metrics: m}))

	const post = "POST /v1/tool-calls HTTP/1.1\nHost: localhost\n"
	const typed = post + "Content-Type: application/json\n"
	charge := func(arguments string) string { return `{"name":"charge","arguments":` + arguments + `}` }
	nested := func(n int) string {
		return charge(`{"order_id":"1","a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	good := charge(`{"order_id":"1"}`)
	total := 0
	for _, test := range []struct {
		name   string
		head   string
		body   string
		status int
		slug   string
		field  string
	}{
		{"no body", typed, "", 400, "invalid", "body"},
		{"malformed", typed, `{"name":"charge",}`, 400, "invalid", "body"},
		{"cut off", typed, `{"name":"charge","arguments":{"order_id":"1"`, 400, "invalid", "body"},
		{"not an object", typed, ` [1]`, 400, "invalid", "body"},
		{"trailing data", typed, good + "{}", 400, "invalid", "body"},
		{"duplicate member", typed, `{"name":"charge","name":"lose"}`, 400, "invalid", "body"},
		{"duplicate member, escaped", typed, `{"name":"charge","n\u0061me":"lose"}`, 400, "invalid", "body"},
		{"duplicate argument", typed, charge(`{"order_id":"1","order_id":"2"}`), 400, "invalid", "body"},
		{"lone surrogate", typed, charge(`{"order_id":"\ud800"}`), 400, "invalid", "body"},
		{"lone surrogate in the name", typed, `{"name":"\udc00"}`, 400, "invalid", "body"},
		{"not UTF-8", typed, charge("{\"order_id\":\"\xff\"}"), 400, "invalid", "body"},
		{"huge exponent", typed, charge(`{"order_id":"1","n":1e999999999}`), 400, "invalid", "body"},
		{"129 deep", typed, nested(128), 400, "invalid", "body"},
		{"10,000 deep", typed, nested(10_000), 400, "invalid", "body"},
		{"10,000 deep, unclosed", typed, strings.Repeat(`{"name":`, 10_000), 400, "invalid", "body"},
		{"large arguments", typed, charge(`{"order_id":"1","a":"` + strings.Repeat("x", 1<<20) + `"}`), 413, "too-large", "arguments"},
		{"large body", typed, charge(`{"a":"` + strings.Repeat("x", 2<<20) + `"}`), 413, "too-large", "body"},
		{"unknown member", typed, `{"name":"charge","argument":{}}`, 400, "invalid", "argument"},
		{"case of a member", typed, `{"Name":"charge"}`, 400, "invalid", "Name"},
		{"no name", typed, `{"arguments":{}}`, 400, "invalid", "name"},
		{"name is null", typed, `{"name":null}`, 400, "invalid", "name"},
		{"name is a number", typed, `{"name":1}`, 400, "invalid", "name"},
		{"arguments are a list", typed, charge(`[1]`), 400, "invalid", "arguments"},
		{"scope is an object", typed, `{"name":"charge","scope":{}}`, 400, "invalid", "scope"},
		{"scope is not printable", typed, `{"name":"lose","scope":"\u00e9"}`, 400, "invalid", "scope"},
		{"sequence 0", typed, `{"name":"charge","intent_seq":0}`, 400, "invalid", "intent_seq"},
		{"sequence 1.5", typed, `{"name":"charge","intent_seq":1.5}`, 400, "invalid", "intent_seq"},
		{"sequence as text", typed, `{"name":"charge","intent_seq":"1"}`, 400, "invalid", "intent_seq"},
		{"unknown tool", typed, `{"name":"nope"}`, 404, "unknown-tool", ""},
		{"no identity", typed, charge(`{}`), 422, "arguments", "/order_id"},
		{"schema", typed, charge(`{"order_id":"1","note":"refuse me"}`), 422, "arguments", "/note"},

		{"key of 256", typed + "Idempotency-Key: " + strings.Repeat("k", 256), good, 400, "invalid", "key"},
		{"quoted key of 256", typed + `Idempotency-Key: "` + strings.Repeat("k", 256) + `"`, good, 400, "invalid", "key"},
		{"empty key", typed + "Idempotency-Key: ", good, 400, "invalid", "Idempotency-Key"},
		{"empty quoted key", typed + `Idempotency-Key: ""`, good, 400, "invalid", "Idempotency-Key"},
		{"two keys", typed + "Idempotency-Key: a\nIdempotency-Key: b", good, 400, "invalid", "Idempotency-Key"},
		{"the same key twice", typed + "Idempotency-Key: a\nIdempotency-Key: a", good, 400, "invalid", "Idempotency-Key"},
		{"list of keys", typed + `Idempotency-Key: "a", "b"`, good, 400, "invalid", "Idempotency-Key"},
		{"bare list of keys", typed + `Idempotency-Key: a, b`, good, 400, "invalid", "Idempotency-Key"},
		{"unclosed key", typed + `Idempotency-Key: "a`, good, 400, "invalid", "Idempotency-Key"},
		{"odd escape", typed + `Idempotency-Key: "\a"`, good, 400, "invalid", "Idempotency-Key"},
		{"key and more", typed + `Idempotency-Key: "a"b`, good, 400, "invalid", "Idempotency-Key"},
		{"key that is not ASCII", typed + "Idempotency-Key: \xc3\xa9", good, 400, "invalid", "key"},
		{"key with spaces at its ends", typed + `Idempotency-Key: " a"`, good, 400, "invalid", "key"},

		{"no type", post, good, 415, "media-type", ""},
		{"form", post + "Content-Type: text/plain", good, 415, "media-type", ""},
		{"other charset", post + "Content-Type: application/json; charset=utf-16", good, 415, "media-type", ""},
		{"compressed", typed + "Content-Encoding: gzip", good, 415, "media-type", ""},

		{"foreign host", "POST /v1/tool-calls HTTP/1.1\nHost: evil.example\nContent-Type: application/json", good, 403, "foreign-host", ""},
		{"rebound host", "POST /v1/tool-calls HTTP/1.1\nHost: localhost.evil.example:7411\nContent-Type: application/json", good, 403, "foreign-host", ""},
		{"public address", "POST /v1/tool-calls HTTP/1.1\nHost: 192.0.2.1\nContent-Type: application/json", good, 403, "foreign-host", ""},
		{"foreign origin", typed + "Origin: https://evil.example", good, 403, "foreign-origin", ""},
		{"other port", typed + "Origin: http://localhost:8080", good, 403, "foreign-origin", ""},
		{"null origin", typed + "Origin: null", good, 403, "foreign-origin", ""},
		{"cross-site", typed + "Sec-Fetch-Site: cross-site", good, 403, "foreign-origin", ""},
		{"foreign origin that reads", "GET /v1/tool-calls HTTP/1.1\nHost: localhost\nOrigin: https://evil.example", "", 403, "foreign-origin", ""},

		{"method", "PUT /v1/tool-calls HTTP/1.1\nHost: localhost", "", 405, "method", ""},
		{"preflight", "OPTIONS /v1/tool-calls HTTP/1.1\nHost: localhost", "", 405, "method", ""},
		{"path", "GET /v1/tool-calls/ HTTP/1.1\nHost: localhost", "", 404, "no-such-path", ""},
		{"no operation", "GET /v1/tool-calls/a HTTP/1.1\nHost: localhost", "", 404, "not-found", ""},
		{"odd wait", "GET /v1/tool-calls/a?wait=soon HTTP/1.1\nHost: localhost", "", 400, "invalid", "wait"},
		{"negative wait", "GET /v1/tool-calls/a?wait=-1 HTTP/1.1\nHost: localhost", "", 400, "invalid", "wait"},
		{"odd parameter", "GET /v1/tool-calls/a?patience=1 HTTP/1.1\nHost: localhost", "", 400, "invalid", "patience"},
		{"odd filter", "GET /v1/tool-calls?status=failed HTTP/1.1\nHost: localhost", "", 400, "invalid", "status"},
		{"odd state", "GET /v1/tool-calls?state=done HTTP/1.1\nHost: localhost", "", 400, "invalid", "state"},
		{"odd time", "GET /v1/tool-calls?since=yesterday HTTP/1.1\nHost: localhost", "", 400, "invalid", "since"},
		{"odd limit", "GET /v1/tool-calls?limit=0 HTTP/1.1\nHost: localhost", "", 400, "invalid", "limit"},
		{"large limit", "GET /v1/tool-calls?limit=1001 HTTP/1.1\nHost: localhost", "", 400, "invalid", "limit"},
		{"odd cursor", "GET /v1/tool-calls?cursor=x HTTP/1.1\nHost: localhost", "", 400, "invalid", "cursor"},
		{"filter twice", "GET /v1/tool-calls?tool=a&tool=b HTTP/1.1\nHost: localhost", "", 400, "invalid", "tool"},
		{"decision of nothing", "POST /v1/tool-calls/a/cancel HTTP/1.1\nHost: localhost\nContent-Type: application/json", `{"actor":"a","reason":"r"}`, 404, "not-found", ""},
		{"decision with more", "POST /v1/tool-calls/a/cancel HTTP/1.1\nHost: localhost\nContent-Type: application/json", `{"actor":"a","reason":"r","result":1}`, 400, "invalid", "result"},
	} {
		resp := raw(t, addr, message(test.head, test.body))
		got := readProblem(t, resp)
		if resp.StatusCode != test.status || got.Type != "https://justonce.dev/problems/"+test.slug || got.Field != test.field {
			t.Errorf("%s: %d %s %q (%s), want %d %s %q", test.name, resp.StatusCode, got.Type, got.Field, got.Detail, test.status, test.slug, test.field)
		}
		if resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other origins may read it", test.name)
		}
		total++
	}
	if p.sends.Load() != 0 {
		t.Errorf("%d sends", p.sends.Load())
	}
	if page, err := run.List(t.Context(), justonce.Filter{}); err != nil || len(page.Operations) != 0 {
		t.Errorf("recorded: %+v, %v", page, err)
	}
	counted := 0.0
	for series, v := range scrape(t, "http://"+addr) {
		if strings.HasPrefix(series, "justonce_refused_total{") {
			counted += v
		}
		if strings.Contains(series, "nope") || strings.Contains(series, "evil") {
			t.Errorf("the caller's words became a label: %s", series)
		}
	}
	if int(counted) != total {
		t.Errorf("%v refusals are counted, want %d", counted, total)
	}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	addr := serve(t, gateway.NewServer(newRunner(t, p, nil, nil), &gateway.Options{
		Hosts: []string{"gateway.internal"}, Origins: []string{"https://console.example"}}))
	body := func(id string) string { return `{"name":"charge","arguments":{"order_id":"` + id + `"}}` }
	key := strings.Repeat("k", 255)
	for _, test := range []struct {
		name, head, body string
		replayed         string
	}{
		{"bare key", "Host: localhost\nContent-Type: application/json\nIdempotency-Key: abc", body("1"), ""},
		{"quoted is equal", "Host: localhost\nContent-Type: application/json\nIdempotency-Key: \"abc\"", body("1"), "true"},
		{"parameters are ignored", "Host: localhost\nContent-Type: application/json\nIdempotency-Key:  \"abc\" ; v=1", body("1"), "true"},
		{"key of 255", "Host: localhost\nContent-Type: application/json\nIdempotency-Key: " + key, body("2"), ""},
		{"quoted key of 255", "Host: localhost\nContent-Type: application/json\nIdempotency-Key: \"" + key + "\"", body("2"), "true"},
		{"escapes", "Host: localhost\nContent-Type: application/json\nIdempotency-Key: \"a\\\"b\\\\c, d\"", body("3"), ""},
		{"bare quote inside", "Host: localhost\nContent-Type: application/json\nIdempotency-Key: a\"b\\c", body("4"), ""},
		{"charset", "Host: localhost\nContent-Type: Application/JSON; charset=UTF-8", body("5"), ""},
		{"null is absent", "Host: localhost\nContent-Type: application/json", `{"name":"charge","arguments":{"order_id":"5"},"scope":null,"run_id":null,"intent_seq":null}`, "true"},
		{"escaped member", "Host: localhost\nContent-Type: application/json", `{"n\u0061me":"ch\u0061rge","arguments":{"order_id":"5"}}`, "true"},
		{"128 deep", "Host: localhost\nContent-Type: application/json", `{"name":"lookup","arguments":{"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}}`, ""},
		{"other loopback", "Host: 127.1.2.3:7411\nContent-Type: application/json", body("6"), ""},
		{"IPv6", "Host: [::1]:7411\nContent-Type: application/json", body("6"), "true"},
		{"IPv6 without port", "Host: [::1]\nContent-Type: application/json", body("6"), "true"},
		{"case", "Host: LOCALHOST\nContent-Type: application/json", body("6"), "true"},
		{"named host", "Host: gateway.internal:80\nContent-Type: application/json", body("6"), "true"},
		{"own origin", "Host: localhost:7411\nContent-Type: application/json\nOrigin: http://localhost:7411", body("6"), "true"},
		{"named origin", "Host: localhost\nContent-Type: application/json\nOrigin: https://console.example\nSec-Fetch-Site: cross-site", body("6"), "true"},
		{"same site", "Host: localhost\nContent-Type: application/json\nSec-Fetch-Site: same-origin", body("6"), "true"},
		{"odd preference", "Host: localhost\nContent-Type: application/json\nPrefer: wait=soon, handling=strict", body("6"), "true"},
		{"odd trace", "Host: localhost\nContent-Type: application/json\nTraceparent: 00-xyz", body("6"), "true"},
	} {
		resp := raw(t, addr, message("POST /v1/tool-calls HTTP/1.1\n"+test.head, test.body))
		content, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || resp.Header.Get("Idempotent-Replayed") != test.replayed {
			t.Errorf("%s: %d, replayed %q: %s", test.name, resp.StatusCode, resp.Header.Get("Idempotent-Replayed"), content)
		}
	}
}
