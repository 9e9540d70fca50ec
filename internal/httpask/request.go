package httpask

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// A Request describes an HTTP request. Its strings are templates: ${…} holds a
// CEL expression, ${secret:name} a secret by name, and $${ stands for ${.
//
// Values are escaped for the place they stand in. A request that cannot be
// built, because an argument is missing or has no text, is not sent.
type Request struct {
	// Method defaults to POST; of a lookup to GET.
	Method string `json:"method,omitempty"`
	// URL is absolute. Scheme and host are literal; placeholders may stand in
	// the path, where each is escaped as one segment and must not be empty or a
	// dot segment, and in the query.
	URL string `json:"url"`
	// Query adds parameters. One whose only placeholder is absent or null is
	// left out: ${args.?note}.
	Query map[string]string `json:"query,omitempty"`
	// Headers adds header fields; left out like parameters.
	Headers map[string]string `json:"headers,omitempty"`
	// Basic sends HTTP Basic authentication.
	Basic *Basic `json:"basic,omitempty"`

	// Encoding of the body is json, form or none. Defaults to json for POST,
	// PUT and PATCH, to none for other methods and for lookups.
	Encoding string `json:"encoding,omitempty"`
	// Body is what is encoded: any structure of map[string]any, []any, strings
	// (templates), numbers, bools and nil. A string that is one placeholder
	// becomes the value itself, of any type; a member whose only placeholder is
	// absent is left out. Nil stands for the arguments as they came: as json,
	// byte for byte.
	Body any `json:"body,omitempty"`
}

// Basic holds the templates of HTTP Basic authentication.
type Basic struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// The encodings of a body.
const (
	EncodingJSON = "json"
	EncodingForm = "form"
	EncodingNone = "none"
)

// A Builder builds requests. It may be used from many goroutines.
type Builder struct {
	method   string
	encoding string
	origin   string
	path     *celexpr.Template
	query    *celexpr.Template
	params   []field
	headers  []field
	basic    *[2]*celexpr.Template
	body     *celexpr.Tree
	secrets  map[string]bool
	uses     map[string]bool
}

type field struct {
	name string
	text *celexpr.Template
}

// refused are the headers that belong to the transport.
var refused = []string{"Connection", "Content-Length", "Host", "Transfer-Encoding", "Trailer", "Upgrade", "Expect", "Te", "Keep-Alive", "Proxy-Connection"}

// Compile checks r and returns its builder.
func (r Request) Compile(env *celexpr.Env) (*Builder, error) {
	b := &Builder{method: strings.ToUpper(r.Method), encoding: r.Encoding, secrets: map[string]bool{}, uses: map[string]bool{}}
	if b.method == "" {
		b.method = http.MethodPost
	}
	switch b.method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, fmt.Errorf("method %q is none of GET, HEAD, POST, PUT, PATCH, DELETE", r.Method)
	}
	if b.encoding == "" {
		b.encoding = EncodingNone
		if b.method[0] == 'P' {
			b.encoding = EncodingJSON
		}
	}
	if !slices.Contains([]string{EncodingJSON, EncodingForm, EncodingNone}, b.encoding) {
		return nil, fmt.Errorf("encoding %q is none of json, form, none", r.Encoding)
	}
	if r.Body != nil && b.encoding == EncodingNone {
		return nil, fmt.Errorf("there is a body, but the encoding is none")
	}
	if err := b.compileURL(env, r.URL); err != nil {
		return nil, err
	}
	var err error
	if b.params, err = b.fields(env, "query", r.Query); err != nil {
		return nil, err
	}
	if b.headers, err = b.fields(env, "header", r.Headers); err != nil {
		return nil, err
	}
	for _, h := range b.headers {
		if !Settable(h.name) {
			return nil, fmt.Errorf("header %q cannot be set", h.name)
		}
	}
	if r.Basic != nil {
		user, err := b.template(env, r.Basic.Username)
		if err != nil {
			return nil, fmt.Errorf("basic: %w", err)
		}
		password, err := b.template(env, r.Basic.Password)
		if err != nil {
			return nil, fmt.Errorf("basic: %w", err)
		}
		b.basic = &[2]*celexpr.Template{user, password}
	}
	if r.Body != nil {
		if b.body, err = env.Tree(r.Body); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		b.body.Walk(b.note)
	}
	return b, nil
}

// Uses reports whether any template names the variable.
func (b *Builder) Uses(variable string) bool { return b.uses[variable] }

// HasBody reports whether requests have a body.
func (b *Builder) HasBody() bool { return b.encoding != EncodingNone }

func (b *Builder) note(t *celexpr.Template) {
	t.Secrets(b.secrets)
	for name := range LookupVars() {
		if t.Uses(name) {
			b.uses[name] = true
		}
	}
}

func (b *Builder) template(env *celexpr.Env, source string) (*celexpr.Template, error) {
	t, err := env.Template(source)
	if err != nil {
		return nil, err
	}
	b.note(t)
	return t, nil
}

func (b *Builder) fields(env *celexpr.Env, what string, m map[string]string) ([]field, error) {
	out := make([]field, 0, len(m))
	for name, source := range m {
		t, err := b.template(env, source)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", what, name, err)
		}
		out = append(out, field{name, t})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].name < out[j].name })
	return out, nil
}

// Settable reports whether a request may have the header: net/http would refuse
// the others, or leave them out without a word.
func Settable(name string) bool {
	return validHeaderName(name) && !slices.Contains(refused, http.CanonicalHeaderKey(name))
}

func validHeaderName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
