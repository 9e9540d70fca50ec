// Package secret resolves secrets by name when they are needed, and keeps their
// values out of whatever is written down.
package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"sort"
	"strings"
)

// A Source resolves a secret by name. It is asked for every send, so that a
// rotated secret is taken up; it may be asked from many goroutines.
type Source interface {
	Secret(ctx context.Context, name string) (string, error)
}

// A Func is a function used as a Source.
type Func func(ctx context.Context, name string) (string, error)

// Secret implements Source.
func (f Func) Secret(ctx context.Context, name string) (string, error) { return f(ctx, name) }

// A MissingError says that a secret could not be had. It does not repeat the
// source's own error, which may quote what it must not.
type MissingError struct{ Name string }

func (e *MissingError) Error() string { return fmt.Sprintf("the secret %q could not be had", e.Name) }

// Resolve returns the values of the named secrets. The error is a
// *MissingError; an empty value counts as missing.
func Resolve(ctx context.Context, src Source, names map[string]bool) (map[string]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	values := make(map[string]string, len(names))
	for _, name := range sortedNames(names) {
		if src == nil {
			return nil, &MissingError{name}
		}
		v, err := src.Secret(ctx, name)
		if err != nil || v == "" {
			return nil, &MissingError{name}
		}
		values[name] = v
	}
	return values, nil
}

func sortedNames(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// Redacted stands where a secret's value stood.
const Redacted = "[redacted]"

// tooCommon reports whether a value would be found where it was not meant: in
// words, or in numbers, which redacting would break.
func tooCommon(v string) bool {
	return len(v) < 6 || len(v) < 12 && strings.Trim(v, "0123456789") == ""
}

// A Redactor removes values from texts. The zero value removes none.
type Redactor struct{ values []string }

// Hide adds values and the forms in which an answer may echo them: escaped for
// JSON (also with \/ for /) or a URL, and in base64. Values of fewer than 6 characters, or 12 digits,
// are too common to look for.
func (r *Redactor) Hide(values ...string) {
	for _, v := range values {
		if tooCommon(v) {
			continue
		}
		quoted, _ := json.Marshal(v)
		inJSON := string(quoted[1 : len(quoted)-1])
		r.values = append(r.values, v, inJSON, strings.ReplaceAll(inJSON, "/", `\/`), url.QueryEscape(v), url.PathEscape(v),
			base64.StdEncoding.EncodeToString([]byte(v)))
	}
	// Longest first: one value may be part of another.
	sort.Slice(r.values, func(i, j int) bool { return len(r.values[i]) > len(r.values[j]) })
}

// Bytes returns b without the values; b itself is returned when it has none.
func (r *Redactor) Bytes(b []byte) []byte {
	for _, v := range r.values {
		if bytes.Contains(b, []byte(v)) {
			b = bytes.ReplaceAll(b, []byte(v), []byte(Redacted))
		}
	}
	return b
}

// String returns s without the values.
func (r *Redactor) String(s string) string {
	for _, v := range r.values {
		s = strings.ReplaceAll(s, v, Redacted)
	}
	return s
}
