package secret_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/justonce-dev/justonce/internal/secret"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	src := secret.Func(func(_ context.Context, name string) (string, error) {
		switch name {
		case "a":
			return "value-a", nil
		case "empty":
			return "", nil
		}
		return "value-b", errors.New("vault: value-b is sealed")
	})
	got, err := secret.Resolve(context.Background(), src, map[string]bool{"a": true})
	if err != nil || got["a"] != "value-a" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, name := range []string{"empty", "broken"} {
		_, err := secret.Resolve(context.Background(), src, map[string]bool{"a": true, name: true})
		if e := (*secret.MissingError)(nil); !errors.As(err, &e) || e.Name != name || strings.Contains(err.Error(), "value-b") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := secret.Resolve(context.Background(), nil, map[string]bool{"a": true}); err == nil {
		t.Error("a secret came from nowhere")
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	var r secret.Redactor
	r.Hide(`to"ken/1`, "to", "123456", "token-long", "token-longer")
	for text, want := range map[string]string{
		`x to"ken/1 y`:       "x [redacted] y",
		`{"k":"to\"ken/1"}`:  `{"k":"[redacted]"}`,
		`{"k":"to\"ken\/1"}`: `{"k":"[redacted]"}`,
		"?k=to%22ken%2F1":    "?k=[redacted]",
		"dG8ia2VuLzE=":       "[redacted]",
		"token-longer":       "[redacted]",
		"to 123456 stay":     "to 123456 stay",
	} {
		if got := r.String(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if got := string(r.Bytes([]byte(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
