package mcpproxy

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// paramHeaders are the arguments that tools want repeated in headers, as the
// server's lists of tools declared them. They are checked since what reads only
// headers, and a server that reads only lines, would otherwise see different
// calls.
type paramHeaders struct {
	mu sync.Mutex
	m  map[string][]paramHeader // by tool
}

type paramHeader struct {
	header string
	path   []string
}

// learn reads the answer to a tools/list.
func (p *paramHeaders) learn(result json.RawMessage) {
	for _, t := range jsonrpc.Elements(jsonrpc.Get(result, "tools")) {
		found := declaredHeaders(jsonrpc.Get(t, "inputSchema"), nil)
		name := jsonrpc.String(t, "name")
		p.mu.Lock()
		if p.m == nil {
			p.m = map[string][]paramHeader{}
		}
		if delete(p.m, name); len(found) > 0 && len(p.m) < maxTools {
			p.m[name] = found
		}
		p.mu.Unlock()
	}
}

// maxDepth bounds how deep a schema is looked into.
const maxDepth = 16

func declaredHeaders(schema json.RawMessage, path []string) []paramHeader {
	var list []paramHeader
	jsonrpc.Members(jsonrpc.Get(schema, "properties"), func(name string, v json.RawMessage) bool {
		at := append(path[:len(path):len(path)], name)
		if h := jsonrpc.String(v, "x-mcp-header"); h != "" {
			list = append(list, paramHeader{headerParam + h, at})
		}
		if len(at) < maxDepth {
			list = append(list, declaredHeaders(v, at)...)
		}
		return true
	})
	return list
}

// contradiction returns in what the headers of a call are not its arguments, or
// "".
func (p *paramHeaders) contradiction(h http.Header, m *jsonrpc.Message) string {
	p.mu.Lock()
	list := p.m[jsonrpc.String(m.Params, "name")]
	p.mu.Unlock()
	args := jsonrpc.Get(m.Params, "arguments")
	for _, d := range list {
		values, arg := h.Values(d.header), jsonrpc.Get(args, d.path...)
		absent := arg == nil || string(arg) == "null"
		switch {
		case absent && len(values) > 0:
			return "header mismatch: there is " + d.header + ", but no such argument; nothing was sent"
		case !absent && len(values) == 0:
			return "header mismatch: " + d.header + " is missing; nothing was sent"
		case !absent && (len(values) > 1 || !sameParam(values[0], arg)):
			return "header mismatch: " + d.header + " is not the argument in the body; nothing was sent"
		}
	}
	return ""
}

// sameParam reports whether a header's value stands for an argument.
func sameParam(v string, arg json.RawMessage) bool {
	if strings.HasPrefix(v, encodedStart) && strings.HasSuffix(v, encodedEnd) && len(v) >= len(encodedStart)+len(encodedEnd) {
		b, err := base64.StdEncoding.Strict().DecodeString(v[len(encodedStart) : len(v)-len(encodedEnd)])
		if err != nil {
			return false
		}
		v = string(b)
	}
	switch arg[0] {
	case '"':
		var s string
		return json.Unmarshal(arg, &s) == nil && s == v
	case '{', '[':
		return false
	case 't', 'f':
		return v == string(arg)
	}
	if v == string(arg) {
		return true
	}
	x, err := strconv.ParseFloat(v, 64)
	y, err2 := strconv.ParseFloat(string(arg), 64)
	// Integers that floats do not tell apart are compared as text, above.
	return err == nil && err2 == nil && x == y && max(x, -x) < 1<<53
}
