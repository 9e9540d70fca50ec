package catalog

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// maxSecret bounds a secret's file.
const maxSecret = 64 << 10

// Secrets resolves the references of a catalog, each time it is asked, so that
// a changed file or variable is taken up. It may be used from many goroutines.
// It is what connectors of this module take as their source of secrets.
type Secrets struct {
	lookupEnv func(string) (string, bool)
	readFile  func(string) ([]byte, error)
	dir       string
}

// Secret returns the value of a secret by the name that a connector's
// placeholder has after [Spec.Decode]: env/NAME or file/PATH. A file's value
// ends before its last line break. The error never quotes a value.
func (s *Secrets) Secret(_ context.Context, name string) (string, error) {
	kind, rest, _ := strings.Cut(name, "/")
	switch kind {
	case "env":
		v, ok := s.lookupEnv(rest)
		if !ok || v == "" {
			return "", fmt.Errorf("the environment variable %s is not set", rest)
		}
		return v, nil
	case "file":
		path := rest
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.dir, path)
		}
		b, err := s.readFile(path)
		if err != nil {
			return "", fmt.Errorf("the secret's file cannot be read: %w", err)
		}
		v := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
		if v == "" || len(v) > maxSecret {
			return "", fmt.Errorf("the secret's file %s is empty or larger than %d bytes", path, maxSecret)
		}
		return v, nil
	}
	return "", fmt.Errorf("there is no secret %q: write ${env:NAME} or ${file:PATH}", name)
}

// Expand replaces ${env:NAME} and ${file:PATH} in a setting, such as the
// store's DSN. Whoever shows the result shows the secret.
func (s *Secrets) Expand(ctx context.Context, text string) (string, error) {
	var bad error
	out := placeholder.ReplaceAllStringFunc(text, func(m string) string {
		ref, ok := parseReference(m)
		name := ref.name()
		if ref.kind == "secret" { // as it is in what was decoded
			name, ok = ref.value, true
		}
		if !ok || strings.HasPrefix(m, "$$") {
			return m
		}
		v, err := s.Secret(ctx, name)
		if err != nil && bad == nil {
			bad = err
		}
		return v
	})
	if bad != nil {
		return "", bad
	}
	return out, nil
}

// A reference is a placeholder for a secret.
type reference struct {
	kind, value string // env or file, and its name or path
	at          Position
}

func (r reference) name() string { return r.kind + "/" + r.value }

var (
	// placeholder finds references, and those that $$ makes plain text.
	placeholder = regexp.MustCompile(`\$?\$\{\s*(env|file|secret):[^{}]*\}`)
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,120}$`)
	filePath    = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,120}$`)
	// leading is a part of a URL that is no secret, filled in when the file is
	// read: ${env:NAME} or ${env:NAME:-default} at its beginning.
	leading = regexp.MustCompile(`^\$\{\s*env:([A-Za-z_][A-Za-z0-9_]{0,120})(:-([^{}]*))?\}`)
)

func parseReference(m string) (reference, bool) {
	inside := strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(m, "${ \t"), "}"))
	kind, value, _ := strings.Cut(inside, ":")
	r := reference{kind: kind, value: strings.TrimSpace(value)}
	return r, kind == "env" && envName.MatchString(r.value) || kind == "file" && filePath.MatchString(r.value)
}

// references rewrites the placeholders of a block to those that connectors
// know, and lists them.
type references struct {
	found   *findings
	secrets *Secrets
	tool    string
	list    []reference
}

// rewrite returns n with its references rewritten; n itself if there are none.
func (r *references) rewrite(n *node, key string) *node {
	switch n.kind {
	case kindText:
		return r.text(n, key)
	case kindList:
		c := *n
		c.list = make([]*node, len(n.list))
		for i, v := range n.list {
			c.list[i] = r.rewrite(v, key)
		}
		return &c
	case kindMap:
		c := *n
		c.members = make([]member, len(n.members))
		for i, m := range n.members {
			c.members[i] = member{m.name, m.at, r.rewrite(m.value, m.name)}
		}
		return &c
	}
	return n
}

func (r *references) text(n *node, key string) *node {
	if !strings.Contains(n.text, "${") {
		return n
	}
	c := *n
	if m := leading.FindStringSubmatch(c.text); m != nil && (key == "url" || key == "addr") {
		v, ok := r.secrets.lookupEnv(m[1])
		switch {
		case ok && v != "":
		case m[2] != "":
			v = m[3]
		default:
			r.found.add("env-address", n.at, r.tool, "set it, or write ${env:"+m[1]+":-default}",
				"%s: the environment variable %s is not set", key, m[1])
		}
		c.text = v + c.text[len(m[0]):]
	}
	c.text = placeholder.ReplaceAllStringFunc(c.text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m
		}
		ref, ok := parseReference(m)
		if !ok {
			hint := "a variable's name has letters, digits and _; a path also . / and -"
			if ref.kind == "secret" {
				hint = "write ${env:NAME} or ${file:PATH}"
			}
			r.found.add("value", n.at, r.tool, hint, "a reference to a secret is malformed")
			return m
		}
		ref.at = n.at
		r.list = append(r.list, ref)
		return "${secret:" + ref.name() + "}"
	})
	return &c
}
