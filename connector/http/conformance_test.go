package httpconn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/connector/connectortest"
	httpconn "github.com/justonce-dev/justonce/connector/http"
)

const apiKey = "sk_live_hunter2_hunter2"

var secrets = httpconn.SecretFunc(func(context.Context, string) (string, error) { return apiKey, nil })

// charge declares a payment API.
func charge(addr string) httpconn.Config {
	return httpconn.Config{
		Request: httpconn.Request{
			URL:     "http://" + addr + "/v1/charges/${args.order}",
			Headers: map[string]string{"Authorization": "Bearer ${secret:stripe}"},
		},
		Key:        httpconn.Key{Header: "Idempotency-Key"},
		Capability: justonce.ByKey,
		Answer:     httpconn.Answer{Reference: "body.id"},
	}
}

func must(t testing.TB, c httpconn.Config) justonce.Connector {
	t.Helper()
	k, err := httpconn.New(c, &httpconn.Options{Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.(interface{ Close() error }).Close() })
	return k
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cuts := 0 // every byte
	if testing.Short() {
		cuts = 40
	}
	suite := func(change func(*httpconn.Config), answer, refusal string) connectortest.Suite {
		return connectortest.Suite{
			Accepting: func(t testing.TB) connectortest.Provider { return connectortest.HTTP(t, true, answer) },
			Refusing:  func(t testing.TB) connectortest.Provider { return connectortest.HTTP(t, false, refusal) },
			Connector: func(t testing.TB, addr string) justonce.Connector {
				c := charge(addr)
				change(&c)
				return must(t, c)
			},
			Arguments: json.RawMessage(`{"order":"o-1","amount":1200}`),
			Secrets:   []string{apiKey},
			MaxCuts:   cuts,
		}
	}
	ok := connectortest.JSON(200, `{"id":"ch_1","echo":"`+apiKey+`"}`)
	no := connectortest.JSON(402, `{"error":{"code":"card_declined","message":"Declined. Key `+apiKey+`"}}`)
	for name, s := range map[string]connectortest.Suite{
		"fresh":           suite(func(c *httpconn.Config) { c.Connections = "fresh" }, ok, no),
		"reuse":           suite(func(c *httpconn.Config) {}, ok, no),
		"without a body":  suite(func(c *httpconn.Config) { c.Request.Encoding = "none" }, ok, no),
		"ends at close":   suite(func(c *httpconn.Config) { c.Connections = "fresh" }, unmarked(200, `{"id":"ch_1"}`), unmarked(422, `{"code":"x"}`)),
		"chunked":         suite(func(c *httpconn.Config) {}, chunked(200, `{"id":"ch_1"}`), chunked(422, `{"code":"x"}`)),
		"form and fields": suite(func(c *httpconn.Config) { c.Request.Encoding, c.Key = "form", httpconn.Key{Field: "key"} }, ok, no),
	} {
		if name != "fresh" && s.MaxCuts == 0 {
			s.MaxCuts = 80 // the cuts that matter are the same
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connectortest.Run(t, s)
		})
	}
}

func unmarked(status int, body string) string {
	return "HTTP/1.0 " + map[int]string{200: "200 OK", 422: "422 No"}[status] + "\r\nContent-Type: application/json\r\n\r\n" + body
}

func chunked(status int, body string) string {
	return "HTTP/1.1 " + map[int]string{200: "200 OK", 422: "422 No"}[status] +
		"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + body[:5] + "\r\n" + fmt.Sprintf("%x", len(body)-5) + "\r\n" + body[5:] + "\r\n0\r\n\r\n"
}
