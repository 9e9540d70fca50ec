package httpask

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/secret"
)

// A Kind says what a lookup showed.
type Kind int

// The kinds of findings.
const (
	NoAnswer Kind = iota
	Found
	Absent
	Failed
	Progress
)

// A Finding is what a lookup showed.
type Finding struct {
	Kind       Kind
	Matches    []Match
	Result     json.RawMessage // of Progress
	Reference  string          // of Progress
	Code       string          // of Failed
	Message    string
	RetryAfter time.Duration
	Evidence   map[string]string
}

// A Match is an effect that a lookup showed.
type Match struct {
	Reference string
	Result    json.RawMessage
}

// Find asks once.
func (f *Finder) Find(ctx context.Context, c *Client, src secret.Source, op *Operation, show []string) Finding {
	v, err := op.LookupVars()
	var b *Built
	if err == nil {
		b, err = f.builder.Build(ctx, v, op.Arguments, src, Extra{})
	}
	if err != nil {
		return Finding{Evidence: map[string]string{"stage": "request not built", "error": Clip(err.Error(), 300)}}
	}
	x := c.Ask(ctx, b, true, f.limit)
	out := Finding{Evidence: x.Evidence(show)}
	if x.Answer == nil {
		return out
	}
	out.RetryAfter = RetryAfter(x.Answer.Header.Get("Retry-After"), time.Now())
	if x.Answer.TooLarge {
		return out
	}
	vars := x.Answer.Vars(v)
	if err := f.judge.Judge(&out, f.shown(x.Answer, vars), op.FirstSent); err != nil {
		out.Evidence["note"] = Clip(b.Redact.String(err.Error()), 300)
	}
	if out.Kind == Failed {
		code, message := f.failure.Of(x.Answer.Status, vars)
		out.Code, out.Message = b.Redact.String(code), b.Redact.String(message)
	}
	return out
}

// shown says what an answer shows by its status alone.
func (f *Finder) shown(a *Answer, v celexpr.Vars) Shown {
	s := Shown{Raw: a.Body, Vars: v}
	switch ok := a.Status >= 200 && a.Status < 300; {
	case !ok && a.Status == 404 && f.absent404:
		s.Default = Absent
	case !ok:
		s.NoList = fmt.Errorf("status %d is no list", a.Status)
	case f.found2xx:
		s.Default = Found
	}
	return s
}

// Reference evaluates an optional expression to text; null is "".
func Reference(x *celexpr.Expr, v celexpr.Vars) (string, error) {
	if x == nil {
		return "", nil
	}
	r, err := x.Eval(v)
	if err != nil || r.IsNull() {
		return "", err
	}
	s, err := r.Text()
	if err != nil {
		return "", fmt.Errorf("%s: %w", x, err)
	}
	return s, nil
}

// ResultOf evaluates an optional expression to JSON. Without one it is the item,
// where there is one, or else raw, which must be empty or JSON.
func ResultOf(x *celexpr.Expr, raw []byte, v celexpr.Vars) (json.RawMessage, error) {
	if x != nil {
		r, err := x.Eval(v)
		if err != nil {
			return nil, err
		}
		return r.JSON()
	}
	if item, ok := v["item"]; ok {
		return celexpr.ToJSON(item)
	}
	if len(raw) > 0 && !json.Valid(raw) {
		return nil, fmt.Errorf("the body is not JSON")
	}
	return json.RawMessage(raw), nil
}
