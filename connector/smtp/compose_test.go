package smtpconn_test

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

// deliver sends one mail and returns it as it arrived.
func deliver(t *testing.T, m smtpconn.Message, a *justonce.Attempt) (string, []string, justonce.Outcome) {
	t.Helper()
	s := &server{}
	p := s.start(t)
	o := must(t, smtpconn.Config{Addr: p.Addr(), TLS: smtpconn.TLSNone, Message: m}, nil).Send(context.Background(), a)
	p.Effects()
	mails, commands := s.got()
	if len(mails) != 1 {
		return "", commands, o
	}
	return mails[0], commands, o
}

func TestMail(t *testing.T) {
	t.Parallel()
	text := "Grüße,\n.\n..\nFrom here " + strings.Repeat("long ", 300) + "\r\nend\rlast"
	args, _ := json.Marshal(map[string]any{"to": "Ada Löwe <ada@example.com>, bob@example.com", "cc": []string{"bob@example.com"},
		"subject": "Rechnung für " + strings.Repeat("Bestellung ", 20), "text": text, "html": "<p>Grüße</p>"})
	m := smtpconn.Message{From: "Shop <shop@example.com>", To: []string{"${args.to}"}, Cc: []string{"${args.?cc}"},
		Bcc: []string{"audit@example.com"}, Headers: map[string]string{"X-Key": "${wire_key}", "Reply-To": "${args.?reply_to}"}}
	raw, commands, o := deliver(t, m, attempt(string(args)))
	if o.Kind != justonce.OutcomeSucceeded {
		t.Fatalf("%+v", o)
	}
	for _, line := range strings.Split(raw, "\n") {
		if len(line) > 78 || strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
			t.Errorf("a line of the mail is too long or not ASCII: %q", line)
		}
	}
	got, err := mail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	subject, _ := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	for name, pair := range map[string][2]string{
		"Subject":    {subject, "Rechnung für " + strings.TrimSpace(strings.Repeat("Bestellung ", 20))},
		"Message-Id": {got.Header.Get("Message-Id"), "<0123456789abcdef0123456789abcdef@example.com>"},
		"Date":       {got.Header.Get("Date"), "Fri, 02 Jan 2026 03:04:05 +0000"},
		"X-Key":      {got.Header.Get("X-Key"), "0123456789abcdef0123456789abcdef"},
		"Bcc":        {got.Header.Get("Bcc"), ""},
		"Reply-To":   {got.Header.Get("Reply-To"), ""},
		"recipients": {recipients(commands), "<ada@example.com> <bob@example.com> <audit@example.com>"},
		"reference":  {o.Reference, "0123456789abcdef0123456789abcdef@example.com"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %q, want %q", name, pair[0], pair[1])
		}
	}
	_, params, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	part, err := multipart.NewReader(got.Body, params["boundary"]).NextPart()
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(part)
	lines := func(s string) string {
		return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	}
	if lines(string(body)) != lines(text) {
		t.Errorf("body: got %q, want %q", body, text)
	}
	if !strings.Contains(string(o.Result), "queued as 4711") {
		t.Errorf("the result lacks the server's reply: %s", o.Result)
	}
}

func recipients(commands []string) string {
	var out []string
	for _, c := range commands {
		if r, ok := strings.CutPrefix(c, "RCPT TO:"); ok {
			out = append(out, r)
		}
	}
	return strings.Join(out, " ")
}

func TestEveryAttemptSendsTheSameBytes(t *testing.T) {
	t.Parallel()
	a := attempt(`{"to":"a@example.com","subject":"s","text":"t","html":"h"}`)
	first, _, _ := deliver(t, smtpconn.Message{}, a)
	a.Number, a.ID = 2, "other"
	second, _, _ := deliver(t, smtpconn.Message{}, a)
	if first == "" || first != second {
		t.Errorf("first:\n%s\nsecond:\n%s", first, second)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"line break in subject":   `{"to":"a@example.com","subject":"s\r\nBcc: evil@example.com","text":"t"}`,
		"line feed in subject":    `{"to":"a@example.com","subject":"s\nX: y","text":"t"}`,
		"line break in recipient": `{"to":"a@example.com\r\nBcc: b@example.com","subject":"s","text":"t"}`,
		"command in recipient":    `{"to":["a@example.com>\r\nDATA"],"subject":"s","text":"t"}`,
		"quoted local part":       `{"to":"\"a> RCPT TO:<b\"@example.com","subject":"s","text":"t"}`,
		"no address":              `{"to":"nobody","subject":"s","text":"t"}`,
		"address not ASCII":       `{"to":"ä@example.com","subject":"s","text":"t"}`,
		"no recipient":            `{"to":[],"subject":"s","text":"t"}`,
		"recipient is a number":   `{"to":[{"a":1}],"subject":"s","text":"t"}`,
		"no subject":              `{"to":"a@example.com","text":"t"}`,
		"no text":                 `{"to":"a@example.com","subject":"s"}`,
		"endless word":            `{"to":"a@example.com","subject":"` + strings.Repeat("x", 1000) + `","text":"t"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, commands, o := deliver(t, smtpconn.Message{}, attempt(args))
			if o.Kind != justonce.OutcomeRejected || o.Failure == nil || !strings.Contains(o.Failure.Message, "nothing was sent") {
				t.Errorf("outcome %+v, want rejected", o)
			}
			if len(commands) > 0 {
				t.Errorf("the server was told %q", commands)
			}
		})
	}
}

func TestWhatIsNoDeclaration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]smtpconn.Config{
		"no port":         {Addr: "mail.example.com", Message: smtpconn.Message{From: "a@example.com"}},
		"no sender":       {Addr: "mail.example.com:25"},
		"bad sender":      {Addr: "mail.example.com:25", Message: smtpconn.Message{From: "nobody"}},
		"no domain":       {Addr: "mail.example.com:25", Message: smtpconn.Message{From: "${args.from}"}},
		"own header":      {Addr: "mail.example.com:25", Message: smtpconn.Message{From: "a@example.com", Headers: map[string]string{"bcc": "x"}}},
		"bad template":    {Addr: "mail.example.com:25", Message: smtpconn.Message{From: "a@example.com", Subject: "${args.x"}},
		"unknown tls":     {Addr: "mail.example.com:25", TLS: "yes", Message: smtpconn.Message{From: "a@example.com"}},
		"unknown auth":    {Addr: "mail.example.com:25", Auth: &smtpconn.Auth{Mechanism: "magic"}, Message: smtpconn.Message{From: "a@example.com"}},
		"lookup no match": {Addr: "mail.example.com:25", Message: smtpconn.Message{From: "a@example.com"}, Lookup: &smtpconn.Lookup{Request: smtpconn.Request{URL: "http://x/"}, Items: "body"}},
	} {
		if _, err := smtpconn.New(c, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
