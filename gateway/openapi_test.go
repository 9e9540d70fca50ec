package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/justonce-dev/justonce/gateway"
)

// The document describes the routes that there are, and the requests and
// answers are as it describes them.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.result = odd
	url := start(t, gateway.NewServer(newRunner(t, p, nil, nil), &gateway.Options{Version: "1.2.3"}))

	send := func(method, path, body string, header ...string) (int, string, []byte) {
		t.Helper()
		req, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Content-Type"), b
	}
	_, _, document := send("GET", "/openapi.json", "")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) any {
		v := doc
		for _, name := range path {
			m, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = m[name]
		}
		return v
	}
	if at("openapi") != "3.1.0" || at("info", "version") != "1.2.3" {
		t.Errorf("%v, version %v", at("openapi"), at("info", "version"))
	}
	// Clients must take members they do not know. We must know ours.
	schemas, _ := at("components", "schemas").(map[string]any)
	for _, s := range schemas {
		s.(map[string]any)["additionalProperties"] = false
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("mem:///openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	validate := func(where string, content []byte, path ...string) {
		t.Helper()
		path = append(path, "schema")
		if at(path...) == nil {
			t.Errorf("%s: not described", where)
			return
		}
		pointer := ""
		for _, name := range path {
			pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		}
		schema, err := compiler.Compile("mem:///openapi.json#" + strings.ReplaceAll(strings.ReplaceAll(pointer, "{", "%7B"), "}", "%7D"))
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %s: %v", where, content, err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %s: %v", where, content, err)
		}
	}

	seen := map[string]bool{}
	for _, x := range []struct {
		method, route, path, body string
		header                    []string
		status                    string
	}{
		{"POST", "/v1/tool-calls", "", `{"name":"charge","arguments":{"order_id":"1"},"scope":"ann","run_id":"r","intent_seq":2}`, nil, "200"},
		{"POST", "/v1/tool-calls", "", `{"name":"charge","arguments":{"order_id":"1"},"scope":"ann","intent_seq":2}`, nil, "200"},
		{"POST", "/v1/tool-calls", "", `{"name":"charge","arguments":{"order_id":"1","n":1},"scope":"ann","intent_seq":2}`, nil, "409"},
		{"POST", "/v1/tool-calls", "", `{"name":"charge"}`, nil, "422"},
		{"POST", "/v1/tool-calls", "", `{"name":"reject"}`, []string{"Idempotency-Key", "a"}, "200"},
		{"POST", "/v1/tool-calls", "", `{"name":"lose"}`, []string{"Idempotency-Key", "b"}, "202"},
		{"POST", "/v1/tool-calls", "", `{"name":"lookup"}`, nil, "200"},
		{"POST", "/v1/tool-calls", "", `{"name":"slow"}`, []string{"Idempotency-Key", "s", "Prefer", "wait=0"}, "202"},
		{"POST", "/v1/tool-calls", "", `{"name":"job"}`, []string{"Idempotency-Key", "j", "Prefer", "wait=0"}, "202"},
		{"GET", "/v1/tool-calls", "", "", nil, "200"},
		{"GET", "/v1/tool-calls", "?limit=1", "", nil, "200"},
		{"GET", "/v1/tool-calls", "?limit=x", "", nil, "400"},
		{"GET", "/v1/tool-calls/{key}", "/v1/tool-calls/b", "", nil, "200"},
		{"GET", "/v1/tool-calls/{key}", "/v1/tool-calls/none", "", nil, "404"},
		{"GET", "/v1/tool-calls/{key}/history", "/v1/tool-calls/b/history", "", nil, "200"},
		{"POST", "/v1/tool-calls/{key}/resolve", "/v1/tool-calls/b/resolve", `{"verdict":"happened","actor":"ann","reason":"r","reference":"x","result":[1]}`, nil, "200"},
		{"POST", "/v1/tool-calls/{key}/resolve", "/v1/tool-calls/b/resolve", `{"verdict":"retry","actor":"ann","reason":"r"}`, nil, "409"},
		{"POST", "/v1/tool-calls/{key}/redrive", "/v1/tool-calls/a/redrive", `{"actor":"ann","reason":"r"}`, nil, "200"},
		{"POST", "/v1/tool-calls/{key}/cancel", "/v1/tool-calls/a/cancel", `{"actor":"ann","reason":"r"}`, nil, "200"},
		{"POST", "/v1/explain", "", `{"name":"charge","arguments":{"order_id":"1","trace":0},"scope":"ann","intent_seq":2}`, nil, "200"},
		{"GET", "/v1/report", "", "", nil, "200"},
		{"GET", "/v1/report", "?since=yesterday", "", nil, "400"},
		{"GET", "/v1/tools", "", "", nil, "200"},
		{"GET", "/healthz", "", "", nil, "200"},
		{"GET", "/readyz", "", "", nil, "200"},
		{"GET", "/metrics", "", "", nil, "200"},
		{"GET", "/openapi.json", "", "", nil, "200"},
	} {
		path := x.path
		if !strings.HasPrefix(path, "/") {
			path = x.route + path
		}
		where := x.method + " " + path
		operation := []string{"paths", x.route, strings.ToLower(x.method)}
		seen[x.method+" "+x.route] = true
		if x.body != "" {
			validate(where, []byte(x.body), append(operation, "requestBody", "content", "application/json")...)
		}
		status, media, content := send(x.method, path, x.body, x.header...)
		if got := http.StatusText(status); got == "" || x.status != json.Number(itoa(status)).String() {
			t.Errorf("%s: %d, want %s: %s", where, status, x.status, content)
		}
		if media == "application/problem+json" {
			validate(where, content, append(operation, "responses", "default", "content", media)...)
			continue
		}
		if strings.HasPrefix(media, "text/plain") {
			if at(append(operation, "responses", x.status, "content", "text/plain")...) == nil {
				t.Errorf("%s: %s is not described", where, media)
			}
			continue
		}
		validate(where, content, append(operation, "responses", x.status, "content", media)...)
	}

	// No path is described that there is not, and none that was not tried.
	paths, _ := at("paths").(map[string]any)
	n := 0
	for path, item := range paths {
		for method := range item.(map[string]any) {
			n++
			if name := strings.ToUpper(method) + " " + path; !seen[name] {
				t.Errorf("%s is described, and was not tried", name)
			}
		}
	}
	if n != len(seen) {
		t.Errorf("%d routes are described, %d were tried", n, len(seen))
	}
	for path := range paths {
		status, _, _ := send("TRACE", strings.ReplaceAll(path, "{key}", "k"), "")
		if status != 405 {
			t.Errorf("TRACE %s: %d, want 405: the path is not routed", path, status)
		}
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }
