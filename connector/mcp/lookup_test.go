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

// looked carries out a lookup against one reply; it returns the question too.
func looked(t *testing.T, l mcpconn.Lookup, r mcpconn.Reply) (justonce.Finding, string) {
	t.Helper()
	s := &scripted{reply: r}
	l.Tool = "find"
	c, err := mcpconn.New(mcpconn.Config{Tool: "open", Lookup: &l}, s)
	if err != nil {
		t.Fatal(err)
	}
	a := attempt(`{"amount":5,"to":"ada"}`)
	a.UnknownAt, a.Reference = a.FirstSent.Add(time.Second), "job-1"
	f := c.(justonce.Finder).Lookup(context.Background(), a)
	if len(s.asked) != 1 || s.asked[0].Name != "find" || s.asked[0].Attempt != nil {
		t.Fatalf("asked %+v", s.asked)
	}
	return f, string(s.asked[0].Arguments)
}

func TestLookupOfOne(t *testing.T) {
	t.Parallel()
	l := mcpconn.Lookup{Arguments: map[string]any{"key": "${wire_key}", "to": "${arguments.to}", "n": 7, "note": "${args.?note}", "job": "is ${reference}"},
		Found: "!is_error && json.state == 'done'", Absent: "is_error && text.contains('not found')",
		Failed: "!is_error && json.state == 'failed'", Progress: "!is_error && json.state == 'working'", Reference: "json.id"}
	for name, c := range map[string]struct {
		reply mcpconn.Reply
		kind  justonce.FindingKind
	}{
		"found":          {ok(`{"state":"done","id":"t1"}`), justonce.FindingFound},
		"absent":         {bad(`ticket not found`), justonce.FindingAbsent},
		"failed":         {ok(`{"state":"failed"}`), justonce.FindingFailed},
		"progress":       {ok(`{"state":"working","id":"t1"}`), justonce.FindingProgress},
		"no id":          {ok(`{"state":"done"}`), justonce.FindingNoAnswer},
		"other state":    {ok(`{"state":"odd"}`), justonce.FindingNoAnswer},
		"no JSON":        {ok(`done`), justonce.FindingNoAnswer},
		"isError":        {bad(`overloaded`), justonce.FindingNoAnswer},
		"an error":       {rpcError(-32603), justonce.FindingNoAnswer},
		"input required": {mcpconn.Reply{Result: json.RawMessage(`{"resultType":"input_required","content":[{"type":"text","text":"{\"state\":\"done\",\"id\":1}"}]}`)}, justonce.FindingNoAnswer},
		"no answer":      {mcpconn.Reply{Cause: errors.New("cut")}, justonce.FindingNoAnswer},
		"a status":       {mcpconn.Reply{Status: 404}, justonce.FindingNoAnswer},
	} {
		c.reply.RetryAfter = 3 * time.Second
		f, asked := looked(t, l, c.reply)
		if f.Kind != c.kind || f.RetryAfter != 3*time.Second || len(f.Evidence) == 0 {
			t.Errorf("%s: got %+v", name, f)
		}
		if want := `{"job":"is job-1","key":"0123456789abcdef0123456789abcdef","n":7,"to":"ada"}`; asked != want {
			t.Errorf("%s: asked %s, want %s", name, asked, want)
		}
		switch {
		case c.kind == justonce.FindingFound && (len(f.Matches) != 1 || f.Matches[0].Reference != "t1"),
			c.kind == justonce.FindingFailed && code(f.Failure) != "tool_error",
			c.kind == justonce.FindingProgress && (f.Reference != "t1" || f.Result == nil),
			c.kind != justonce.FindingFound && f.Matches != nil:
			t.Errorf("%s: got %+v", name, f)
		}
	}
}

func TestLookupInAList(t *testing.T) {
	t.Parallel()
	l := mcpconn.Lookup{Items: "json.data", Match: "item.amount == args.amount && item.?to.orValue('') == args.to",
		ItemTime: "item.at", Reference: "item.id", Complete: "!json.more"}
	const late, early = `"2026-01-02T03:04:06Z"`, `"2026-01-02T03:02:04Z"` // first sent at 03:04:05, two minutes of skew
	item := func(id string, amount int, at string) string {
		return fmt.Sprintf(`{"id":%q,"amount":%d,"to":"ada","at":%s}`, id, amount, at)
	}
	list := func(more bool, items ...string) string {
		return fmt.Sprintf(`{"more":%t,"data":[%s]}`, more, strings.Join(items, ","))
	}
	for name, c := range map[string]struct {
		reply mcpconn.Reply
		kind  justonce.FindingKind
		ids   string
	}{
		"one":                {ok(list(false, item("a", 4, late), item("b", 5, late))), justonce.FindingFound, "b"},
		"two":                {ok(list(false, item("a", 5, late), item("b", 5, late))), justonce.FindingFound, "a b"},
		"too early":          {ok(list(false, item("a", 5, early))), justonce.FindingAbsent, ""},
		"none":               {ok(list(false)), justonce.FindingAbsent, ""},
		"none, more to come": {ok(list(true, item("a", 4, late))), justonce.FindingNoAnswer, ""},
		"one, more to come":  {ok(list(true, item("a", 5, late))), justonce.FindingFound, "a"},
		"no list":            {ok(`{"more":false,"data":{}}`), justonce.FindingNoAnswer, ""},
		"an error":           {bad(list(false)), justonce.FindingNoAnswer, ""},
		"a JSON-RPC error":   {rpcError(1), justonce.FindingNoAnswer, ""},
	} {
		f, asked := looked(t, l, c.reply)
		var ids []string
		for _, m := range f.Matches {
			ids = append(ids, m.Reference)
		}
		if got := strings.Join(ids, " "); f.Kind != c.kind || got != c.ids {
			t.Errorf("%s: got %v %q (%v), want %v %q", name, f.Kind, got, f.Evidence, c.kind, c.ids)
		}
		if asked != "{}" {
			t.Errorf("%s: asked %s", name, asked)
		}
	}
}

func TestWhatIsFoundIsACallToolResult(t *testing.T) {
	t.Parallel()
	const mark = `"_meta":{"dev.justonce/recovered":true}`
	structured := mcpconn.Reply{Result: json.RawMessage(`{ "content":[], "structuredContent":{"id":1.0}, "_meta":{"a":1}, "isError":true }`)}
	for name, c := range map[string]struct {
		lookup mcpconn.Lookup
		reply  mcpconn.Reply
		want   string
	}{
		"the answer":        {mcpconn.Lookup{Found: "true"}, ok("x"), `{ "content":[{"type":"text","text":"x"}] ,` + mark + `}`},
		"the answer's own":  {mcpconn.Lookup{Found: "true"}, structured, `{ "content":[], "structuredContent":{"id":1.0}, "_meta":{"a":1,"dev.justonce/recovered":true} }`},
		"an object":         {mcpconn.Lookup{Found: "true", Result: "json"}, ok(`{"id":7}`), `{"content":[{"type":"text","text":"{\"id\":7}"}],"structuredContent":{"id":7},` + mark + `}`},
		"text":              {mcpconn.Lookup{Found: "true", Result: "text"}, ok(`x "y"`), `{"content":[{"type":"text","text":"x \"y\""}],` + mark + `}`},
		"a list":            {mcpconn.Lookup{Found: "true", Result: "json"}, ok(`[1]`), `{"content":[{"type":"text","text":"[1]"}],` + mark + `}`},
		"an item":           {mcpconn.Lookup{Items: "json", Match: "true", Reference: "item.id"}, ok(`[{"id":7}]`), `{"content":[{"type":"text","text":"{\"id\":7}"}],"structuredContent":{"id":7},` + mark + `}`},
		"an item, a result": {mcpconn.Lookup{Items: "json", Match: "true", Reference: "item", Result: "{'content': [{'type':'text','text':item}]}"}, ok(`["x"]`), `{"content":[{"text":"x","type":"text"}],` + mark + `}`},
	} {
		f, _ := looked(t, c.lookup, c.reply)
		if len(f.Matches) != 1 {
			t.Errorf("%s: %+v", name, f)
			continue
		}
		if d := cmp.Diff(c.want, string(f.Matches[0].Result)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestALookupThatCannotBeBuiltIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := &scripted{reply: ok("x")}
	c, err := mcpconn.New(mcpconn.Config{Tool: "open", Lookup: &mcpconn.Lookup{Tool: "find", Found: "true", Arguments: map[string]any{"id": "${args.id}"}}}, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{}`, `{`} {
		if f := c.(justonce.Finder).Lookup(context.Background(), attempt(args)); f.Kind != justonce.FindingNoAnswer || len(f.Evidence) == 0 {
			t.Errorf("%s: %+v", args, f)
		}
	}
	if len(s.asked) != 0 {
		t.Errorf("asked %+v", s.asked)
	}
}

func TestALookupThatSaysTwoThingsIsNoAnswer(t *testing.T) {
	t.Parallel()
	l := mcpconn.Lookup{Found: "text != ''", Absent: "text.contains('not found')"}
	if f, _ := looked(t, l, ok("not found")); f.Kind != justonce.FindingNoAnswer || f.Matches != nil || f.Evidence["note"] == "" {
		t.Errorf("got %+v", f)
	}
}
