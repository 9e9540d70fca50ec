package httpconn_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	justonce "github.com/justonce-dev/justonce"
	httpconn "github.com/justonce-dev/justonce/connector/http"
)

// A ticket system that takes a reference of ours and can be asked for it.
func ExampleNew() {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusBadGateway) // opened, but the answer got lost
			return
		}
		_, _ = fmt.Fprint(w, `{"id":"T-17","title":"Printer on fire"}`)
	}))
	defer provider.Close()

	c, err := httpconn.New(httpconn.Config{
		Capability: justonce.ByReference,
		Request: httpconn.Request{
			URL: provider.URL + "/tickets",
			Body: map[string]any{
				"external_id": "${wire_key}",
				"title":       "${args.title}",
				"note":        "${args.?note}",
			},
		},
		Answer: httpconn.Answer{Reference: "body.id"},
		Lookup: &httpconn.Lookup{
			Request:   httpconn.Request{URL: provider.URL + "/tickets/by-external-id/${wire_key}"},
			Reference: "body.id",
		},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	a := &justonce.Attempt{WireKey: "7d1f0c5e9b1a4c0d8e2f3a4b5c6d7e8f", Arguments: []byte(`{"title":"Printer on fire"}`)}
	fmt.Println(c.Send(context.Background(), a).Kind)
	found := c.(justonce.Finder).Lookup(context.Background(), a)
	fmt.Println(found.Matches[0].Reference)
	// Output:
	// unknown
	// T-17
}
