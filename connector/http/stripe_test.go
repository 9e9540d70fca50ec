package httpconn_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	httpconn "github.com/justonce-dev/justonce/connector/http"
	"github.com/justonce-dev/justonce/internal/faultconn"
)

// TestStripeMock loses replies of somebody else's payment server, which honours
// idempotency keys, and counts the charges there.
func TestStripeMock(t *testing.T) {
	t.Parallel()
	base := os.Getenv("JUSTONCE_STRIPE_MOCK")
	if base == "" {
		t.Skip("JUSTONCE_STRIPE_MOCK is not set: npm i stripe-stateful-mock@0.0.16, PORT=18000 npx stripe-stateful-mock, JUSTONCE_STRIPE_MOCK=http://127.0.0.1:18000")
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	p, err := faultconn.Listen(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	k, err := httpconn.New(httpconn.Config{
		Request: httpconn.Request{URL: "http://" + p.Addr() + "/v1/charges", Encoding: "form",
			Basic: &httpconn.Basic{Username: "${secret:stripe}", Password: ""},
			Body: map[string]any{"amount": "${args.amount}", "currency": "usd", "source": "${args.source}",
				"metadata": map[string]any{"order": "${args.order}"}}},
		Key:        httpconn.Key{Header: "Idempotency-Key"},
		Capability: justonce.ByKey,
		// A proxy's fault is for connections made after it was set.
		Connections: "fresh",
		Answer:      httpconn.Answer{Reference: "body.id"},
	}, &httpconn.Options{Secrets: httpconn.SecretFunc(func(context.Context, string) (string, error) { return "sk_test_abcdefgh", nil })})
	if err != nil {
		t.Fatal(err)
	}
	order := func() (*justonce.Attempt, string) {
		b := make([]byte, 16)
		_, _ = rand.Read(b)
		name := hex.EncodeToString(b)
		a := attempt(`{"amount":1200,"source":"tok_visa","order":"` + name + `"}`)
		a.WireKey = name
		return a, name
	}
	ctx := context.Background()

	lost, name := order()
	p.Set(faultconn.Fault{Action: faultconn.Reset, Direction: faultconn.Down, After: 10})
	if o := k.Send(ctx, lost); o.Kind != unknown {
		t.Fatalf("a lost reply: %s (%v)", o.Kind, o.Evidence)
	}
	p.Set(faultconn.Fault{})
	o := k.Send(ctx, lost)
	if o.Kind != ok || o.Reference == "" || o.Evidence["idempotent-replayed"] != "true" {
		t.Errorf("the same key again: %+v", o)
	}
	if n := charges(t, base, name); n != 1 {
		t.Errorf("%d charges at the provider, want 1", n)
	}

	declined, name := order()
	declined.Arguments = json.RawMessage(`{"amount":1200,"source":"tok_chargeDeclined","order":"` + name + `"}`)
	p.Set(faultconn.Fault{Action: faultconn.Reset, Direction: faultconn.Down, After: 10})
	if o := k.Send(ctx, declined); o.Kind != unknown {
		t.Errorf("a lost refusal: %s (%v)", o.Kind, o.Evidence)
	}
	p.Set(faultconn.Fault{})
	o = k.Send(ctx, declined)
	if o.Kind != rejected || !o.Conclusive || o.Failure.Code != "card_declined" {
		t.Errorf("the stored refusal: %s, conclusive %t, %+v (%v)", o.Kind, o.Conclusive, o.Failure, o.Evidence)
	}
}

// charges counts the paid charges of an order.
func charges(t *testing.T, base, order string) int {
	t.Helper()
	req, _ := http.NewRequest("GET", base+"/v1/charges?limit=100", nil)
	req.SetBasicAuth("sk_test_abcdefgh", "")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			Paid     bool
			Metadata map[string]string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range list.Data {
		if c.Paid && c.Metadata["order"] == order {
			n++
		}
	}
	return n
}
