package httpask

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// compileURL splits the template into a literal origin, a path and a query.
func (b *Builder) compileURL(env *celexpr.Env, source string) error {
	bad := func(what string) error { return errors.New("url: " + what) } // without the URL, which may hold a secret
	scheme, rest, ok := strings.Cut(source, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return bad("it must start with http:// or https://")
	}
	host := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host = rest[:i]
	}
	if strings.Contains(host, "${") {
		return bad("the host must be literal, so that no argument can choose where secrets go")
	}
	origin := scheme + "://" + host
	if u, err := url.Parse(origin); err != nil || u.Host == "" || u.User != nil {
		return bad("the host is malformed or holds credentials")
	}
	path, query := celexpr.Cut(rest[len(host):], '?')
	if _, fragment := celexpr.Cut(path+query, '#'); fragment != "" {
		return bad("a fragment is never sent")
	}
	if path == "" {
		path = "/"
	}
	var err error
	if b.path, err = b.template(env, path); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if b.query, err = b.template(env, query); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if lit, ok := b.path.Literal(); ok {
		if err := checkPath(lit); err != nil {
			return bad(err.Error())
		}
	}
	b.origin = origin
	return nil
}

func (b *Builder) url(v celexpr.Vars, secrets map[string]string) (*url.URL, error) {
	path, _, err := b.path.Text(v, secrets, escapeSegment)
	if err != nil {
		return nil, fmt.Errorf("url path: %w", err)
	}
	if err := checkPath(path); err != nil {
		return nil, fmt.Errorf("url path: %w", err)
	}
	query, _, err := b.query.Text(v, secrets, escapeQuery)
	if err != nil {
		return nil, fmt.Errorf("url query: %w", err)
	}
	params := url.Values{}
	for _, p := range b.params {
		s, ok, err := p.text.Text(v, secrets, nil)
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", p.name, err)
		}
		if ok {
			params.Set(p.name, s)
		}
	}
	if more := params.Encode(); more != "" {
		if query != "" {
			query += "&"
		}
		query += more
	}
	full := b.origin + path
	if query != "" {
		full += "?" + query
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme+"://"+u.Host != b.origin {
		return nil, errors.New("the url is malformed") // the parser's error quotes it
	}
	return u, nil
}

var errEmptySegment = errors.New("a value in the path is empty")

func escapeSegment(s string) (string, error) {
	if s == "" {
		return "", errEmptySegment
	}
	return url.PathEscape(s), nil
}

func escapeQuery(s string) (string, error) { return url.QueryEscape(s), nil }

// checkPath refuses dot segments in any spelling: a server, or a proxy before
// it, may resolve them and serve another resource.
func checkPath(path string) error {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return errors.New("the escaping is malformed")
	}
	again, err := url.PathUnescape(plain) // some unescape twice
	if err != nil {
		again = plain
	}
	for _, p := range []string{plain, again} {
		for _, seg := range strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }) {
			seg, _, _ = strings.Cut(seg, ";")
			if seg == "." || seg == ".." {
				return errors.New("a dot segment is refused")
			}
		}
	}
	return nil
}
