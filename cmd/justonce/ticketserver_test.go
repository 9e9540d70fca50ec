package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// rpcCmd greets an MCP server over HTTP, sends it a request, and compares the
// answer with a regular expression.
func rpcCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: rpc URL METHOD PARAMS REGEXP")
	}
	session := ""
	send := func(method, params string) []byte {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
		req, err := http.NewRequest("POST", args[0], strings.NewReader(body))
		ts.Check(err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := http.DefaultClient.Do(req)
		ts.Check(err)
		defer resp.Body.Close()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		b, err := io.ReadAll(resp.Body)
		ts.Check(err)
		return fmt.Appendf(nil, "%d %s", resp.StatusCode, b)
	}
	answer := send("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"script","version":"1"}}`)
	if session != "" {
		answer = send(args[1], args[2])
	}
	ts.Logf("%s", answer)
	if regexp.MustCompile(args[3]).Match(answer) == neg {
		ts.Fatalf("%s answered %s", args[0], answer)
	}
}

// ticketServer is an MCP server over standard input and output. Tickets are
// lines of the file tickets, which it keeps. If there is a file lose, it takes it
// away and dies over the next ticket, after making it.
func ticketServer() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Name            string
				Arguments       struct{ Case, Title string }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		answer := func(format string, a ...any) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, fmt.Sprintf(format, a...))
		}
		text := func(format string, a ...any) {
			b, _ := json.Marshal(fmt.Sprintf(format, a...))
			answer(`{"content":[{"type":"text","text":%s}]}`, b)
		}
		tickets, _ := os.ReadFile("tickets")
		switch name := m.Params.Name; {
		case m.Method == "initialize":
			answer(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"tickets","version":"1"}}`, m.Params.ProtocolVersion)
		case m.Method == "tools/list":
			answer(`{"tools":[{"name":"create","inputSchema":{"type":"object"}},{"name":"find","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`)
		case name == "create":
			f, err := os.OpenFile("tickets", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(f, "%s %s\n", m.Params.Arguments.Case, m.Params.Arguments.Title)
			if os.Remove("lose") == nil {
				os.Exit(1)
			}
			text("ticket %d", strings.Count(string(tickets), "\n")+1)
		case name == "find":
			text(`{"total":%d}`, strings.Count(string(tickets), m.Params.Arguments.Case+" "))
		default:
			answer(`{}`)
		}
	}
}
