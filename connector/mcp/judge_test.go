package mcpconn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

// A scripted server gives one reply and keeps what it was asked.
type scripted struct {
	reply mcpconn.Reply
	asked []*mcpconn.ToolCall
}

func (s *scripted) CallTool(_ context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	s.asked = append(s.asked, c)
	return s.reply
}

func attempt(args string) *justonce.Attempt {
	return &justonce.Attempt{Ref: justonce.Ref{Tenant: "t", Key: "op-1"}, Tool: "tickets/open", Scope: "ada", RunID: "run-1",
		Arguments: json.RawMessage(args), WireKey: "0123456789abcdef0123456789abcdef", Number: 2,
		FirstSent: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func sent(t *testing.T, a mcpconn.Answer, r mcpconn.Reply) justonce.Outcome {
	t.Helper()
	c, err := mcpconn.New(mcpconn.Config{Tool: "open", Answer: a}, &scripted{reply: r})
	if err != nil {
		t.Fatal(err)
	}
	return c.Send(context.Background(), attempt(`{"title":"fire"}`))
}

func ok(text string) mcpconn.Reply {
	q, _ := json.Marshal(text)
	return mcpconn.Reply{Result: json.RawMessage(`{ "content":[{"type":"text","text":` + string(q) + `}] }`)}
}

func bad(text string) mcpconn.Reply {
	r := ok(text)
	r.Result = json.RawMessage(strings.TrimSuffix(string(r.Result), " }") + `,"isError":true}`)
	return r
}

func rpcError(code int) mcpconn.Reply {
	return mcpconn.Reply{Error: fmt.Appendf(nil, `{ "code":%d, "message":"says no", "data":1.0}`, code)}
}

func TestWhatAReplyProves(t *testing.T) {
	t.Parallel()
	const succeeded, rejected, unknown, notExecuted, withdrawn, accepted = justonce.OutcomeSucceeded, justonce.OutcomeRejected,
		justonce.OutcomeUnknown, justonce.OutcomeNotExecuted, justonce.OutcomeWithdrawn, justonce.OutcomeAccepted
	status := func(n int) mcpconn.Reply { return mcpconn.Reply{Status: n} }
	with := func(r mcpconn.Reply, status int) mcpconn.Reply { r.Status = status; return r }
	for name, c := range map[string]struct {
		answer mcpconn.Answer
		reply  mcpconn.Reply
		kind   justonce.OutcomeKind
		code   string // of the failure
		keeps  string // the result: "raw", "error", or nothing
		note   bool
	}{
		"ok":                           {reply: ok("done"), kind: succeeded, keeps: "raw"},
		"odd result":                   {reply: mcpconn.Reply{Result: json.RawMessage("null")}, kind: succeeded, keeps: "raw"},
		"isError":                      {reply: bad("no"), kind: succeeded, keeps: "raw", note: true},
		"isError, rejected":            {answer: mcpconn.Answer{IsError: "rejected"}, reply: bad("no"), kind: rejected, code: "tool_error", keeps: "raw"},
		"isError, unknown":             {answer: mcpconn.Answer{IsError: "unknown"}, reply: bad("no"), kind: unknown, code: "tool_error"},
		"ok, errors rejected":          {answer: mcpconn.Answer{IsError: "rejected"}, reply: ok("done"), kind: succeeded, keeps: "raw"},
		"task handle":                  {reply: mcpconn.Reply{Result: json.RawMessage(`{"resultType":"task","task":{"taskId":"7"}}`)}, kind: succeeded, keeps: "raw"},
		"input required":               {reply: mcpconn.Reply{Result: json.RawMessage(`{"resultType":"input_required"}`)}, kind: withdrawn, code: "input_required"},
		"input required, by an error":  {reply: rpcError(-32042), kind: withdrawn, code: "input_required"},
		"lacks capabilities":           {reply: rpcError(-32021), kind: withdrawn, code: "input_required"},
		"parse error":                  {reply: rpcError(-32700), kind: rejected, code: "-32700", keeps: "error"},
		"invalid request":              {reply: rpcError(-32600), kind: rejected, code: "-32600", keeps: "error"},
		"no such method":               {reply: rpcError(-32601), kind: rejected, code: "-32601", keeps: "error"},
		"invalid params":               {reply: with(rpcError(-32602), 400), kind: rejected, code: "-32602", keeps: "error"},
		"invalid params, whatever":     {answer: mcpconn.Answer{Unknown: "result.x"}, reply: rpcError(-32602), kind: rejected, code: "-32602", keeps: "error"},
		"internal error":               {reply: rpcError(-32603), kind: succeeded, keeps: "error", note: true},
		"internal error, rejected":     {answer: mcpconn.Answer{IsError: "rejected"}, reply: rpcError(-32603), kind: rejected, code: "-32603", keeps: "error"},
		"other error, unknown":         {answer: mcpconn.Answer{IsError: "unknown"}, reply: rpcError(7), kind: unknown, code: "7"},
		"an error and 429":             {reply: with(rpcError(7), 429), kind: notExecuted, code: "7"},
		"an error and 401":             {reply: with(rpcError(7), 401), kind: notExecuted, code: "7"},
		"an error and 409":             {reply: with(rpcError(7), 409), kind: succeeded, keeps: "error", note: true},
		"an error and 504":             {reply: with(rpcError(-32603), 504), kind: unknown, code: "-32603"},
		"an error and 504, known":      {answer: mcpconn.Answer{Rejected: "error.code == 7"}, reply: with(rpcError(7), 504), kind: rejected, code: "7", keeps: "error"},
		"nothing":                      {kind: unknown, code: "no_answer"},
		"sent":                         {reply: mcpconn.Reply{Cause: errors.New("cut")}, kind: unknown, code: "no_answer"},
		"sent, time is up":             {reply: mcpconn.Reply{Cause: fmt.Errorf("x: %w", context.DeadlineExceeded)}, kind: unknown, code: "timeout"},
		"unsent":                       {reply: mcpconn.Reply{Cause: context.DeadlineExceeded, Stage: mcpconn.Unsent}, kind: notExecuted, code: "not_sent"},
		"withdrawn":                    {reply: mcpconn.Reply{Stage: mcpconn.Withdrawn, Status: 503}, kind: withdrawn, code: "withdrawn"},
		"200 without an answer":        {reply: status(200), kind: unknown, code: "no_answer"},
		"202":                          {reply: status(202), kind: unknown, code: "no_answer"},
		"302":                          {reply: status(302), kind: unknown, code: "no_answer"},
		"400":                          {reply: status(400), kind: notExecuted, code: "http_400"},
		"408":                          {reply: status(408), kind: unknown, code: "no_answer"},
		"429":                          {reply: status(429), kind: notExecuted, code: "http_429"},
		"500":                          {reply: status(500), kind: unknown, code: "no_answer"},
		"503":                          {reply: status(503), kind: unknown, code: "no_answer"},
		"an expression rejects":        {answer: mcpconn.Answer{Rejected: "text.startsWith('Insufficient')"}, reply: ok("Insufficient funds"), kind: rejected, code: "tool_error", keeps: "raw"},
		"an expression, not true":      {answer: mcpconn.Answer{Rejected: "is_error && text.startsWith('Insufficient')"}, reply: ok("Insufficient funds"), kind: succeeded, keeps: "raw"},
		"an expression, not executed":  {answer: mcpconn.Answer{NotExecuted: "text.contains('rate limit')"}, reply: bad("rate limit"), kind: notExecuted, code: "tool_error"},
		"an expression, unknown":       {answer: mcpconn.Answer{Unknown: "is_error && text.contains('timed out')"}, reply: bad("timed out"), kind: unknown, code: "tool_error"},
		"an expression on an error":    {answer: mcpconn.Answer{Rejected: "error != null && error.code == 7"}, reply: rpcError(7), kind: rejected, code: "7", keeps: "error"},
		"an expression, accepted":      {answer: mcpconn.Answer{Accepted: "json.state == 'queued'", Reference: "json.id"}, reply: ok(`{"state":"queued","id":"j-1"}`), kind: accepted, keeps: "raw"},
		"accepted without a reference": {answer: mcpconn.Answer{Accepted: "json.state == 'queued'", Reference: "json.id"}, reply: ok(`{"state":"queued"}`), kind: unknown, code: "answer_not_understood"},
		"an expression that fails":     {answer: mcpconn.Answer{Rejected: "json.x == 1"}, reply: ok("no JSON"), kind: unknown, code: "answer_not_understood"},
		"two expressions":              {answer: mcpconn.Answer{Rejected: "true", NotExecuted: "true"}, reply: ok(""), kind: unknown, code: "answer_not_understood"},
		"the arguments":                {answer: mcpconn.Answer{Rejected: "text == args.title && arguments.title == 'fire' && key == 'op-1'"}, reply: ok("fire"), kind: rejected, code: "tool_error", keeps: "raw"},
		"structured content":           {answer: mcpconn.Answer{Rejected: "structured.no && result.content.size() == 0"}, reply: mcpconn.Reply{Result: json.RawMessage(`{"content":[],"structuredContent":{"no":true}}`)}, kind: rejected, code: "tool_error", keeps: "raw"},
		"no structured content":        {answer: mcpconn.Answer{Rejected: "structured == null && json == null"}, reply: ok("x"), kind: rejected, code: "tool_error", keeps: "raw"},
	} {
		o := sent(t, c.answer, c.reply)
		if o.Kind != c.kind {
			t.Errorf("%s: got %s, want %s (%+v)", name, o.Kind, c.kind, o.Failure)
		}
		if got := code(o.Failure); got != c.code || (o.Failure != nil && o.Failure.Message == "") {
			t.Errorf("%s: failure %+v, want %s", name, o.Failure, c.code)
		}
		want := map[string]string{"raw": string(c.reply.Result), "error": `{"dev.justonce/error":` + string(c.reply.Error) + `}`}[c.keeps]
		if string(o.Result) != want {
			t.Errorf("%s: result %s, want %s", name, o.Result, want)
		}
		if c.keeps == "error" {
			if d := cmp.Diff(string(c.reply.Error), string(mcpconn.ErrorOf(o.Result))); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		} else if mcpconn.ErrorOf(o.Result) != nil {
			t.Errorf("%s: its result counts as an error", name)
		}
		if (o.Note != "") != c.note {
			t.Errorf("%s: note %q", name, o.Note)
		}
		for _, v := range o.Evidence {
			if strings.Contains(v, "fire") {
				t.Errorf("%s: an argument is in the evidence: %v", name, o.Evidence)
			}
		}
	}
}

func code(f *justonce.Failure) string {
	if f == nil {
		return ""
	}
	return f.Code
}

func TestAReferenceThatIsNotThereIsNoDoubt(t *testing.T) {
	t.Parallel()
	a := mcpconn.Answer{Reference: "json.id"}
	if o := sent(t, a, ok(`{"id":7}`)); o.Reference != "7" || o.Kind != justonce.OutcomeSucceeded {
		t.Errorf("got %+v", o)
	}
	if o := sent(t, a, ok(`done`)); o.Reference != "" || o.Kind != justonce.OutcomeSucceeded || o.Evidence["note"] == "" {
		t.Errorf("got %+v", o)
	}
}

func TestTheCallIsMadeOnceAsItCame(t *testing.T) {
	t.Parallel()
	s := &scripted{reply: mcpconn.Reply{Cause: errors.New("cut"), RetryAfter: 3 * time.Second}}
	c, err := mcpconn.New(mcpconn.Config{Server: "tickets", Tool: "open", Repeat: true, Mode: "observe"}, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{ "n": 1.0 }`, ""} {
		a := attempt(args)
		if o := c.Send(context.Background(), a); o.RetryAfter != 3*time.Second {
			t.Errorf("retry after %s", o.RetryAfter)
		}
		last := s.asked[len(s.asked)-1]
		if last.Attempt != a || last.Name != "open" || args != "" && string(last.Arguments) != args || args == "" && string(last.Arguments) != "{}" {
			t.Errorf("asked %+v", last)
		}
	}
	if len(s.asked) != 2 {
		t.Errorf("%d calls", len(s.asked))
	}
	if _, ok := c.(justonce.Finder); ok {
		t.Error("a connector without a lookup says it can look up")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	lookup := func(l mcpconn.Lookup) mcpconn.Config { return mcpconn.Config{Tool: "open", Lookup: &l} }
	for want, c := range map[string]mcpconn.Config{
		"no name":                {},
		"neither enforce":        {Tool: "x", Mode: "off"},
		"is none of answered":    {Tool: "x", Answer: mcpconn.Answer{IsError: "maybe"}},
		"answer: rejected":       {Tool: "x", Answer: mcpconn.Answer{Rejected: "body.x"}},
		"not true or false":      {Tool: "x", Answer: mcpconn.Answer{Unknown: "'x'"}},
		"lookup: it has no tool": lookup(mcpconn.Lookup{Found: "true"}),
		"repeat the effect":      lookup(mcpconn.Lookup{Tool: "open", Found: "true"}),
		"neither found nor":      lookup(mcpconn.Lookup{Tool: "get"}),
		"items need":             lookup(mcpconn.Lookup{Tool: "get", Items: "json"}),
		"go with items":          lookup(mcpconn.Lookup{Tool: "get", Found: "true", Complete: "true"}),
		"arguments: /id":         lookup(mcpconn.Lookup{Tool: "get", Found: "true", Arguments: map[string]any{"id": "${nothing}"}}),
		"a secret has no place":  lookup(mcpconn.Lookup{Tool: "get", Found: "true", Arguments: map[string]any{"id": "${secret:x}"}}),
	} {
		if _, err := mcpconn.New(c, &scripted{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if _, err := mcpconn.New(mcpconn.Config{Tool: "x"}, nil); err == nil {
		t.Error("a connector without a caller was made")
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	if got := string(mcpconn.TextResult("a < \"b\"", true, map[string]any{"k": 1})); got != `{"content":[{"type":"text","text":"a < \"b\""}],"isError":true,"_meta":{"k":1}}` {
		t.Errorf("got %s", got)
	}
	if got := string(mcpconn.TextResult("", false, nil)); got != `{"content":[{"type":"text","text":""}]}` {
		t.Errorf("got %s", got)
	}
	if got := mcpconn.TextResult("x", false, map[string]any{"k": func() {}}); !json.Valid(got) {
		t.Errorf("got %s", got)
	}
	for in, want := range map[string]bool{`{"resultType":"input_required"}`: true, `{"resultType":"complete"}`: false, `{}`: false, `null`: false, ``: false} {
		if mcpconn.IsInputRequired(json.RawMessage(in)) != want {
			t.Errorf("%s: not %v", in, want)
		}
	}
	for _, in := range []string{`{"dev.justonce/error":7}`, `{"content":[]}`, `[]`, ``} {
		if got := mcpconn.ErrorOf(json.RawMessage(in)); got != nil {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	c, err := mcpconn.New(mcpconn.Config{Server: "s", Tool: "open", Mode: "enforce",
		Answer: mcpconn.Answer{IsError: "rejected", Rejected: "args.a == text", Reference: "json.id"},
		Lookup: &mcpconn.Lookup{Tool: "find", Arguments: map[string]any{"q": "${arguments.?title}", "k": "wire_key"}, Items: "json", Match: "item.k == wire_key", Reference: "item.id"},
	}, &scripted{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	c.(interface {
		References(func(at string, path []string, optional bool))
	}).References(func(at string, path []string, optional bool) {
		s := at + " " + strings.Join(path, ".")
		if optional {
			s += "?"
		}
		got = append(got, s)
	})
	want := []string{"/answer/reference json.id", "/answer/rejected args.a", "/answer/rejected text", "/lookup/arguments/q args.title?",
		"/lookup/items json", "/lookup/match item.k", "/lookup/match wire_key", "/lookup/reference item.id", "/tool args"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
