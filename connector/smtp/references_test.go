package smtpconn_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	c := must(t, smtpconn.Config{Addr: "127.0.0.1:9", TLS: smtpconn.TLSNone,
		Message: smtpconn.Message{From: "shop@example.com", Text: "${args.?text}"},
		Lookup:  &smtpconn.Lookup{Request: smtpconn.Request{URL: "https://x/${message_id}"}, Found: "body.n > 0"}}, nil)
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
	want := []string{"/lookup/found body.n", "/lookup/request/url message_id", "/message/text args.text?",
		"/message wire_key", "/message message_id", "/message/to args.to", "/message/subject args.subject"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
