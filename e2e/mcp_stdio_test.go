package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// errConnectionLost: the server ended before it answered.
var errConnectionLost = errors.New("connection lost before the answer")

// An stdioClient speaks MCP of 2025-11-25 with a process, line by line, and
// keeps what it reads as it came. Its methods may be called at the same time.
type stdioClient struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[string]chan rpcAnswer // by id; nil once the output has ended
	ended   chan struct{}             // closed then
}

type rpcAnswer struct {
	raw    []byte          // the line, without its end
	result json.RawMessage // as it stands there
	failed *rpcFailure
}

type rpcFailure struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (e *rpcFailure) Error() string { return fmt.Sprintf("MCP error %d: %s", e.Code, e.Message) }

// startStdio starts a server, without initialize. It is killed when the test
// ends, and what it wrote to stderr shown if the test failed.
func startStdio(t testing.TB, c command) *stdioClient {
	t.Helper()
	// A file, not a pipe: a server that outlives a killed proxy keeps it open.
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stdioClient{cmd: exec.Command(c.args[0], c.args[1:]...), waiting: map[string]chan rpcAnswer{}, ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), c.env...)
	s.cmd.Stderr = stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read(stdout)
	t.Cleanup(func() {
		s.close()
		stderr.Close()
		if b, _ := os.ReadFile(stderr.Name()); t.Failed() && len(b) > 0 {
			t.Logf("%s wrote:\n%s", filepath.Base(c.args[0]), b[max(0, len(b)-4<<10):])
		}
	})
	return s
}

// read hands answers to those that wait, until the output ends.
func (s *stdioClient) read(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break // a line without its end is no message
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  *rpcFailure
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue // a notification, or no message at all
		}
		switch m.Method {
		case "":
			s.mu.Lock()
			if ch := s.waiting[string(m.ID)]; ch != nil {
				ch <- rpcAnswer{line[:len(line)-1], m.Result, m.Error}
				delete(s.waiting, string(m.ID))
			}
			s.mu.Unlock()
		case "ping":
			s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
		default: // we declared no capabilities
			s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not supported"}}`, m.ID))
		}
	}
	s.mu.Lock()
	s.waiting = nil
	s.mu.Unlock()
	close(s.ended)
}

// send writes one line.
func (s *stdioClient) send(line string) error {
	_, err := io.WriteString(s.stdin, line+"\n")
	return err
}

// request sends a request and waits for its answer: a *rpcFailure, or
// errConnectionLost when the server ended.
func (s *stdioClient) request(ctx context.Context, method, params string) (rpcAnswer, error) {
	s.mu.Lock()
	s.next++
	id := strconv.Itoa(s.next)
	ch := make(chan rpcAnswer, 1)
	alive := s.waiting != nil
	if alive {
		s.waiting[id] = ch
	}
	s.mu.Unlock()
	if !alive || s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)) != nil {
		return rpcAnswer{}, errConnectionLost
	}
	select {
	case <-ctx.Done():
		return rpcAnswer{}, fmt.Errorf("%s: %w", method, ctx.Err())
	case a := <-ch:
		return a, a.err()
	case <-s.ended:
	}
	select { // it may have come just before the end
	case a := <-ch:
		return a, a.err()
	default:
		return rpcAnswer{}, errConnectionLost
	}
}

func (a rpcAnswer) err() error {
	if a.failed != nil {
		return a.failed
	}
	return nil
}

func (s *stdioClient) initialize(ctx context.Context) (rpcAnswer, error) {
	a, err := s.request(ctx, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`)
	if err == nil && s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`) != nil {
		err = errConnectionLost
	}
	return a, err
}

// pages asks for all pages of a list and returns the results as they came.
func (s *stdioClient) pages(ctx context.Context, method string) (results []string, err error) {
	params := `{}`
	for {
		a, err := s.request(ctx, method, params)
		if err != nil {
			return results, err
		}
		results = append(results, string(a.result))
		var page struct{ NextCursor string }
		if err := json.Unmarshal(a.result, &page); err != nil {
			return results, err
		}
		if page.NextCursor == "" {
			return results, nil
		}
		params = fmt.Sprintf(`{"cursor":%q}`, page.NextCursor)
	}
}

func (s *stdioClient) callTool(ctx context.Context, tool, arguments string) (*toolResult, error) {
	a, err := s.request(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return nil, err
	}
	r := &toolResult{raw: a.result}
	return r, json.Unmarshal(a.result, r)
}

type toolResult struct {
	IsError bool
	Content []struct{ Type, Text string }
	Meta    struct {
		Key      string `json:"dev.justonce/key"`
		State    string `json:"dev.justonce/state"`
		Replayed bool   `json:"dev.justonce/replayed"`
	} `json:"_meta"`
	raw json.RawMessage
}

// kill is SIGKILL. It waits for this process, not for those it started.
func (s *stdioClient) kill() {
	s.cmd.Process.Kill()
	<-s.ended
	s.cmd.Wait()
}

// close ends the input and waits for the process to end, which it does by itself
// or is killed for.
func (s *stdioClient) close() {
	s.stdin.Close()
	limit := time.AfterFunc(10*time.Second, func() { s.cmd.Process.Kill() })
	defer limit.Stop()
	<-s.ended
	s.cmd.Wait()
}
