package smtpconn

import (
	"errors"
	"fmt"
	"net/smtp"
	"slices"
	"strings"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// A login is a compiled Auth.
type login struct {
	mechanism          string
	username, password *celexpr.Template
}

func (a Auth) compile(env *celexpr.Env, secrets map[string]bool) (*login, error) {
	l := &login{mechanism: strings.ToLower(a.Mechanism)}
	if !slices.Contains([]string{"", "plain", "login", "cram-md5", "xoauth2"}, l.mechanism) {
		return nil, fmt.Errorf("mechanism %q is none of plain, login, cram-md5, xoauth2", a.Mechanism)
	}
	var err error
	if l.username, err = env.Template(a.Username); err != nil {
		return nil, err
	}
	if l.password, err = env.Template(a.Password); err != nil {
		return nil, err
	}
	l.username.Secrets(secrets)
	l.password.Secrets(secrets)
	return l, nil
}

// credentials fills in the login's templates.
func (s *session) credentials(v celexpr.Vars, secrets map[string]string) error {
	if s.login == nil {
		return nil
	}
	var err error
	if s.username, _, err = s.login.username.Text(v, secrets, nil); err != nil {
		return fmt.Errorf("username: %w", err)
	}
	if s.password, _, err = s.login.password.Text(v, secrets, nil); err != nil {
		return fmt.Errorf("password: %w", err)
	}
	s.redact.Hide(s.password, "\x00"+s.username+"\x00"+s.password, xoauth2(s.username, s.password))
	return nil
}

// auth returns the mechanism to use of those that the server offers.
func (s *session) auth(offered string) smtp.Auth {
	m := s.login.mechanism
	if m == "" {
		m = "plain"
		have := strings.Fields(strings.ToLower(offered))
		if !slices.Contains(have, "plain") && slices.Contains(have, "login") {
			m = "login"
		}
	}
	switch m {
	case "cram-md5":
		return smtp.CRAMMD5Auth(s.username, s.password)
	case "plain":
		return smtp.PlainAuth("", s.username, s.password, s.host)
	}
	return &exchange{mechanism: strings.ToUpper(m), user: s.username, password: s.password}
}

// An exchange is the client's side of LOGIN or XOAUTH2.
type exchange struct {
	mechanism, user, password string
	asked                     int
}

// Start implements smtp.Auth.
func (x *exchange) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS && !local(server.Name) {
		return "", nil, errors.New("the connection is not encrypted")
	}
	if x.mechanism == "XOAUTH2" {
		return x.mechanism, []byte(xoauth2(x.user, x.password)), nil
	}
	return x.mechanism, nil, nil
}

func xoauth2(user, token string) string {
	return "user=" + user + "\x01auth=Bearer " + token + "\x01\x01"
}

// Next implements smtp.Auth.
func (x *exchange) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	x.asked++
	switch {
	case x.mechanism == "XOAUTH2":
		return []byte{}, nil // the challenge tells the error; an empty answer ends it
	case x.asked == 1:
		return []byte(x.user), nil
	case x.asked == 2:
		return []byte(x.password), nil
	}
	return nil, errors.New("the server asks for more than name and password")
}
