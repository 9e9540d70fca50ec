package smtpconn_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef@example.com"
	answers := map[string]string{
		"found":  `{"messages_count":1}`,
		"absent": `{"messages_count":0}`,
		"odd":    `{}`,
	}
	want := map[string]justonce.FindingKind{"found": justonce.FindingFound, "absent": justonce.FindingAbsent, "odd": justonce.FindingNoAnswer}
	for name, answer := range answers {
		var asked string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Query().Get("query")
			_, _ = w.Write([]byte(answer))
		}))
		k := must(t, smtpconn.Config{Addr: "127.0.0.1:1", Lookup: &smtpconn.Lookup{
			Request: smtpconn.Request{URL: s.URL + "/api/v1/search?query=message-id:${message_id}"},
			Found:   "status == 200 && body.messages_count > 0",
			Absent:  "status == 200 && body.messages_count == 0",
		}}, nil)
		f := k.(justonce.Finder).Lookup(context.Background(), attempt(`{}`))
		s.Close()
		if f.Kind != want[name] || asked != "message-id:"+id {
			t.Errorf("%s: got %v for %q (%v)", name, f.Kind, asked, f.Evidence)
		}
		if f.Kind == justonce.FindingFound && (len(f.Matches) != 1 || f.Matches[0].Reference != id) {
			t.Errorf("%s: %+v", name, f.Matches)
		}
	}
	if _, ok := must(t, smtpconn.Config{Addr: "127.0.0.1:1"}, nil).(justonce.Finder); ok {
		t.Error("a connector without a lookup says it can look up")
	}
}
