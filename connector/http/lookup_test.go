package httpconn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	httpconn "github.com/justonce-dev/justonce/connector/http"
)

// looked carries out a lookup against one answer and returns the query too.
func looked(t *testing.T, l httpconn.Lookup, status int, answer string) (justonce.Finding, string) {
	t.Helper()
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	l.Request.URL = s.URL + l.Request.URL
	k := must(t, httpconn.Config{Request: httpconn.Request{URL: s.URL}, Lookup: &l})
	a := attempt(`{"amount":5,"to":"ada"}`)
	a.UnknownAt, a.Reference = a.FirstSent.Add(time.Second), "job-1"
	return k.(justonce.Finder).Lookup(context.Background(), a), asked
}

func TestLookupOfOne(t *testing.T) {
	t.Parallel()
	l := httpconn.Lookup{Request: httpconn.Request{URL: "/t/${wire_key}"}, Reference: "body.id",
		Failed: "status == 200 && body.state == 'failed'", Progress: "status == 200 && body.state == 'working'"}
	found := []justonce.Found{{Reference: "t1", Result: json.RawMessage(`{"id":"t1","state":"done"}`)}}
	for name, c := range map[string]struct {
		status  int
		answer  string
		kind    justonce.FindingKind
		matches []justonce.Found
	}{
		"found":             {200, `{"id":"t1","state":"done"}`, justonce.FindingFound, found},
		"absent":            {404, `{}`, justonce.FindingAbsent, nil},
		"absent, by a page": {404, `<html>`, justonce.FindingAbsent, nil},
		"failed":            {200, `{"id":"t1","state":"failed","code":"no_money"}`, justonce.FindingFailed, nil},
		"progress":          {200, `{"id":"t1","state":"working"}`, justonce.FindingProgress, nil},
		"no state":          {200, `{"id":"t1"}`, justonce.FindingNoAnswer, nil},
		"no id":             {200, `{"state":"done"}`, justonce.FindingNoAnswer, nil},
		"malformed":         {200, `{"id":`, justonce.FindingNoAnswer, nil},
		"a page":            {200, `<html>`, justonce.FindingNoAnswer, nil},
		"forbidden":         {403, `{}`, justonce.FindingNoAnswer, nil},
		"broken":            {500, `{}`, justonce.FindingNoAnswer, nil},
		"moved":             {302, `{}`, justonce.FindingNoAnswer, nil},
		"too many":          {429, `{}`, justonce.FindingNoAnswer, nil},
	} {
		f, asked := looked(t, l, c.status, c.answer)
		if f.Kind != c.kind || !reflect.DeepEqual(f.Matches, c.matches) {
			t.Errorf("%s: got %v %+v (%v), want %v %+v", name, f.Kind, f.Matches, f.Evidence, c.kind, c.matches)
		}
		if want := "GET /t/0123456789abcdef0123456789abcdef"; asked != want {
			t.Errorf("%s: asked %q, want %q", name, asked, want)
		}
		if f.RetryAfter != 3*time.Second {
			t.Errorf("%s: retry after %s", name, f.RetryAfter)
		}
		if c.kind == justonce.FindingFailed && (f.Failure == nil || f.Failure.Code != "no_money") {
			t.Errorf("%s: failure %+v", name, f.Failure)
		}
		if c.kind == justonce.FindingProgress && (f.Reference != "t1" || len(f.Result) == 0) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestLookupInAList(t *testing.T) {
	t.Parallel()
	l := httpconn.Lookup{
		Request: httpconn.Request{URL: "/list", Query: map[string]string{"since": "${first_sent}", "job": "${reference}", "until": "${unknown_at}"}},
		Items:   "body.data", Match: "item.amount == args.amount && item.?to.orValue('') == args.to",
		ItemTime: "item.at", Reference: "item.id", Complete: "!body.more",
	}
	item := func(id string, amount int, at string) string {
		return fmt.Sprintf(`{"id":%q,"amount":%d,"to":"ada","at":%s}`, id, amount, at)
	}
	list := func(more bool, items ...string) string {
		return fmt.Sprintf(`{"more":%t,"data":[%s]}`, more, strings.Join(items, ","))
	}
	// First sent at 03:04:05; the provider's clock may be two minutes behind.
	const late, edge, early = `"2026-01-02T03:04:06Z"`, `"2026-01-02T03:02:05Z"`, `"2026-01-02T03:02:04Z"`
	for name, c := range map[string]struct {
		status int
		answer string
		kind   justonce.FindingKind
		ids    string
	}{
		"one":                {200, list(false, item("a", 4, late), item("b", 5, late)), justonce.FindingFound, "b"},
		"two":                {200, list(false, item("a", 5, late), item("b", 5, edge)), justonce.FindingFound, "a b"},
		"too early":          {200, list(false, item("a", 5, early)), justonce.FindingAbsent, ""},
		"in seconds":         {200, list(false, item("a", 5, "1767323046"), item("b", 5, "1767322000")), justonce.FindingFound, "a"},
		"in milliseconds":    {200, list(false, item("a", 5, "1767323046000"), item("b", 5, "1767322000000")), justonce.FindingFound, "a"},
		"none":               {200, list(false), justonce.FindingAbsent, ""},
		"none, more to come": {200, list(true, item("a", 4, late)), justonce.FindingNoAnswer, ""},
		"one, more to come":  {200, list(true, item("a", 5, late)), justonce.FindingFound, "a"},
		"no time":            {200, list(false, item("a", 5, `"soon"`)), justonce.FindingNoAnswer, ""},
		"no id":              {200, list(false, `{"amount":5,"to":"ada","at":`+late+`}`), justonce.FindingNoAnswer, ""},
		"no amount":          {200, list(false, `{"id":"a","to":"ada","at":`+late+`}`), justonce.FindingNoAnswer, ""},
		"no list":            {200, `{"more":false,"data":{}}`, justonce.FindingNoAnswer, ""},
		"not found":          {404, `{"more":false,"data":[]}`, justonce.FindingNoAnswer, ""},
	} {
		f, asked := looked(t, l, c.status, c.answer)
		var ids []string
		for _, m := range f.Matches {
			ids = append(ids, m.Reference)
		}
		if got := strings.Join(ids, " "); f.Kind != c.kind || got != c.ids {
			t.Errorf("%s: got %v %q (%v), want %v %q", name, f.Kind, got, f.Evidence, c.kind, c.ids)
		}
		if want := "GET /list?job=job-1&since=2026-01-02T03%3A04%3A05Z&until=2026-01-02T03%3A04%3A06Z"; asked != want {
			t.Errorf("%s: asked %q, want %q", name, asked, want)
		}
	}
	long := list(false, item("a", 5, late)) + strings.Repeat(" ", 5<<20)
	if f, _ := looked(t, l, 200, long); f.Kind != justonce.FindingNoAnswer || f.Evidence["note"] == "" {
		t.Errorf("too long: %v (%v)", f.Kind, f.Evidence)
	}
}

func TestLookupIsOptional(t *testing.T) {
	t.Parallel()
	if _, ok := must(t, httpconn.Config{Request: httpconn.Request{URL: "http://x/"}}).(justonce.Finder); ok {
		t.Error("a connector without a lookup says it can look up")
	}
}

func TestLookupWithoutAnswer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	s.Close()
	l := httpconn.Lookup{Request: httpconn.Request{URL: s.URL + "/${args.id}"}}
	k := must(t, httpconn.Config{Request: httpconn.Request{URL: s.URL}, Lookup: &l}).(justonce.Finder)
	for _, args := range []string{`{"id":"a"}`, `{}`, `{`} {
		if f := k.Lookup(context.Background(), attempt(args)); f.Kind != justonce.FindingNoAnswer || len(f.Evidence) == 0 {
			t.Errorf("%s: %+v", args, f)
		}
	}
}
