package smtpconn_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/connector/connectortest"
)

// A server is an SMTP server that answers as it is told to.
type server struct {
	// replies by stage: greeting, EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, end.
	// An empty reply closes the connection. Missing ones are as usual.
	replies    map[string]string
	extensions []string
	tls        *tls.Config
	implicit   bool

	mu       sync.Mutex
	mails    []string // what DATA brought, dots removed
	commands []string
}

var usual = map[string]string{
	"greeting": "220 test ESMTP", "STARTTLS": "220 go on", "AUTH": "235 2.7.0 welcome", "MAIL": "250 2.1.0 sender",
	"RCPT": "250 2.1.5 recipient", "DATA": "354 go on", "end": "250 2.0.0 Ok: queued as 4711", "QUIT": "221 bye",
}

func (s *server) start(t testing.TB) connectortest.Provider {
	return connectortest.Serve(t, s.session)
}

// say writes the reply of a stage; false ends the session.
func (s *server) say(c net.Conn, stage string) bool {
	if stage == "HELO" {
		stage = "EHLO"
	}
	r, ok := s.replies[stage]
	if !ok {
		r = usual[stage]
	}
	if stage == "EHLO" && !ok {
		r = "250-test\r\n250-" + strings.Join(append([]string{"8BITMIME"}, s.extensions...), "\r\n250-") + "\r\n250 HELP"
	}
	if r == "" {
		return false
	}
	_, err := c.Write([]byte(r + "\r\n"))
	return err == nil
}

func (s *server) session(c net.Conn, effect func()) {
	if s.implicit {
		c = tls.Server(c, s.tls)
	}
	if !s.say(c, "greeting") {
		return
	}
	in := textproto.NewReader(bufio.NewReader(c))
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.commands = append(s.commands, line)
		s.mu.Unlock()
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		verb, _, _ = strings.Cut(verb, ":")
		if verb == "AUTH" && strings.EqualFold(line, "AUTH LOGIN") {
			for _, ask := range []string{"334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"} {
				_, _ = c.Write([]byte(ask + "\r\n"))
				answer, err := in.ReadLine()
				if err != nil {
					return
				}
				s.mu.Lock()
				s.commands = append(s.commands, answer)
				s.mu.Unlock()
			}
		}
		if !s.say(c, verb) {
			return
		}
		switch verb {
		case "STARTTLS":
			c = tls.Server(c, s.tls)
			in = textproto.NewReader(bufio.NewReader(c))
		case "DATA":
			if r := s.replies["DATA"]; r != "" && r[0] != '3' {
				continue
			}
			mail, err := in.ReadDotBytes()
			if err != nil {
				return
			}
			if r, ok := s.replies["end"]; !ok || r == "" || r[0] == '2' {
				effect() // an empty reply: carried out, never answered
			}
			s.mu.Lock()
			s.mails = append(s.mails, string(mail))
			s.mu.Unlock()
			if !s.say(c, "end") {
				return
			}
		case "QUIT":
			return
		}
	}
}

func (s *server) got() (mails, commands []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mails...), append([]string(nil), s.commands...)
}

// certificate returns configurations for a server at 127.0.0.1 and its clients.
func certificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: roots}
}
