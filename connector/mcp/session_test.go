package mcpconn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A rig is a session with a fake server.
type rig struct {
	*mcpconn.Session
	t      *testing.T
	accept func() *control

	mu  sync.Mutex
	now time.Time
}

func newRig(t *testing.T, mode string, change func(*mcpconn.SessionOptions)) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	env, accept := controlled(t, mode)
	r.accept = accept
	o := &mcpconn.SessionOptions{Process: mcpconn.ProcessOptions{Command: os.Args[:1], Env: env}, Now: r.time}
	if change != nil {
		change(o)
	}
	r.Session = mcpconn.NewSession(o)
	t.Cleanup(r.Close)
	return r
}

func (r *rig) time() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// expect reads what the server reports.
func expect(t *testing.T, c *control, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := c.hear(); got != w {
			t.Fatalf("the server reports %q, want %q", got, w)
		}
	}
}

// greeted are the reports of a server that was just started.
func greeted(more ...string) []string {
	return append([]string{"initialize", "notifications/initialized"}, more...)
}

func lookup(name string) *mcpconn.ToolCall {
	return &mcpconn.ToolCall{Name: name, Arguments: json.RawMessage(`{"n": 1.0}`)}
}

func effect(name string) *mcpconn.ToolCall {
	c := lookup(name)
	c.Attempt = attempt(string(c.Arguments))
	return c
}

func TestSession(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, "mcp", nil)
	got := r.CallTool(ctx, effect("echo"))
	params := jsonrpc.Get(got.Result, "structuredContent")
	if want := `{"name":"echo","arguments":{"n": 1.0},"_meta":{"dev.justonce/attempt":2,"dev.justonce/key":"op-1"}}`; string(params) != want {
		t.Errorf("got %s (%v), want %s", params, got.Cause, want)
	}
	expect(t, r.accept(), greeted("tools/call echo")...)
	params = jsonrpc.Get(r.CallTool(ctx, lookup("echo")).Result, "structuredContent")
	if want := `{"name":"echo","arguments":{"n": 1.0}}`; string(params) != want {
		t.Errorf("got %s, want %s", params, want)
	}
	if got := r.CallTool(ctx, effect("error")); string(got.Error) != `{"code":-32602,"message":"no"}` || got.Result != nil {
		t.Errorf("got %+v", got)
	}
	asked := jsonrpc.Get(r.CallTool(ctx, effect("ask")).Result, "structuredContent")
	if want := `[{},{"roots":[]},-32601]`; string(asked) != want {
		t.Errorf("the server got %s, want %s", asked, want)
	}
	if got := r.CallTool(ctx, effect("batch")); string(got.Result) != `{ "x":1.0}` {
		t.Errorf("got %+v", got)
	}
	tools, err := r.ListTools(ctx)
	if d := cmp.Diff([]string{`{"name":"a" }`, `{"name":"b"}`, `{"name":"c"}`}, texts(tools)); d != "" || err != nil {
		t.Error(err, d)
	}
}

func texts(list []json.RawMessage) (out []string) {
	for _, m := range list {
		out = append(out, string(m))
	}
	return out
}

func TestSessionWithAServerThatKnowsNoHandshake(t *testing.T) {
	t.Parallel()
	for first, reports := range map[string][]string{
		"":                   {"initialize", "server/discover", "tools/call echo"},
		mcpconn.Revision2026: {"server/discover", "tools/call echo"},
	} {
		r := newRig(t, "modern", func(o *mcpconn.SessionOptions) { o.Revision = first })
		got := r.CallTool(context.Background(), effect("echo"))
		meta := jsonrpc.Get(got.Result, "structuredContent", "_meta")
		if jsonrpc.String(meta, "io.modelcontextprotocol/clientInfo", "name") != "justonce" || jsonrpc.String(meta, "dev.justonce/key") != "op-1" {
			t.Errorf("_meta is %s (%v)", meta, got.Cause)
		}
		expect(t, r.accept(), reports...)
		if tools, err := r.ListTools(context.Background()); len(tools) != 3 || err != nil {
			t.Errorf("%d tools, %v", len(tools), err)
		}
	}
}

func TestADeadServerLeavesCallsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t, "mcp", nil)
	if got := r.CallTool(context.Background(), effect("die")); got.Stage != mcpconn.Sent || got.Cause == nil || got.Answered() {
		t.Errorf("got %+v", got)
	}
}

func TestAKilledServerLeavesCallsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t, "mcp", nil)
	reply := make(chan mcpconn.Reply)
	go func() { reply <- r.CallTool(context.Background(), effect("hang")) }()
	c := r.accept()
	expect(t, c, greeted("tools/call hang")...)
	kill(t, c.pid)
	if got := <-reply; got.Stage != mcpconn.Sent || got.Cause == nil || got.Answered() {
		t.Errorf("got %+v", got)
	}
}

