package httpask

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
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
	if err := f.judge(&out, x.Answer, x.Answer.Vars(v), op.FirstSent); err != nil {
		out.Kind, out.Matches, out.Result, out.Reference = NoAnswer, nil, nil, ""
		out.Evidence["note"] = Clip(b.Redact.String(err.Error()), 300)
	}
	out.Code, out.Message = b.Redact.String(out.Code), b.Redact.String(out.Message)
	return out
}

// judge evaluates what was declared, and the defaults only where nothing
// declared is true. An expression that fails, or two that are true, are errors.
func (f *Finder) judge(out *Finding, a *Answer, v celexpr.Vars, firstSent time.Time) error {
	said := 0
	for _, e := range f.explicit {
		yes, err := e.when.Bool(v)
		if err != nil {
			return err
		}
		if yes {
			out.Kind = e.kind
			said++
		}
	}
	ok := a.Status >= 200 && a.Status < 300
	switch {
	case said > 1:
		return fmt.Errorf("more than one of found, absent, failed and progress is true")
	case said == 1:
	case f.items != nil:
		if !ok {
			return fmt.Errorf("status %d is no list", a.Status)
		}
		return f.list(out, v, firstSent)
	case ok && f.found2xx:
		out.Kind = Found
	case a.Status == 404 && f.absent404:
		out.Kind = Absent
	default:
		return fmt.Errorf("the answer shows nothing that was declared")
	}
	switch out.Kind {
	case Found:
		m, err := f.one(a.Body, v)
		out.Matches = []Match{m}
		return err
	case Progress:
		m, err := f.one(a.Body, v)
		out.Reference, out.Result = m.Reference, m.Result
		return err
	case Failed:
		out.Code, out.Message = f.failure.Of(a.Status, v)
	}
	return nil
}

// list matches the items of a list.
func (f *Finder) list(out *Finding, v celexpr.Vars, firstSent time.Time) error {
	r, err := f.items.Eval(v)
	if err != nil {
		return err
	}
	items, err := r.List()
	if err != nil {
		return fmt.Errorf("%s: %w", f.items, err)
	}
	complete := true
	if f.complete != nil {
		if complete, err = f.complete.Bool(v); err != nil {
			return err
		}
	}
	iv := celexpr.Vars{}
	for k, val := range v {
		iv[k] = val
	}
	for _, item := range items {
		iv["item"] = item
		yes, err := f.matches(iv, firstSent)
		if err != nil {
			return err
		}
		if !yes {
			continue
		}
		m, err := f.one(nil, iv)
		if err != nil {
			return err
		}
		out.Matches = append(out.Matches, m)
	}
	out.Evidence["items"], out.Evidence["matches"] = strconv.Itoa(len(items)), strconv.Itoa(len(out.Matches))
	switch {
	case len(out.Matches) > 0:
		out.Kind = Found
	case !complete:
		return fmt.Errorf("no match, but the list is not complete")
	case !f.absent:
		out.Kind = Absent
	}
	return nil
}

func (f *Finder) matches(v celexpr.Vars, firstSent time.Time) (bool, error) {
	yes, err := f.match.Bool(v)
	if err != nil || !yes || f.itemTime == nil {
		return yes, err
	}
	r, err := f.itemTime.Eval(v)
	if err != nil {
		return false, err
	}
	t, err := r.Time()
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.itemTime, err)
	}
	return !t.Before(firstSent.Add(-f.skew)), nil
}

// one reads reference and result; raw is the body, or nil for an item.
func (f *Finder) one(raw []byte, v celexpr.Vars) (Match, error) {
	var m Match
	var err error
	if m.Reference, err = Reference(f.reference, v); err != nil {
		return m, err
	}
	m.Result, err = ResultOf(f.result, raw, v)
	return m, err
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
