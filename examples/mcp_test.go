package examples_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

// An mcpServer answers calls of its tools.
type mcpServer func(tool string, arguments string) (result string)

func (f mcpServer) CallTool(_ context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	return mcpconn.Reply{Result: json.RawMessage(f(c.Name, string(c.Arguments)))}
}

// mcpTools makes connectors that call a server's tools.
func mcpTools(server mcpServer) catalog.Connect {
	return func(s *catalog.Spec) (justonce.Connector, error) {
		var c mcpconn.Config
		if err := s.Decode(&c); err != nil {
			return nil, err
		}
		c.Server, c.Tool, _ = strings.Cut(s.Tool, "/")
		return mcpconn.New(c, server)
	}
}

// The example's expressions say what they should of what such a server answers.
func TestExpenseReportsAreLookedUp(t *testing.T) {
	t.Parallel()
	answer := ""
	o := options(nil)
	o.Connectors["mcp"] = mcpTools(func(tool, arguments string) string {
		if d := cmp.Diff([]string{"get_expense_report", `{"report_number":"R-7"}`}, []string{tool, arguments}); d != "" {
			t.Error(d)
		}
		return answer
	})
	c, err := catalog.Load("mcp.yaml", o)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := c.Tools()
	if err != nil {
		t.Fatal(err)
	}
	finder := tools[0].Connector.(justonce.Finder)
	for result, want := range map[string]justonce.FindingKind{
		`{"content":[],"structuredContent":{"id":"er_1","report_number":"R-7"}}`: justonce.FindingFound,
		`{"content":[],"structuredContent":{"id":"er_2","report_number":"R-8"}}`: justonce.FindingNoAnswer,
		`{"content":[{"type":"text","text":"no such report"}],"isError":true}`:   justonce.FindingAbsent,
		`{"content":[{"type":"text","text":"try again later"}],"isError":true}`:  justonce.FindingNoAnswer,
	} {
		answer = result
		f := finder.Lookup(t.Context(), &justonce.Attempt{Tool: tools[0].Name, Arguments: json.RawMessage(`{"report_number":"R-7","employee":"ann","total":12.5}`)})
		if f.Kind != want || want == justonce.FindingFound && f.Matches[0].Reference != "er_1" {
			t.Errorf("%s: %+v, want %v", result, f, want)
		}
	}
}
