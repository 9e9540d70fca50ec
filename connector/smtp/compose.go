package smtpconn

import (
	"errors"
	"fmt"
	"net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// A composer makes mails from templates. It may be used from many goroutines.
type composer struct {
	from, subject, text, html *celexpr.Template
	to, cc, bcc               []*celexpr.Template
	headers                   []header
	domain                    string // of a literal sender
}

type header struct {
	name string
	text *celexpr.Template
}

// An envelope is a composed mail.
type envelope struct {
	from string
	to   []string // every recipient once
	data []byte
}

// ownHeaders are the fields that Config sets elsewhere, or the protocol does.
var ownHeaders = []string{"From", "To", "Cc", "Bcc", "Subject", "Date", "Message-Id", "Mime-Version", "Received", "Return-Path"}

func (m Message) compile(env *celexpr.Env, secrets map[string]bool) (*composer, error) {
	var failed error
	template := func(what, source string) *celexpr.Template {
		t, err := env.Template(source)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", what, err))
			return nil
		}
		t.Secrets(secrets)
		return t
	}
	templates := func(what string, sources []string) (out []*celexpr.Template) {
		for _, s := range sources {
			out = append(out, template(what, s))
		}
		return out
	}
	if m.From == "" {
		return nil, errors.New("from is required")
	}
	if len(m.To)+len(m.Cc)+len(m.Bcc) == 0 {
		m.To = []string{"${args.to}"}
	}
	if m.Subject == "" {
		m.Subject = "${args.subject}"
	}
	if m.Text == "" && m.HTML == "" {
		m.Text, m.HTML = "${args.?text}", "${args.?html}"
	}
	c := &composer{from: template("from", m.From), subject: template("subject", m.Subject),
		to: templates("to", m.To), cc: templates("cc", m.Cc), bcc: templates("bcc", m.Bcc)}
	if m.Text != "" {
		c.text = template("text", m.Text)
	}
	if m.HTML != "" {
		c.html = template("html", m.HTML)
	}
	for name, source := range m.Headers {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if !fieldName(name) || slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Content-") {
			return nil, fmt.Errorf("header %q cannot be set", name)
		}
		c.headers = append(c.headers, header{name, template("header "+name, source)})
	}
	sort.Slice(c.headers, func(i, j int) bool { return c.headers[i].name < c.headers[j].name })
	if failed != nil {
		return nil, failed
	}
	if lit, ok := c.from.Literal(); ok {
		a, err := address(lit)
		if err != nil {
			return nil, fmt.Errorf("from: %w", err)
		}
		_, c.domain, _ = strings.Cut(a.Address, "@")
	}
	return c, nil
}

func fieldName(s string) bool {
	return s != "" && len(s) <= 76 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' })
}

// compose fills in the templates. The bytes depend on nothing else.
func (c *composer) compose(v celexpr.Vars, secrets map[string]string, id string, date time.Time) (*envelope, error) {
	text := func(what string, t *celexpr.Template) (string, error) {
		if t == nil {
			return "", nil
		}
		s, _, err := t.Text(v, secrets, nil)
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		return s, nil
	}
	sender, err := text("from", c.from)
	if err != nil {
		return nil, err
	}
	from, err := address(sender)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	e := &envelope{from: from.Address}
	w := &writer{}
	w.field("Date", date.UTC().Format(time.RFC1123Z))
	w.field("Message-ID", "<"+id+">")
	w.field("From", from.String())
	for _, list := range []struct {
		name  string
		texts []*celexpr.Template
	}{{"To", c.to}, {"Cc", c.cc}, {"Bcc", c.bcc}} {
		found, err := addresses(list.texts, v, secrets)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.ToLower(list.name), err)
		}
		var shown []string
		for _, a := range found {
			shown = append(shown, a.String())
			if !slices.Contains(e.to, a.Address) {
				e.to = append(e.to, a.Address)
			}
		}
		if len(shown) > 0 && list.name != "Bcc" {
			w.field(list.name, strings.Join(shown, ", "))
		}
	}
	if len(e.to) == 0 {
		return nil, errors.New("there is no recipient")
	}
	subject, err := text("subject", c.subject)
	if err != nil {
		return nil, err
	}
	w.text("Subject", subject)
	for _, h := range c.headers {
		s, ok, err := h.text.Text(v, secrets, nil)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.name, err)
		}
		if ok {
			w.text(h.name, s)
		}
	}
	plain, err := text("text", c.text)
	if err != nil {
		return nil, err
	}
	html, err := text("html", c.html)
	if err != nil {
		return nil, err
	}
	w.body(plain, html, id)
	e.data = w.b.Bytes()
	return e, w.err
}

// address parses one address.
func address(s string) (*mail.Address, error) {
	list, err := parse(s)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, errors.New("it must be one address")
	}
	return list[0], nil
}

func addresses(texts []*celexpr.Template, v celexpr.Vars, secrets map[string]string) ([]*mail.Address, error) {
	var out []*mail.Address
	for _, t := range texts {
		given, err := t.Texts(v, secrets)
		if err != nil {
			return nil, err
		}
		for _, s := range given {
			list, err := parse(s)
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
		}
	}
	return out, nil
}

// parse parses a list of addresses. Control characters are refused before,
// since the parser would take a line break for white space.
func parse(s string) ([]*mail.Address, error) {
	if strings.ContainsFunc(s, control) {
		return nil, errors.New("a control character in an address is refused")
	}
	list, err := mail.ParseAddressList(s)
	if err != nil {
		return nil, errors.New("it is no address such as ada@example.com")
	}
	for _, a := range list {
		if len(a.Address) > 254 || !plainAddress.MatchString(a.Address) {
			return nil, errors.New("an address may have only unquoted ASCII, at most 254 characters (write the domain in its xn-- form)")
		}
	}
	return list, nil
}

var plainAddress = regexp.MustCompile("^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9][A-Za-z0-9.-]*$")

func control(r rune) bool { return r < ' ' || r == 0x7f }
