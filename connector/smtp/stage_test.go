package smtpconn_test

import (
	"context"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

func attempt(args string) *justonce.Attempt {
	return &justonce.Attempt{Ref: justonce.Ref{Key: "k"}, Tool: "mail", Arguments: []byte(args),
		WireKey: "0123456789abcdef0123456789abcdef", Number: 1, FirstSent: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func TestEveryStage(t *testing.T) {
	t.Parallel()
	const (
		unknown  = justonce.OutcomeUnknown
		ok       = justonce.OutcomeSucceeded
		rejected = justonce.OutcomeRejected
		not      = justonce.OutcomeNotExecuted
	)
	for _, c := range []struct {
		stage, reply string
		want         justonce.OutcomeKind
		code         string
	}{
		{"greeting", "554 go away", not, "smtp_554"},
		{"greeting", "not smtp at all", not, "no_reply"},
		{"greeting", "", not, "no_reply"},
		{"EHLO", "421 busy", not, "smtp_421"},
		{"AUTH", "535 5.7.8 no", not, "smtp_535"},
		{"MAIL", "451 later", not, "smtp_451"},
		{"MAIL", "550 5.1.8 no such sender", rejected, "smtp_550"},
		{"MAIL", "530 5.7.0 log in first", not, "smtp_530"},
		{"RCPT", "450 4.2.0 greylisted", not, "smtp_450"},
		{"RCPT", "550 5.1.1 no such user", rejected, "smtp_550"},
		{"RCPT", "", not, "no_reply"},
		{"DATA", "552 too much", rejected, "smtp_552"},
		{"DATA", "452 disk full", not, "smtp_452"},
		{"DATA", "", not, "no_reply"},
		{"end", "250 ok", ok, ""},
		{"end", "451 4.3.0 try later", not, "smtp_451"},
		{"end", "554 5.7.1 spam", rejected, "smtp_554"},
		{"end", "421 closing", unknown, "smtp_421"},
		{"end", "354 what", unknown, "smtp_354"},
		{"end", "2x0 garbled", unknown, "no_reply"},
		{"end", "", unknown, "no_reply"},
		{"QUIT", "500 never", ok, ""},
		{"QUIT", "", ok, ""},
	} {
		t.Run(c.stage+" "+c.reply, func(t *testing.T) {
			t.Parallel()
			s := &server{replies: map[string]string{c.stage: c.reply}, extensions: []string{"AUTH PLAIN"}}
			p := s.start(t)
			k := must(t, smtpconn.Config{Addr: p.Addr(), TLS: smtpconn.TLSNone,
				Auth: &smtpconn.Auth{Username: "u", Password: "${secret:p}"}}, nil)
			o := k.Send(context.Background(), attempt(string(arguments)))
			if o.Kind != c.want {
				t.Errorf("outcome %s, want %s (%+v, %v)", o.Kind, c.want, o.Failure, o.Evidence)
			}
			if got := failureCode(o); got != c.code {
				t.Errorf("failure %q, want %q", got, c.code)
			}
			if o.Conclusive {
				t.Error("SMTP remembers no key: nothing is conclusive")
			}
		})
	}
}

func failureCode(o justonce.Outcome) string {
	if o.Failure == nil {
		return ""
	}
	return o.Failure.Code
}

func TestOneRefusedRecipientStopsAll(t *testing.T) {
	t.Parallel()
	s := &server{replies: map[string]string{"RCPT": "550 no"}}
	p := s.start(t)
	k := must(t, smtpconn.Config{Addr: p.Addr(), TLS: smtpconn.TLSNone}, nil)
	o := k.Send(context.Background(), attempt(string(arguments)))
	n := p.Effects()
	_, commands := s.got()
	for _, c := range commands {
		if c == "DATA" {
			t.Error("DATA was sent although a recipient was refused")
		}
	}
	if o.Kind != justonce.OutcomeRejected || n != 0 {
		t.Errorf("outcome %s with %d effects", o.Kind, n)
	}
}

func TestEncryptionIsNotGivenUp(t *testing.T) {
	t.Parallel()
	s := &server{}
	p := s.start(t)
	o := must(t, smtpconn.Config{Addr: p.Addr()}, nil).Send(context.Background(), attempt(string(arguments)))
	p.Effects()
	if mails, _ := s.got(); o.Kind != justonce.OutcomeNotExecuted || len(mails) != 0 || o.Evidence["stage"] != "starttls" {
		t.Errorf("outcome %+v with %d mails, want not executed for want of STARTTLS", o, len(mails))
	}
	o = must(t, smtpconn.Config{Addr: p.Addr(), TLS: smtpconn.TLSOpportunistic}, nil).Send(context.Background(), attempt(string(arguments)))
	if o.Kind != justonce.OutcomeSucceeded {
		t.Errorf("opportunistic: %+v", o)
	}
	if _, err := smtpconn.New(smtpconn.Config{Addr: "mail.example.com:25", TLS: smtpconn.TLSNone,
		Auth: &smtpconn.Auth{}, Message: smtpconn.Message{From: "a@example.com"}}, nil); err == nil {
		t.Error("a login without TLS was accepted")
	}
}

// A server that repeats what it was told does not get the password written down.
func TestLoginEchoed(t *testing.T) {
	t.Parallel()
	for mechanism, echo := range map[string]string{
		"plain":   "AHNob3AAY29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ==",
		"xoauth2": "dXNlcj1zaG9wAWF1dGg9QmVhcmVyIGNvcnJlY3QgaG9yc2UgYmF0dGVyeSBzdGFwbGUBAQ==",
	} {
		s := &server{extensions: []string{"AUTH PLAIN XOAUTH2"}, replies: map[string]string{"AUTH": "535 5.7.8 bad credentials " + echo}}
		p := s.start(t)
		o := must(t, smtpconn.Config{Addr: p.Addr(), TLS: smtpconn.TLSNone,
			Auth: &smtpconn.Auth{Mechanism: mechanism, Username: "shop", Password: "${secret:p}"}}, nil).
			Send(context.Background(), attempt(string(arguments)))
		p.Effects()
		if o.Kind != justonce.OutcomeNotExecuted || strings.Contains(o.Failure.Message+o.Evidence["reply"], echo) {
			t.Errorf("%s: %+v, %+v", mechanism, o, o.Failure)
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for mechanism, want := range map[string]string{
		"":        "AUTH PLAIN AHNob3AAY29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ==",
		"login":   "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5IHN0YXBsZQ==",
		"xoauth2": "AUTH XOAUTH2 dXNlcj1zaG9wAWF1dGg9QmVhcmVyIGNvcnJlY3QgaG9yc2UgYmF0dGVyeSBzdGFwbGUBAQ==",
	} {
		s := &server{extensions: []string{"AUTH PLAIN LOGIN XOAUTH2"}}
		p := s.start(t)
		o := must(t, smtpconn.Config{Addr: p.Addr(), TLS: smtpconn.TLSNone,
			Auth: &smtpconn.Auth{Mechanism: mechanism, Username: "shop", Password: "${secret:p}"}}, nil).
			Send(context.Background(), attempt(string(arguments)))
		p.Effects()
		found := false
		_, commands := s.got()
		for _, c := range commands {
			found = found || c == want
		}
		if o.Kind != justonce.OutcomeSucceeded || !found {
			t.Errorf("%q: outcome %s; %q is not among %q", mechanism, o.Kind, want, commands)
		}
	}
}
