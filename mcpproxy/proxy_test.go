package mcpproxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// An upstream is an MCP server in this process that can die, hang and count.
type upstream struct {
	mu     sync.Mutex
	ran    map[string]int // executions by tool
	lines  []string       // what it received
	starts int

	// on is what a tool does. Nil: it answers with its own name and count. An
	// answer of nil is none.
	on func(p *peer, m *jsonrpc.Message, n int) []byte
}

type peer struct {
	u      *upstream
	handle func([]byte)
	in     chan []byte
	done   chan struct{}
	once   sync.Once
	err    error
}

func (u *upstream) start(handle func([]byte)) (mcpproxy.Peer, error) {
	u.mu.Lock()
	u.starts++
	u.mu.Unlock()
	p := &peer{u: u, handle: handle, in: make(chan []byte, 2000), done: make(chan struct{})}
	go p.run()
	return p, nil
}

func (p *peer) run() {
	for {
		select {
		case line := <-p.in:
			p.serve(line)
		case <-p.done:
			return
		}
	}
}

func (p *peer) serve(line []byte) {
	m, err := jsonrpc.Parse(line)
	u := p.u
	u.mu.Lock()
	u.lines = append(u.lines, string(line))
	on := u.on
	u.mu.Unlock()
	if err != nil || !m.IsRequest() {
		return
	}
	switch m.Method {
	case "initialize":
		p.handle(jsonrpc.Response(m.ID, json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}}`)))
		return
	case "tools/list":
		p.handle([]byte(`{"jsonrpc":"2.0", "id":` + string(m.ID) + `,"result":{"tools":[ {"name":"send","inputSchema":{"type":"object"},"x":1.50} ]}}`))
		return
	case "tools/call":
	default:
		p.handle([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `, "result" : {"echo":` + string(line) + `}}`))
		return
	}
	tool := jsonrpc.String(m.Params, "name")
	u.mu.Lock()
	u.ran[tool]++
	n := u.ran[tool]
	u.mu.Unlock()
	if on == nil {
		p.handle(jsonrpc.Response(m.ID, text(fmt.Sprintf("%s %d", tool, n))))
	} else if b := on(p, m, n); b != nil {
		p.handle(b)
	}
}

func (p *peer) die(why string) {
	p.once.Do(func() {
		p.err = errors.New(why)
		close(p.done)
	})
}

func (p *peer) Write(line []byte) error {
	select {
	case <-p.done:
		return fmt.Errorf("%w: it has ended", mcpconn.ErrNotSent)
	case p.in <- append([]byte(nil), line...):
		return nil
	}
}
func (p *peer) Done() <-chan struct{} { return p.done }
func (p *peer) Err() error            { return p.err }
func (p *peer) Close()                { p.die("closed") }

func (u *upstream) count(tool string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ran[tool]
}

func text(s string) json.RawMessage {
	b, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}})
	return b
}

// A session is a client of a proxy over pipes, as a host process has them.
type session struct {
	t    testing.TB
	in   *os.File
	out  *bufio.Reader
	pipe *os.File
	wait func() error

	id    int
	early map[string]*jsonrpc.Message
}

type setup struct {
	store  justonce.Store
	runner *justonce.Runner
	tools  []*justonce.Tool
	server *mcpproxy.Server
	up     *upstream
}

// set makes a proxy ready for sessions.
func set(t testing.TB, up *upstream, o mcpproxy.Options, tools func(late *lateCaller) []*justonce.Tool) *setup {
	t.Helper()
	return setOn(t, inmem.New(nil), up, o, tools)
}

// lateCaller is a Caller that is known after the connectors that use it.
type lateCaller struct{ c mcpconn.Caller }

func (l *lateCaller) CallTool(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	return l.c.CallTool(ctx, c)
}

// open starts a session and shakes hands.
func (s *setup) open(t testing.TB) *session {
	t.Helper()
	return openWith(t, s.server, s.up.start)
}

func openWith(t testing.TB, server *mcpproxy.Server, start func(func([]byte)) (mcpproxy.Peer, error)) *session {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		err := server.ServeStdio(context.Background(), &mcpproxy.StdioOptions{In: inR, Out: outW, Start: start, Linger: 5 * time.Second})
		inR.Close()
		outW.Close()
		result <- err
	}()
	c := &session{t: t, in: inW, out: bufio.NewReaderSize(outR, 1<<20), pipe: outR, early: map[string]*jsonrpc.Message{}}
	var once sync.Once
	c.wait = func() error {
		var err error
		once.Do(func() {
			inW.Close()
			err = <-result
			outR.Close()
		})
		return err
	}
	t.Cleanup(func() { c.wait() })
	r := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if r.Result == nil {
		t.Fatalf("initialize: %s", r.Raw)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *session) send(line string) {
	c.t.Helper()
	if _, err := c.in.WriteString(line + "\n"); err != nil {
		c.t.Fatal(err)
	}
}

// start sends a request and returns its id.
func (c *session) start(method, params string) string {
	c.t.Helper()
	c.id++
	id := fmt.Sprint(c.id)
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return id
}

// line reads the next message.
func (c *session) line() *jsonrpc.Message {
	c.t.Helper()
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("reading: %v", err)
	}
	m, err := jsonrpc.Parse(line[:len(line)-1])
	if err != nil {
		c.t.Fatalf("%v in %s", err, line)
	}
	return m
}

// result waits for the answer to id.
func (c *session) result(id string) *jsonrpc.Message {
	c.t.Helper()
	for {
		if m := c.early[id]; m != nil {
			delete(c.early, id)
			return m
		}
		m := c.line()
		c.early[m.IDKey()] = m
	}
}

func (c *session) request(method, params string) *jsonrpc.Message {
	c.t.Helper()
	return c.result(c.start(method, params))
}

func (c *session) call(tool, args string) *jsonrpc.Message {
	c.t.Helper()
	return c.request("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
}

// words returns the text blocks of an answer.
func words(m *jsonrpc.Message) string {
	var list []string
	for _, e := range jsonrpc.Elements(jsonrpc.Get(m.Result, "content")) {
		list = append(list, jsonrpc.String(e, "text"))
	}
	return strings.Join(list, "\n")
}

func state(m *jsonrpc.Message) string { return jsonrpc.String(m.Result, "_meta", "dev.justonce/state") }

func isError(m *jsonrpc.Message) bool { return string(jsonrpc.Get(m.Result, "isError")) == "true" }

func replayed(m *jsonrpc.Message) bool {
	return string(jsonrpc.Get(m.Result, "_meta", "dev.justonce/replayed")) == "true"
}
