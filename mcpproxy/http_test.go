package mcpproxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// What is not intercepted passes as it is, in both directions.
func TestHTTP_Passes(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{other: func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") == "Bearer old":
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://x.example/.well-known/oauth-protected-resource"`)
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, "no\n")
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, ": hello\r\n\r\nid: 7\ndata: {}\n\n")
		default:
			w.Header().Set("Mcp-Session-Id", "s1")
			w.Header().Add("Set-Cookie", "a=b")
			w.Header().Add("Set-Cookie", "c=d")
			w.WriteHeader(http.StatusAccepted)
			io.Copy(w, r.Body)
		}
	}})
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL + "/deep/mcp?key=1"})
	for _, x := range []struct{ name, method, below, body, auth string }{
		{"initialize", "POST", "", ` { "jsonrpc":"2.0","id":1, "method":"initialize","params":{"x":1.50}} `, "Bearer new"},
		{"notification", "POST", "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{"answer of a client", "POST", "", `{"jsonrpc":"2.0","id":"e1","result":{"action":"accept"}}`, ""},
		{"no message, and no call", "POST", "", `{"hello":1}`, ""},
		{"batch", "POST", "", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, ""},
		{"empty", "POST", "", "", ""},
		{"stream", "GET", "", "", ""},
		{"end", "DELETE", "", "", ""},
		{"options", "OPTIONS", "", "", ""},
		{"below", "PUT", "/a%2Fb/c?q=1;2", "x", ""},
		{"challenge", "POST", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Bearer old"},
	} {
		t.Run(x.name, func(t *testing.T) {
			send := func(base string) (*reply, *http.Request, string) {
				r := request(t, x.method, base, x.body, "Mcp-Session-Id", "s1", "Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "ping",
					"Last-Event-ID", "6", "X-Own", "v", "X-Forwarded-For", "192.0.2.1", "User-Agent", "agent/1", "Accept-Encoding", "gzip")
				if x.auth != "" {
					r.Header.Set("Authorization", x.auth)
				}
				a := do(t, client(t), r)
				seen, body := up.last()
				return a, seen, body
			}
			query := "?key=1"
			if _, q, ok := strings.Cut(x.below, "?"); ok {
				query += "&" + q
			}
			path, _, _ := strings.Cut(x.below, "?")
			direct, wantReq, wantBody := send(up.URL + "/deep/mcp" + path + query)
			through, gotReq, gotBody := send(m.url + x.below)
			direct.header.Del("Date")
			through.header.Del("Date")
			if diff := cmp.Diff([]any{direct.status, direct.header, direct.body}, []any{through.status, through.header, through.body}); diff != "" {
				t.Errorf("answer (-direct +through):\n%s", diff)
			}
			if diff := cmp.Diff([]any{wantReq.Method, wantReq.RequestURI, wantReq.Host, wantReq.Header, wantBody},
				[]any{gotReq.Method, gotReq.RequestURI, gotReq.Host, gotReq.Header, gotBody}); diff != "" {
				t.Errorf("request (-direct +through):\n%s", diff)
			}
		})
	}
}

// The list of tools gets the proxy's own; every other byte stays.
func TestHTTP_List(t *testing.T) {
	t.Parallel()
	list := `{"jsonrpc":"2.0", "id":1,"result":{"tools":[ {"name":"send","x":1.50} ],"z":"\u00e9"}}`
	up := newWeb(t, &web{other: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Form") == "json" {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, list)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, ": ok\n\nid: 1\ndata:\n\nid: 2\nevent: message\ndata: %s\n\n: bye\n\n", list)
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	for _, form := range []string{"json", "events"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		direct := do(t, client(t), request(t, "POST", up.URL, body, "X-Form", form))
		through := do(t, client(t), request(t, "POST", m.url, body, "X-Form", form))
		tools := jsonrpc.Elements(jsonrpc.Get(through.msg.Raw, "result", "tools"))
		if form == "events" {
			tools = jsonrpc.Elements(jsonrpc.Get(through.events[2].Data, "result", "tools"))
		}
		if len(tools) != 3 {
			t.Fatalf("%s: %s", form, through.body)
		}
		got := through.body
		for _, own := range tools[1:] {
			got = strings.Replace(got, ","+string(own), "", 1)
		}
		if diff := cmp.Diff(direct.body, strings.Replace(got, "} ]", "} ]", 1)); diff != "" {
			t.Errorf("%s (-direct +through):\n%s", form, diff)
		}
	}
}

// A call is executed once, and its answer marked; a later equal one is another
// intent, since the answer arrived.
func TestHTTP_Call(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-Up", fmt.Sprint(n))
		fmt.Fprintf(w, ` {"id":%s,"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"%d"}], "x" : 1.50}}`, m.ID, n)
	}})
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
	c := client(t)
	for n := 1; n <= 3; n++ {
		a := m.post(t, c, "send", `{"to":"a"}`, "Authorization", "Bearer x", "Idempotency-Key", "k")
		if words(a.msg) != fmt.Sprint(n) || state(a.msg) != "succeeded" || replayed(a.msg) || a.header.Get("X-Up") != fmt.Sprint(n) {
			t.Fatalf("call %d: %d %v %s", n, a.status, a.header, a.body)
		}
		if !strings.Contains(a.body, `"x" : 1.50`) {
			t.Errorf("%s", a.body)
		}
	}
	r, body := up.last()
	if r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("Idempotency-Key") != "k" || body != callBody("1", "send", `{"to":"a"}`) {
		t.Errorf("%v %s", r.Header, body)
	}
}

