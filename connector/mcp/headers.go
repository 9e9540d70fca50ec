package mcpconn

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// headerValue returns a value as revision 2026-07-28 has it in a header field:
// as it is, or in base64 where it would not arrive unchanged.
func headerValue(s string) string {
	plain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?")
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// paramHeaders knows which arguments a server wants repeated in header fields:
// those whose schema has x-mcp-header. It asks for the tools once.
type paramHeaders struct {
	mu    sync.Mutex
	known map[string][]paramHeader // by tool; nil: not asked yet
}

type paramHeader struct {
	path   []string
	header string
}

func (p *paramHeaders) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
}

// of returns the header fields of a call.
func (p *paramHeaders) of(ctx context.Context, s speaker, d dialect, c *ToolCall) (http.Header, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known == nil {
		tools, err := listTools(ctx, s, d)
		if err != nil {
			return nil, err
		}
		known = map[string][]paramHeader{}
		for _, t := range tools {
			if list := annotated(nil, jsonrpc.Get(t, "inputSchema"), nil); list != nil {
				known[jsonrpc.String(t, "name")] = list
			}
		}
		p.mu.Lock()
		p.known = known
		p.mu.Unlock()
	}
	h := http.Header{}
	for _, b := range known[c.Name] {
		if s, ok := primitive(jsonrpc.Get(c.Arguments, b.path...)); ok {
			h.Set("Mcp-Param-"+b.header, headerValue(s))
		}
	}
	return h, nil
}

func annotated(list []paramHeader, schema json.RawMessage, path []string) []paramHeader {
	if len(path) > 20 {
		return list
	}
	jsonrpc.Members(jsonrpc.Get(schema, "properties"), func(name string, of json.RawMessage) bool {
		at := append(path[:len(path):len(path)], name)
		if h := jsonrpc.String(of, "x-mcp-header"); h != "" {
			list = append(list, paramHeader{at, h})
		}
		list = annotated(list, of, at)
		return true
	})
	return list
}

// primitive returns the text of a string, a boolean or an integer.
func primitive(v json.RawMessage) (string, bool) {
	switch {
	case len(v) == 0 || string(v) == "null" || v[0] == '{' || v[0] == '[':
		return "", false
	case v[0] == '"':
		var s string
		err := json.Unmarshal(v, &s)
		return s, err == nil
	}
	return string(v), !bytes.ContainsAny(v, ".eE") || v[0] == 't' || v[0] == 'f'
}