func TestWhatWasNotWrittenIsUnsent(t *testing.T) {
	t.Parallel()
	r := newRig(t, "mcp", nil)
	hang := make(chan mcpconn.Reply)
	go func() { hang <- r.CallTool(context.Background(), effect("hang")) }()
	c := r.accept()
	expect(t, c, greeted("tools/call hang")...)
	// The server reads no more: sooner or later a call stays behind others.
	unsent := ""
	for n := range 50 {
		call := effect(fmt.Sprint("call", n))
		call.Arguments = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		got := r.CallTool(ctx, call)
		cancel()
		if got.Answered() {
			t.Fatalf("got %+v", got)
		}
		if got.Stage == mcpconn.Unsent {
			unsent = "tools/call " + call.Name
			break
		}
	}
	if unsent == "" {
		t.Fatal("the pipe takes everything")
	}
	c.say("go on")
	if got := r.CallTool(context.Background(), effect("echo")); !got.Answered() {
		t.Errorf("got %+v", got)
	}
	for line := ""; line != "tools/call echo"; {
		if line = c.hear(); line == unsent || line == "" {
			t.Fatalf("the server got %q", line)
		}
	}
	r.Close()
	<-hang
}

func TestWhenTimeIsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, "mcp", nil)
	call := func(c *mcpconn.ToolCall, reported string, control *control) *control {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan mcpconn.Reply)
		go func() { done <- r.CallTool(ctx, c) }()
		if control == nil {
			control = r.accept()
			expect(t, control, greeted()...)
		}
		expect(t, control, reported)
		cancel()
		if got := <-done; got.Stage != mcpconn.Sent || !errors.Is(got.Cause, context.Canceled) {
			t.Errorf("got %+v", got)
		}
		return control
	}
	c := call(effect("ignore"), "tools/call ignore", nil)
	call(lookup("ignore"), "tools/call ignore", c)
	r.CallTool(context.Background(), effect("echo"))
	// Only the lookup, whose id is 3, was cancelled.
	expect(t, c, "notifications/cancelled 3", "tools/call echo")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := r.CallTool(ctx, effect("echo")); got.Stage != mcpconn.Unsent {
		t.Errorf("a call that was late from the start: %+v", got)
	}
}

func TestAServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRig(t, "mcp", nil)
	for range 3 { // at once after a call was answered
		if got := r.CallTool(ctx, effect("echo")); !got.Answered() {
			t.Fatalf("got %+v", got)
		}
		r.CallTool(ctx, effect("die"))
	}
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		r.CallTool(ctx, effect("die"))
		got := r.CallTool(ctx, effect("echo"))
		if got.Stage != mcpconn.Unsent || got.RetryAfter != wait || !strings.Contains(got.Cause.Error(), "not started again before") {
			t.Fatalf("after %s: %+v", wait, got)
		}
		r.advance(wait)
	}
	if got := r.CallTool(ctx, effect("echo")); !got.Answered() {
		t.Fatalf("got %+v", got)
	}
}

func TestAServerThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	s := mcpconn.NewSession(&mcpconn.SessionOptions{Process: mcpconn.ProcessOptions{Command: []string{"justonce-no-such-program"}}})
	defer s.Close()
	for range 3 {
		if got := s.CallTool(context.Background(), effect("echo")); got.Stage != mcpconn.Unsent || !strings.Contains(got.Cause.Error(), "no such program") {
			t.Errorf("got %+v", got)
		}
	}
}

func TestAServerThatNeverGetsReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, "mute", func(o *mcpconn.SessionOptions) { o.Handshake = 50 * time.Millisecond })
	if got := r.CallTool(context.Background(), effect("echo")); got.Stage != mcpconn.Unsent || got.Cause == nil {
		t.Errorf("got %+v", got)
	}
	c := r.accept()
	expect(t, c, "initialize")
	if c.lines.Scan() { // blocks for as long as the child lives
		t.Error("it still speaks")
	}
}

func TestClosingASession(t *testing.T) {
	t.Parallel()
	r := newRig(t, "mcp", nil)
	replies := make(chan mcpconn.Reply)
	go func() { replies <- r.CallTool(context.Background(), effect("ignore")) }()
	expect(t, r.accept(), greeted("tools/call ignore")...)
	r.Close()
	r.Close()
	if got := <-replies; got.Stage != mcpconn.Sent || got.Cause == nil {
		t.Errorf("got %+v", got)
	}
	if got := r.CallTool(context.Background(), effect("echo")); got.Stage != mcpconn.Unsent {
		t.Errorf("got %+v", got)
	}
	if _, err := r.ListTools(context.Background()); err == nil {
		t.Error("tools were listed")
	}
}
