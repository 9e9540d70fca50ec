package mcpconn_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/connector/connectortest"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// provider is an MCP server over single connections, each cut off after one
// answer, so that every byte of a tools/call can be the last.
func provider(t testing.TB, modern, streams, accepts bool) connectortest.Provider {
	return connectortest.Serve(t, func(c net.Conn, effect func()) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		f := &fakeEndpoint{modern: modern, session: "session-1"}
		f.call = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
			result := []byte(`{"content":[],"echo":"` + r.Header.Get("Authorization") + `"}`)
			message := jsonrpc.Response(m.ID, result)
			if accepts {
				effect()
			} else {
				message = jsonrpc.ErrorResponse(m.ID, jsonrpc.ErrorObject(jsonrpc.CodeInvalidParams, "no", nil))
			}
			if streams {
				stream(w)("data: " + string(message))
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(message)
		}
		rec := httptest.NewRecorder()
		f.ServeHTTP(rec, r)
		resp := rec.Result()
		resp.Close = true
		if streams && jsonrpc.String(rec.Body.Bytes(), "jsonrpc") == "" {
			resp.ContentLength = -1 // ends with the connection
		} else {
			resp.ContentLength = int64(rec.Body.Len())
		}
		_ = resp.Write(c)
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	const key = "sk_live_hunter2_hunter2"
	for _, modern := range []bool{false, true} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("modern %v, streams %v", modern, streams), func(t *testing.T) {
				t.Parallel()
				suite := connectortest.Suite{
					Accepting: func(t testing.TB) connectortest.Provider { return provider(t, modern, streams, true) },
					Refusing:  func(t testing.TB) connectortest.Provider { return provider(t, modern, streams, false) },
					Connector: func(t testing.TB, addr string) justonce.Connector {
						o := &mcpconn.EndpointOptions{URL: "http://" + addr + "/mcp", Header: func(context.Context) (http.Header, error) {
							return http.Header{"Authorization": {"Bearer " + key}}, nil
						}}
						if modern {
							o.Revision = mcpconn.Revision2026
						}
						e, err := mcpconn.NewEndpoint(o)
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(e.Close)
						// Greet, so that what is broken meets the call; in silence it may.
						ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
						defer cancel()
						_, _ = e.ListTools(ctx)
						c, err := mcpconn.New(mcpconn.Config{Tool: "echo"}, e)
						if err != nil {
							t.Fatal(err)
						}
						return c
					},
					Arguments: json.RawMessage(`{"order":"o-1"}`),
					Secrets:   []string{key},
				}
				if testing.Short() {
					suite.MaxCuts = 40
				}
				connectortest.Run(t, suite)
			})
		}
	}
}
