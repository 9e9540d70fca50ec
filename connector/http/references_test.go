package httpconn_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	httpconn "github.com/justonce-dev/justonce/connector/http"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	c, err := httpconn.New(httpconn.Config{
		Request: httpconn.Request{URL: "https://x/${args.a}?q=${tool}", Query: map[string]string{"a/b": "${secret:s} ${args.?n}"}},
		Key:     httpconn.Key{Header: "Idempotency-Key"},
		Answer:  httpconn.Answer{Reference: "body.id"},
		Lookup: &httpconn.Lookup{Request: httpconn.Request{Method: "POST", URL: "https://x/"},
			Items: "body", Match: "item.a == args.a", Reference: "item.id"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	c.(interface {
		References(func(string, []string, bool))
	}).References(func(at string, path []string, optional bool) {
		s := at + " " + strings.Join(path, ".")
		if optional {
			s += "?"
		}
		got = append(got, s)
	})
	want := []string{
		"/answer/reference body.id",
		"/lookup/items body", "/lookup/match item.a", "/lookup/match args.a", "/lookup/reference item.id",
		"/request/query/a~1b args.n?", "/request/url args.a", "/request/url tool",
		"/key/header wire_key", "/request args", "/lookup/request args",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
