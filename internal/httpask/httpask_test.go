package httpask_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/httpask"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 120 ": 2 * time.Minute, "-5": 0, "1.5": 0, "soon": 0,
		"99999": time.Hour, "99999999999999999999999": time.Hour,
		"Fri, 02 Jan 2026 03:05:05 GMT":  time.Minute,
		"Fri, 02 Jan 2026 03:04:00 GMT":  0,
		"Fri, 02 Jan 2027 03:04:05 GMT":  time.Hour,
		"Friday, 02-Jan-26 03:05:05 GMT": time.Minute,
	} {
		if got := httpask.RetryAfter(header, now); got != want {
			t.Errorf("%q: got %s, want %s", header, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"7", "Fri, 02 Jan 2026 03:05:05 GMT", "-1", "9999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if d := httpask.RetryAfter(header, now); d < 0 || d > httpask.MaxRetryAfter {
			t.Errorf("%q: %s", header, d)
		}
	})
}

func FuzzArgumentsStayInTheirPlace(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "..", "%2e%2e", "?x=1#", "a b&c=d", "\r\nX: y", "ä", "\\..\\", ".;x", "https://evil/"} {
		f.Add(s)
	}
	env, err := celexpr.NewEnv(httpask.RequestVars())
	if err != nil {
		f.Fatal(err)
	}
	b, err := httpask.Request{URL: "https://api.test/a/${args.x}/b?q=${args.x}&r=1", Query: map[string]string{"p": "${args.x}"},
		Headers: map[string]string{"X-Arg": "<${args.x}>"}, Encoding: "form", Body: map[string]any{"f": "${args.x}"}}.Compile(env)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, x string) {
		args, _ := json.Marshal(map[string]string{"x": x})
		// What is not UTF-8 becomes so on its way through JSON.
		var back map[string]string
		_ = json.Unmarshal(args, &back)
		x = back["x"]
		op := httpask.Operation{Arguments: args}
		v, err := op.RequestVars()
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Build(context.Background(), v, args, nil, httpask.Extra{Header: "Idempotency-Key", HeaderValue: "k"})
		if err != nil {
			if e := (*httpask.BuildError)(nil); !errors.As(err, &e) {
				t.Errorf("%q: %v", x, err)
			}
			return
		}
		q := r.URL.Query()
		if r.URL.Host != "api.test" || r.URL.Path != "/a/"+x+"/b" || strings.Count(r.URL.EscapedPath(), "/") != 3 ||
			q.Get("q") != x || q.Get("p") != x || q.Get("r") != "1" || len(q) != 3 {
			t.Errorf("%q escaped from its place: %s", x, r.URL)
		}
		if h := r.Header.Get("X-Arg"); h != "<"+x+">" || strings.ContainsAny(h, "\r\n") || len(r.Header) != 4 {
			t.Errorf("%q: headers %v", x, r.Header)
		}
		req, _ := http.NewRequest("POST", "http://x/", strings.NewReader(string(r.Body)))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if err := req.ParseForm(); err != nil || req.PostForm.Get("f") != x || len(req.PostForm) != 1 {
			t.Errorf("%q: body %q", x, r.Body)
		}
	})
}
