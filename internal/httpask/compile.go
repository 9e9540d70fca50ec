package httpask

import (
	"fmt"
	"net/http"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// A Compiler compiles optional expressions and keeps the first error.
type Compiler struct{ Err error }

// Any compiles an expression; nil for an empty one.
func (c *Compiler) Any(env *celexpr.Env, name, source string) *celexpr.Expr {
	return c.one(name, source, env.Compile)
}

// Bool compiles a condition; nil for an empty one.
func (c *Compiler) Bool(env *celexpr.Env, name, source string) *celexpr.Expr {
	return c.one(name, source, env.CompileBool)
}

func (c *Compiler) one(name, source string, compile func(string) (*celexpr.Expr, error)) *celexpr.Expr {
	if source == "" || c.Err != nil {
		return nil
	}
	x, err := compile(source)
	if err != nil {
		c.Err = fmt.Errorf("%s: %w", name, err)
	}
	return x
}

// Failures compiles the two expressions that tell of a failure.
func (c *Compiler) Failures(env *celexpr.Env, code, message string) Failures {
	guess := func(source string) *celexpr.Expr { return c.Any(env, "", source) }
	f := Failures{code: c.Any(env, "failure_code", code), message: c.Any(env, "failure_message", message)}
	for _, s := range []string{"body.error.code", "body.error.type", "body.code", "body.error"} {
		f.codes = append(f.codes, guess(s))
	}
	for _, s := range []string{"body.error.message", "body.message", "body.detail", "body.error_description", "body.title"} {
		f.messages = append(f.messages, guess(s))
	}
	return f
}

// Failures tells of a failure in an answer: by the declared expressions, or
// else by the members that most providers use, or else by the status.
type Failures struct {
	code, message   *celexpr.Expr
	codes, messages []*celexpr.Expr
}

// Of returns code and message. It always has both.
func (f *Failures) Of(status int, v celexpr.Vars) (code, message string) {
	if code = firstText(f.code, f.codes, v); code == "" {
		code = fmt.Sprintf("http_%d", status)
	}
	if message = firstText(f.message, f.messages, v); message == "" {
		message = fmt.Sprintf("the provider answered %d %s", status, http.StatusText(status))
	}
	return Clip(code, 100), Clip(message, 500)
}

func firstText(declared *celexpr.Expr, guesses []*celexpr.Expr, v celexpr.Vars) string {
	if declared != nil {
		guesses = []*celexpr.Expr{declared}
	}
	for _, x := range guesses {
		if r, err := x.Eval(v); err == nil && !r.IsNull() {
			if s, err := r.Text(); err == nil && s != "" {
				return s
			}
		}
	}
	return ""
}
