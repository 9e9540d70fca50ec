package smtpconn

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/secret"
)

// The stages of a session, as they are told in evidence.
const (
	stageConnect   = "connect"
	stageGreeting  = "greeting"
	stageHello     = "hello"
	stageTLS       = "starttls"
	stageAuth      = "auth"
	stageSender    = "sender"
	stageRecipient = "recipient"
	stageData      = "data"
	stageMessage   = "message"
	stageEnd       = "end of message" // the final dot may have been sent
	stageDone      = "accepted"
)

// A session sends one mail.
type session struct {
	*connector
	id                 string
	username, password string
	redact             secret.Redactor
	stage              string
}

func (s *session) send(ctx context.Context, m *envelope) justonce.Outcome {
	reply, err := s.deliver(ctx, m)
	if err != nil {
		return s.failed(ctx, err)
	}
	reply = s.redact.String(reply)
	result, _ := json.Marshal(map[string]any{"message_id": s.id, "recipients": len(m.to), "reply": reply})
	return justonce.Outcome{Kind: justonce.OutcomeSucceeded, Reference: s.id, Result: result,
		Evidence: map[string]string{"stage": stageDone, "reply": httpask.Clip(reply, 200)}}
}

// deliver returns the server's reply to the end of the message. On an error the
// stage tells how far it came.
func (s *session) deliver(ctx context.Context, m *envelope) (string, error) {
	s.stage = stageConnect
	conn, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	s.stage = stageGreeting
	c, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return "", err
	}
	if err := s.prepare(c); err != nil {
		return "", err
	}
	s.stage = stageSender
	if err := c.Mail(m.from); err != nil {
		return "", err
	}
	s.stage = stageRecipient
	for _, to := range m.to {
		// All or nobody: one refused recipient ends it before anything is sent.
		if err := c.Rcpt(to); err != nil {
			return "", err
		}
	}
	reply, err := s.transfer(c.Text, m.data)
	if err == nil {
		s.stage = stageDone
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_ = c.Quit()
	}
	return reply, err
}

// prepare greets, encrypts and logs in.
func (s *session) prepare(c *smtp.Client) error {
	s.stage = stageHello
	if err := c.Hello(s.config.Hello); err != nil {
		return err
	}
	if s.config.TLS == TLSStart || s.config.TLS == TLSOpportunistic {
		s.stage = stageTLS
		if ok, _ := c.Extension("STARTTLS"); ok {
			if err := c.StartTLS(s.tls()); err != nil {
				return err
			}
		} else if s.config.TLS == TLSStart {
			return errors.New("the server offers no STARTTLS")
		}
	}
	if s.login == nil {
		return nil
	}
	s.stage = stageAuth
	ok, offered := c.Extension("AUTH")
	if !ok {
		return errors.New("the server offers no AUTH")
	}
	return c.Auth(s.auth(offered))
}

// transfer sends DATA, the message and the final dot.
func (s *session) transfer(t *textproto.Conn, data []byte) (string, error) {
	s.stage = stageData
	if err := t.PrintfLine("DATA"); err != nil {
		return "", err
	}
	if _, _, err := t.ReadResponse(354); err != nil {
		return "", err
	}
	s.stage = stageMessage
	dot := t.DotWriter()
	if _, err := dot.Write(data); err != nil {
		return "", err
	}
	// Everything but the dot leaves first, so that an error up to here proves
	// that there was none.
	if err := t.W.Flush(); err != nil {
		return "", err
	}
	s.stage = stageEnd
	if err := dot.Close(); err != nil {
		return "", err
	}
	code, text, err := t.ReadResponse(2)
	return strconv.Itoa(code) + " " + text, err
}

func (s *session) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.ConnectTimeout)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", s.config.Addr)
	if err != nil {
		return nil, err
	}
	conn := &bounded{Conn: raw, left: maxReplies}
	if s.config.TLS != TLSImplicit {
		return conn, nil
	}
	t := tls.Client(conn, s.tls())
	if err := t.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return t, nil
}

func (s *session) tls() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.options.TLS != nil {
		c = s.options.TLS.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = s.host
	}
	return c
}

// failed judges a session by its stage and the server's reply.
func (s *session) failed(ctx context.Context, err error) justonce.Outcome {
	text := httpask.Clip(s.redact.String(err.Error()), 300)
	o := justonce.Outcome{Evidence: map[string]string{"stage": s.stage}, Failure: &justonce.Failure{Message: s.stage + ": " + text}}
	reply := (*textproto.Error)(nil)
	var n net.Error
	switch {
	case errors.As(err, &reply):
		o.Failure.Code = fmt.Sprintf("smtp_%d", reply.Code)
		o.Evidence["reply"] = text
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &n) && n.Timeout():
		o.Failure.Code = "timeout"
	default:
		o.Failure.Code = "no_reply"
	}
	if reply == nil {
		o.Evidence["error"] = text
	}
	o.Kind = verdict(s.stage, reply)
	if o.Kind == justonce.OutcomeUnknown {
		o.Evidence["message_id"] = s.id // what to look for
	}
	return o
}

// notOurs are permanent replies about the login or encryption, which an operator
// can mend, rather than about the mail.
var notOurs = []int{530, 534, 535, 538}

// verdict says what a failure at a stage proves.
func verdict(stage string, reply *textproto.Error) justonce.OutcomeKind {
	permanent := reply != nil && reply.Code >= 500 && reply.Code < 600 && !slices.Contains(notOurs, reply.Code)
	switch stage {
	case stageSender, stageRecipient, stageData:
		if permanent {
			return justonce.OutcomeRejected
		}
	case stageEnd:
		switch {
		case permanent:
			return justonce.OutcomeRejected
		case reply != nil && reply.Code >= 400 && reply.Code < 600 && reply.Code != 421:
			return justonce.OutcomeNotExecuted
		}
		return justonce.OutcomeUnknown
	}
	return justonce.OutcomeNotExecuted
}

// maxReplies bounds what a server may say in one session, in bytes.
const maxReplies = 1 << 20

// bounded is a connection of which only so much is read.
type bounded struct {
	net.Conn
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
