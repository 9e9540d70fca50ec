package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/canon"
)

// callRequest writes a call.
func (c *Client) callRequest(ctx context.Context, path string, call *justonce.Call) (*request, error) {
	if err := checkTenant(call.Tenant); err != nil {
		return nil, err
	}
	key, run := call.Key, call.RunID
	if key == "" {
		key = justonce.InheritedKey(ctx)
	}
	if run == "" {
		run = justonce.InheritedRun(ctx)
	}
	o := object{[]byte("{")}
	o.str("name", call.Tool)
	if len(call.Arguments) > 0 {
		// What is not one JSON value would turn into members beside it.
		if err := canon.Valid(call.Arguments, nil); err != nil {
			e := &justonce.InvalidError{Field: "arguments", Detail: err.Error()}
			if s := (*canon.SyntaxError)(nil); errors.As(err, &s) {
				e.TooLarge = s.Kind == canon.KindSize
			}
			return nil, e
		}
		o.raw("arguments", call.Arguments)
	}
	o.strIf("scope", call.Scope)
	o.strIf("run_id", run)
	if call.IntentSeq != 0 {
		o.int("intent_seq", int64(call.IntentSeq))
	}
	req := post(path, append(o.b, '}'))
	if key != "" {
		if err := justonce.CheckKey(key); err != nil {
			return nil, err
		}
		req.header.Set("Idempotency-Key", quoteKey(key))
		req.repeatable = true
	}
	if p := traceParent([]string{call.TraceParent}); p != "" {
		req.header.Set("Traceparent", p)
	}
	return req, nil
}

// Explain tells which operation a call means, and why, without running or
// recording anything.
func (c *Client) Explain(ctx context.Context, call justonce.Call) (*justonce.Explanation, error) {
	req, err := c.callRequest(ctx, "/v1/explain", &call)
	if err != nil {
		return nil, err
	}
	req.repeatable = true
	return fetch[justonce.Explanation](c, ctx, req)
}

// List implements [justonce.Service].
func (c *Client) List(ctx context.Context, f justonce.Filter) (*justonce.Page, error) {
	if err := checkTenant(f.Tenant); err != nil {
		return nil, err
	}
	if f.Identity != "" {
		return nil, &justonce.InvalidError{Field: "identity", Detail: "the gateway does not select by it"}
	}
	q := url.Values{}
	set := func(name, v string) {
		if v != "" {
			q.Set(name, v)
		}
	}
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	set("tool", f.Tool)
	set("scope", f.Scope)
	set("run_id", f.RunID)
	set("reference", f.Reference)
	set("cursor", f.Cursor)
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if !f.Until.IsZero() {
		q.Set("until", f.Until.UTC().Format(time.RFC3339Nano))
	}
	if f.Limit != 0 {
		q.Set("limit", itoa(f.Limit))
	}
	p, err := fetch[wirePage](c, ctx, get("/v1/tool-calls", q))
	if err != nil {
		return nil, err
	}
	page := &justonce.Page{Next: p.Next}
	for i := range p.Operations {
		page.Operations = append(page.Operations, p.Operations[i].operation())
	}
	return page, nil
}

// History implements [justonce.Service].
func (c *Client) History(ctx context.Context, ref justonce.Ref) ([]justonce.Entry, error) {
	if err := check(ref); err != nil {
		return nil, err
	}
	h, err := fetch[wireHistory](c, ctx, get(location(ref.Key)+"/history", nil))
	if err != nil {
		return nil, err
	}
	return h.Entries, nil
}

// Decide implements [justonce.Service].
func (c *Client) Decide(ctx context.Context, ref justonce.Ref, d justonce.Decision) (*justonce.Answer, error) {
	if err := check(ref); err != nil {
		return nil, err
	}
	path := location(ref.Key)
	o := object{[]byte("{")}
	if d.Verdict == justonce.Redrive {
		path += "/redrive"
	} else {
		path += "/resolve"
		o.str("verdict", string(d.Verdict))
	}
	o.str("actor", d.Actor)
	o.str("reason", d.Reason)
	o.strIf("reference", d.Reference)
	if len(d.Result) > 0 {
		if !json.Valid(d.Result) {
			return nil, &justonce.InvalidError{Field: "result", Detail: "it must be JSON"}
		}
		o.raw("result", d.Result)
	}
	body, err := c.send(ctx, post(path, append(o.b, '}')))
	if err != nil {
		return nil, err
	}
	return decodeAnswer(body)
}

// Tools implements [justonce.Service].
func (c *Client) Tools(ctx context.Context) ([]justonce.ToolInfo, error) {
	t, err := fetch[wireTools](c, ctx, get("/v1/tools", nil))
	if err != nil {
		return nil, err
	}
	return t.Tools, nil
}

func fetch[T any](c *Client, ctx context.Context, req *request) (*T, error) {
	body, err := c.send(ctx, req)
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return nil, malformed(err)
	}
	return v, nil
}

// decodeAnswer reads an answer, the recorded JSON byte for byte.
func decodeAnswer(body []byte) (*justonce.Answer, error) {
	w := new(wireAnswer)
	if err := json.Unmarshal(body, w); err != nil {
		return nil, malformed(err)
	}
	if !w.State.Valid() {
		return nil, malformed(errState)
	}
	// encoding/json leaves out the white space around a value.
	for name, raw := range members(body) {
		switch name {
		case "result":
			w.Result = raw
		case "progress":
			w.Progress = raw
		}
	}
	return &justonce.Answer{Operation: w.operation(), Replayed: w.Replayed, Joined: w.Joined, MatchedBy: w.MatchedBy}, nil
}
