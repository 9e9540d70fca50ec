package mcpconn_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// fakeServer is a small MCP server over standard input and output. It speaks
// revision 2025-11-25, or as "modern" 2026-07-28 alone; as "mute" it answers
// nothing. It tells its control of each method, and does what the name of the
// tool says.
func fakeServer(mode string, in *bufio.Reader) int {
	c := dialControl()
	out := jsonrpc.NewLineWriter(os.Stdout)
	r := jsonrpc.NewLineReader(in, 0)
	var asked []json.RawMessage
	var asker json.RawMessage
	for {
		line, err := r.Read()
		if err != nil {
			return 0
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			panic(err)
		}
		answer := func(format string, a ...any) { _ = out.Write(jsonrpc.Response(m.ID, fmt.Appendf(nil, format, a...))) }
		refuse := func(code int) { _ = out.Write(jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(code, "no", nil))) }
		if m.IsResponse() { // to what "ask" asked
			part := m.Result
			if part == nil {
				part = jsonrpc.Get(m.Error, "code")
			}
			if asked = append(asked, part); len(asked) == 3 {
				all, _ := json.Marshal(asked)
				_ = out.Write(jsonrpc.Response(asker, fmt.Appendf(nil, `{"content":[],"structuredContent":%s}`, all)))
			}
			continue
		}
		tool := jsonrpc.String(m.Params, "name")
		if m.Method == "notifications/cancelled" {
			tool = string(jsonrpc.Get(m.Params, "requestId"))
		}
		c.say("%s", strings.TrimSpace(m.Method+" "+tool))
		modern := jsonrpc.String(m.Params, "_meta", "io.modelcontextprotocol/protocolVersion") == "2026-07-28" &&
			jsonrpc.IsObject(jsonrpc.Get(m.Params, "_meta", "io.modelcontextprotocol/clientCapabilities"))
		switch {
		case mode == "mute":
		case m.IsNotification():
		case m.Method == "initialize" && mode == "mcp":
			answer(`{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`)
		case m.Method == "server/discover" && mode == "modern" && modern:
			answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`)
		case (mode == "modern") != modern:
			refuse(jsonrpc.CodeMethodNotFound)
		case m.Method == "tools/list":
			switch cursor := jsonrpc.Get(m.Params, "cursor"); string(cursor) {
			case "":
				answer(`{"tools":[{"name":"a" }],"nextCursor":"2"}`)
			case `"2"`:
				answer(`{"tools":[{"name":"b"},{"name":"c"}]}`)
			}
		case m.Method != "tools/call":
			refuse(jsonrpc.CodeMethodNotFound)
		case tool == "hang":
			c.hear() // which ends with the test
		case tool == "ignore":
		case tool == "die":
			return 1
		case tool == "error":
			refuse(-32602)
		case tool == "ask":
			asked, asker = nil, m.ID
			for i, method := range []string{"ping", "roots/list", "sampling/createMessage"} {
				_ = out.Write(jsonrpc.Request(fmt.Appendf(nil, `"s%d"`, i), method, nil))
			}
		case tool == "batch": // as revision 2025-03-26 has it
			_ = out.Write(fmt.Appendf(nil, `[{"jsonrpc":"2.0","method":"notifications/message"},{"jsonrpc":"2.0","id":%s,"result":{ "x":1.0}}]`, m.ID))
		default:
			answer(`{"content":[],"structuredContent":%s}`, m.Params)
		}
	}
}