// A server that cannot be reached got nothing: the client is told, and the call
// may be made again.
func TestHTTP_Unreachable(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: down.URL})
	for range 2 {
		a := m.post(t, client(t), "send", `{}`)
		if a.status != http.StatusBadGateway || a.msg.Error == nil || !strings.Contains(a.body, "nothing was sent") {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	a := do(t, client(t), request(t, "POST", m.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if a.status != http.StatusBadGateway || a.msg.Error == nil {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// What the server answers at the level of HTTP reaches the client as it is, and
// settles nothing: the client comes again with a better request.
func TestHTTP_Mirrors(t *testing.T) {
	t.Parallel()
	challenge := `Bearer error="invalid_token"`
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		switch r.Header.Get("X-Case") {
		case "401":
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, "who?\n")
		case "404":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
		case "403":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			w.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32000, "another scope is needed", nil)))
		case "400":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			w.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32022, "version", map[string]int{"a": 1})))
		case "422":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			w.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(-32602, "arguments", nil)))
		case "307":
			http.Redirect(w, r, "https://other.example/", http.StatusTemporaryRedirect)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Write(jsonrpc.Response(m.ID, text("done")))
		}
	}})
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
	c := client(t)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cases := []string{"401", "403", "404", "400", "422"}
	for _, x := range cases {
		args := `{"case":"` + x + `"}`
		direct := do(t, c, request(t, "POST", up.URL, callBody("1", "send", args), "X-Case", x))
		through := m.post(t, c, "send", args, "X-Case", x)
		direct.header.Del("Date")
		through.header.Del("Date")
		if diff := cmp.Diff([]any{direct.status, direct.header, direct.body}, []any{through.status, through.header, through.body}); diff != "" {
			t.Errorf("%s (-direct +through):\n%s", x, diff)
		}
		if a := m.post(t, c, "send", args); words(a.msg) != "done" || replayed(a.msg) {
			t.Errorf("after %s: %d %s", x, a.status, a.body)
		}
	}
	done := 0
	for _, op := range operations(t, s) {
		if op.State == justonce.Succeeded {
			done++
		}
	}
	if done != len(cases) {
		t.Errorf("%d operations count as done, want %d", done, len(cases))
	}
	// A redirect would lead past the proxy.
	a := m.post(t, c, "send", `{"case":"307"}`, "X-Case", "307")
	if a.status != http.StatusBadGateway || a.header.Get("Location") != "" || !strings.Contains(a.body, "redirects to https://other.example/;") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// What two readers could understand differently is refused, as is what a page of
// another origin sends.
func TestHTTP_Refuses(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL, Limit: 10_000, Origins: []string{"https://ok.example"}})
	call := callBody("1", "send", `{}`)
	for _, x := range []struct {
		name, body string
		status     int
		code       string
		headers    []string
	}{
		{"not JSON", `{"jsonrpc":`, 400, "-32700", nil},
		{"trailing", call + "x", 400, "-32700", nil},
		{"a member twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, 400, "-32600", nil},
		{"another case", `{"jsonrpc":"2.0","id":1,"Method":"tools/call"}`, 400, "-32600", nil},
		{"a name twice", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, 400, "-32602", nil},
		{"in a batch", `[` + call + `]`, 400, "-32600", nil},
		{"too large", callBody("1", "send", `{"a":"`+strings.Repeat("x", 10_000)+`"}`), 413, "-32600", nil},
		{"packed", call, 415, "-32600", []string{"Content-Encoding", "gzip"}},
		{"another method in the header", call, 400, "-32020", []string{"Mcp-Method", "ping"}},
		{"another name in the header", call, 400, "-32020", []string{"Mcp-Name", "other"}},
		{"another origin", call, 403, "-32600", []string{"Origin", "https://evil.example"}},
		{"no origin", call, 403, "-32600", []string{"Origin", "null"}},
	} {
		a := do(t, client(t), request(t, "POST", m.url, x.body, x.headers...))
		if code := string(jsonrpc.Get(a.msg.Error, "code")); a.status != x.status || code != x.code {
			t.Errorf("%s: %d %s", x.name, a.status, a.body)
		}
	}
	r := request(t, "POST", m.url, call)
	r.Host = "evil.example"
	if a := do(t, client(t), r); a.status != http.StatusForbidden {
		t.Errorf("another host: %d", a.status)
	}
	if n := up.count("send"); n != 0 {
		t.Fatalf("%d calls", n)
	}
	for _, headers := range [][]string{{"Origin", "https://ok.example"}, {"Origin", "http://localhost:1"}, {"Mcp-Name", "=?base64?c2VuZA==?=", "Mcp-Method", "tools/call"}} {
		if a := m.post(t, client(t), "send", `{}`, headers...); a.status != 200 {
			t.Errorf("%v: %d %s", headers, a.status, a.body)
		}
	}
}

