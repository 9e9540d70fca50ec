package mcpproxy_test

import (
	"fmt"
	"net/http"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/mcpproxy"
)

// Clients of https://mcp.example.com/mcp come to /mcp/mail instead.
func ExampleServer_Handler() {
	runner, err := justonce.New(inmem.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := mcpproxy.New(runner, &mcpproxy.Options{Name: "mail"})
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := server.Handler(&mcpproxy.HTTPOptions{URL: "https://mcp.example.com/mcp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()

	mux := http.NewServeMux()
	mux.Handle("/mcp/mail", http.StripPrefix("/mcp/mail", h))
	mux.Handle("/mcp/mail/", http.StripPrefix("/mcp/mail", h))
	mux.Handle("/.well-known/oauth-protected-resource/mcp/mail", h.WellKnown())

	var c mcpproxy.Connections
	srv := &http.Server{Addr: "127.0.0.1:7411", Handler: mux, ConnContext: c.ConnContext, ConnState: c.ConnState}
	fmt.Println(srv.Addr) // and then net.Listen and srv.Serve(c.Listener(ln))
	// Output: 127.0.0.1:7411
}
