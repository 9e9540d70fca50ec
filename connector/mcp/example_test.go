package mcpconn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

// tracker is a server whose answer to one call got lost.
type tracker struct{}

func (tracker) CallTool(_ context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
	if c.Name == "open_ticket" {
		return mcpconn.Reply{Cause: errors.New("the connection was cut")}
	}
	return mcpconn.Reply{Result: json.RawMessage(`{"content":[{"type":"text","text":"[{\"id\":\"T-17\",\"title\":\"Printer on fire\"}]"}]}`)}
}

// A ticket system whose tickets can be searched for. A *Session or an *Endpoint
// stands where tracker does.
func ExampleNew() {
	c, err := mcpconn.New(mcpconn.Config{
		Tool: "open_ticket",
		Lookup: &mcpconn.Lookup{
			Tool:      "search_tickets",
			Arguments: map[string]any{"query": "${args.title}"},
			Items:     "json",
			Match:     "item.title == args.title",
			Reference: "item.id",
		},
	}, tracker{})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := &justonce.Attempt{Arguments: json.RawMessage(`{"title":"Printer on fire"}`)}
	fmt.Println(c.Send(context.Background(), a).Kind)
	found := c.(justonce.Finder).Lookup(context.Background(), a)
	fmt.Println(found.Matches[0].Reference)
	// Output:
	// unknown
	// T-17
}