// Metadata about the server is found below the mount's own path.
func TestHTTP_WellKnown(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{other: func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.RequestURI)
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL + "/deep/mcp"})
	for path, want := range map[string]string{
		"/.well-known/oauth-protected-resource/mcp/u":       "/.well-known/oauth-protected-resource/deep/mcp",
		"/.well-known/oauth-authorization-server/mcp/u?a=1": "/.well-known/oauth-authorization-server/deep/mcp?a=1",
	} {
		if a := do(t, client(t), request(t, "GET", m.URL+path, "")); a.body != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// Calls with different credentials never meet.
func TestHTTP_Scopes(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		panic(http.ErrAbortHandler) // each stays unknown
	}})
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	m := mount(t, s, &mcpproxy.HTTPOptions{URL: up.URL})
	for _, auth := range []string{"Bearer a", "Bearer b", "Bearer a", ""} {
		r := request(t, "POST", m.url, callBody("1", "send", `{}`))
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		if a := do(t, client(t), r); state(a.msg) != "review" {
			t.Errorf("%q: %s", auth, a.body)
		}
	}
	if n := up.count("send"); n != 3 {
		t.Errorf("%d executions, want 3", n)
	}
	var all bytes.Buffer
	for _, op := range operations(t, s) {
		fmt.Fprintf(&all, "%+v", op)
	}
	if strings.Contains(all.String(), "Bearer") {
		t.Errorf("the credentials were recorded: %s", all.String())
	}
}

// Credentials of the program take the place of the client's; where they cannot
// be had, nothing is sent.
func TestHTTP_Headers(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{other: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }})
	var fail error
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL, Headers: func(context.Context) (http.Header, error) {
		return http.Header{"Authorization": {"Bearer ours"}}, fail
	}})
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, body := range []string{ping, callBody("1", "send", `{}`)} {
		do(t, client(t), request(t, "POST", m.url, body, "Authorization", "Bearer theirs", "X-Other", "kept"))
		if r, _ := up.last(); r.Header.Get("Authorization") != "Bearer ours" || r.Header.Get("X-Other") != "kept" {
			t.Errorf("%v", r.Header)
		}
	}
	fail = errors.New("the secret store is away")
	for _, body := range []string{ping, callBody("1", "send", `{"n":2}`)} {
		a := do(t, client(t), request(t, "POST", m.url, body))
		if a.status != http.StatusBadGateway || !strings.Contains(a.body, "nothing was sent") || strings.Contains(a.body, "secret store") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if n := len(up.seen); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// Options that cannot work are refused with what to do.
func TestHandler_Options(t *testing.T) {
	t.Parallel()
	s := set(t, &upstream{}, mcpproxy.Options{}, nil)
	for _, o := range []*mcpproxy.HTTPOptions{
		{},
		{URL: "http://a.example/", Start: func(func([]byte)) (mcpproxy.Peer, error) { return nil, nil }},
		{URL: "a.example/mcp"},
		{URL: "ftp://a.example/mcp"},
		{URL: "https://user:secret@a.example/mcp"},
	} {
		if h, err := s.server.Handler(o); err == nil || h != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", o.URL, err)
		}
	}
}

// Headers that differ from one request to the next tell no clients apart.
func TestHTTP_HeadersOfTheCall(t *testing.T) {
	t.Parallel()
	up := newWeb(t, &web{on: func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, n int) {
		panic(http.ErrAbortHandler) // it stays unknown
	}})
	m := mount(t, set(t, &upstream{}, mcpproxy.Options{}, nil), &mcpproxy.HTTPOptions{URL: up.URL})
	for i, h := range [][]string{nil, {"Idempotency-Key", "a"}, {"X-Idempotency-Key", "b"}, {"Mcp-Param-User", "c"}, {"Sec-Fetch-User", "?1"}} {
		if a := m.post(t, client(t), "send", `{}`, h...); state(a.msg) != "review" {
			t.Errorf("%d: %s", i, a.body)
		}
	}
	if n := up.count("send"); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
}
