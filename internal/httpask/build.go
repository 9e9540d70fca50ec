package httpask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/secret"
)

// A BuildError says why a request could not be built. Nothing was sent.
type BuildError struct{ Err error }

func (e *BuildError) Error() string { return "the request cannot be built: " + e.Err.Error() }
func (e *BuildError) Unwrap() error { return e.Err }

// A Built is a request ready to be sent once.
type Built struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte // nil: none
	Redact secret.Redactor
}

// An Extra adds the wire key to a request.
type Extra struct {
	Header, HeaderValue string
	Field, FieldValue   string // a member or form field of the body
}

// Build fills in the templates. Args are the caller's arguments, sent as they
// are where the request names no body. The error is a *BuildError, or a
// *secret.MissingError.
func (b *Builder) Build(ctx context.Context, v celexpr.Vars, args json.RawMessage, src secret.Source, x Extra) (*Built, error) {
	secrets, err := secret.Resolve(ctx, src, b.secrets)
	if err != nil {
		return nil, err
	}
	out := &Built{Method: b.method, Header: http.Header{}}
	for _, s := range secrets {
		out.Redact.Hide(s)
	}
	if err := b.fill(out, v, args, secrets, x); err != nil {
		return nil, &BuildError{errors.New(out.Redact.String(err.Error()))}
	}
	return out, nil
}

func (b *Builder) fill(out *Built, v celexpr.Vars, args json.RawMessage, secrets map[string]string, x Extra) error {
	var err error
	if out.URL, err = b.url(v, secrets); err != nil {
		return err
	}
	set := func(name, value string) error {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("header %s: a control character is refused", name)
		}
		out.Header.Set(name, value)
		return nil
	}
	out.Header.Set("User-Agent", "justonce")
	switch b.encoding {
	case EncodingJSON:
		out.Header.Set("Content-Type", "application/json")
	case EncodingForm:
		out.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range b.headers {
		s, ok, err := h.text.Text(v, secrets, nil)
		if err != nil {
			return fmt.Errorf("header %s: %w", h.name, err)
		}
		if !ok {
			continue
		}
		if err := set(h.name, s); err != nil {
			return err
		}
	}
	if b.basic != nil {
		if err := b.setBasic(out, v, secrets); err != nil {
			return err
		}
	}
	if x.Header != "" {
		if err := set(x.Header, x.HeaderValue); err != nil {
			return err
		}
	}
	out.Body, err = b.encode(v, args, secrets, x)
	return err
}

func (b *Builder) setBasic(out *Built, v celexpr.Vars, secrets map[string]string) error {
	user, _, err := b.basic[0].Text(v, secrets, nil)
	if err != nil {
		return fmt.Errorf("basic: %w", err)
	}
	password, _, err := b.basic[1].Text(v, secrets, nil)
	if err != nil {
		return fmt.Errorf("basic: %w", err)
	}
	if strings.Contains(user, ":") {
		return errors.New("basic: a colon in the user name is refused")
	}
	r := http.Request{Header: out.Header}
	r.SetBasicAuth(user, password)
	out.Redact.Hide(user + ":" + password)
	return nil
}

func (b *Builder) encode(v celexpr.Vars, args json.RawMessage, secrets map[string]string, x Extra) ([]byte, error) {
	if b.encoding == EncodingNone {
		return nil, nil
	}
	body := args
	if b.body != nil {
		var err error
		if body, err = b.body.JSON(v, secrets); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
	} else if len(body) == 0 {
		body = json.RawMessage("{}")
	}
	if x.Field != "" {
		var err error
		if body, err = addMember(body, x.Field, x.FieldValue); err != nil {
			return nil, err
		}
	}
	if b.encoding == EncodingForm {
		return form(body)
	}
	return body, nil
}

// addMember adds a string member to an object. The others keep their bytes.
func addMember(object json.RawMessage, name, value string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil || members == nil {
		return nil, errors.New("body: the idempotency key is a member of it, so it must be an object")
	}
	for m := range members {
		if strings.EqualFold(m, name) { // many parsers, Go's among them, take either, the last one
			return nil, fmt.Errorf("body: the member %q is the idempotency key's; an argument must not set it", name)
		}
	}
	open := bytes.IndexByte(object, '{')
	quotedName, _ := json.Marshal(name)
	quotedValue, _ := json.Marshal(value)
	out := append([]byte{'{'}, quotedName...)
	out = append(out, ':')
	out = append(out, quotedValue...)
	if len(members) > 0 {
		out = append(out, ',')
	}
	return append(out, object[open+1:]...), nil
}
