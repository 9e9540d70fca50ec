package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveExample starts a gateway with one of the documented examples.
func serveExample(t *testing.T, example string, env ...string) (*process, string) {
	t.Helper()
	addr := address(t)
	p := &process{t: t, env: env, ready: "http://" + addr + "/readyz",
		args: []string{binary, "serve", "--config", "../examples/" + example, "--store", filepath.Join(t.TempDir(), "justonce.db"), "--listen", addr}}
	p.run()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("justonce wrote:\n%s", p.tail())
		}
	})
	return p, "http://" + addr
}

func post(t testing.TB, url, body string) *view {
	t.Helper()
	return mustRequest(t, http.MethodPost, url, body)
}

func callTool(t testing.TB, gateway, key, tool, arguments string) *view {
	t.Helper()
	return mustRequest(t, http.MethodPost, gateway+"/v1/tool-calls",
		fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), "Idempotency-Key", key, "Prefer", "wait=50")
}

// stripe-stateful-mock behind toxiproxy, which lets the charge through and cuts
// the answer: one charge, counted there.
func TestCounterpart_StripeAnswerCut(t *testing.T) {
	mock, toxiproxy := program(t, "JUSTONCE_STRIPE_STATEFUL_MOCK"), program(t, "JUSTONCE_TOXIPROXY")
	t.Parallel()
	stripe, cut, api := address(t), address(t), address(t)
	_, port, _ := net.SplitHostPort(stripe)
	m := &process{t: t, args: []string{mock}, env: []string{"PORT=" + port}}
	m.run()
	t.Cleanup(m.kill)
	const key = "sk_test_1234567890"
	charges := func() (n int) {
		req, err := http.NewRequest(http.MethodGet, "http://"+stripe+"/v1/charges?limit=100", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return -1
		}
		defer res.Body.Close()
		var list struct{ Data []json.RawMessage }
		if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		return len(list.Data)
	}
	await(t, 30*time.Second, "stripe-stateful-mock", func() bool { return charges() >= 0 })
	apiHost, apiPort, _ := net.SplitHostPort(api)
	start(t, "http://"+api+"/version", toxiproxy, "-host", apiHost, "-port", apiPort)
	post(t, "http://"+api+"/proxies", fmt.Sprintf(`{"name":"stripe","listen":%q,"upstream":%q,"enabled":true}`, cut, stripe))
	toxic := func() {
		v := post(t, "http://"+api+"/proxies/stripe/toxics", `{"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":10}}`)
		if v.Status != http.StatusOK {
			t.Fatalf("toxiproxy: %d %s", v.Status, v.raw)
		}
	}
	heal := func() { mustRequest(t, http.MethodDelete, "http://"+api+"/proxies/stripe/toxics/cut", "") }

	g, gateway := serveExample(t, "stripe.yaml", "STRIPE_URL=http://"+cut, "STRIPE_KEY="+key)
	for i := range 5 {
		args := fmt.Sprintf(`{"order_id":"o-%d","amount":9900,"currency":"eur","source":"tok_visa"}`, i)
		toxic()
		// The gateway's calls come back once the connection is healed, which
		// happens after the charge was made.
		var wg sync.WaitGroup
		var v *view
		if i < 4 {
			wg.Go(func() { v = callTool(t, gateway, fmt.Sprintf("key-%d", i), "charge", args) })
		} else {
			go request(t.Context(), http.MethodPost, gateway+"/v1/tool-calls", fmt.Sprintf(`{"name":"charge","arguments":%s}`, args), "Idempotency-Key", "key-4")
		}
		await(t, 30*time.Second, "the charge", func() bool { return charges() == i+1 })
		if i == 4 { // and once more with the process killed
			g.kill()
			heal()
			g.run()
			v = mustRequest(t, http.MethodGet, gateway+"/v1/tool-calls/key-4?wait=60s", "")
		} else {
			await(t, 30*time.Second, "the answer to be cut", func() bool {
				h := mustRequest(t, http.MethodGet, fmt.Sprintf("%s/v1/tool-calls/key-%d/history", gateway, i), "")
				return strings.Contains(string(h.raw), `"outcome":"unknown"`)
			})
			heal()
			wg.Wait()
		}
		if v.State != "succeeded" || v.Attempts < 2 || !strings.HasPrefix(v.Reference, "ch_") {
			t.Errorf("charge %d: %s", i, v.raw)
		}
		if again := callTool(t, gateway, "another-"+fmt.Sprint(i), "charge", args); !again.Replayed || again.Reference != v.Reference {
			t.Errorf("again under another key: %s", again.raw)
		}
		if n := charges(); n != i+1 {
			t.Errorf("%d charges after %d orders", n, i+1)
		}
	}
	declined := callTool(t, gateway, "declined", "charge", `{"order_id":"o-9","amount":9900,"currency":"eur","source":"tok_chargeDeclined"}`)
	if declined.State != "failed" || declined.Reason != "rejected" || declined.Advice.Code != "fix_arguments" {
		t.Errorf("a declined card: %s", declined.raw)
	}
}

// mailpit starts Mailpit and returns how to count mails by subject.
func mailpit(t *testing.T) (smtp, web string, count func(subject string) int) {
	t.Helper()
	exe := program(t, "JUSTONCE_MAILPIT")
	smtp, web = address(t), address(t)
	start(t, "http://"+web+"/readyz", exe, "--database", filepath.Join(t.TempDir(), "mail.db"), "-s", smtp, "-l", web,
		"--disable-version-check", "--max", "0", // or it forgets all but the last 500
		"--enable-chaos", "--smtp-auth-accept-any", "--smtp-auth-allow-insecure")
	return smtp, web, func(subject string) int {
		v := mustRequest(t, http.MethodGet, "http://"+web+"/api/v1/search?query="+url.QueryEscape(`subject:"`+subject+`"`), "")
		var found struct {
			Count int `json:"messages_count"`
		}
		if err := json.Unmarshal(v.raw, &found); err != nil {
			t.Fatal(err)
		}
		return found.Count
	}
}

func mail(i int) (subject, arguments string) {
	subject = fmt.Sprintf("receipt-%d", i)
	return subject, fmt.Sprintf(`{"reference":"r-%d","to":"ann@example.com","subject":%q,"text":"thank you"}`, i, subject)
}

// Mailpit over SMTP with the reply to the mail lost: found by its Message-ID,
// one mail.
func TestCounterpart_MailpitReplyLost(t *testing.T) {
	t.Parallel()
	smtp, web, count := mailpit(t)
	lossy := newLossyRelay(t, smtp)
	_, gateway := serveExample(t, "mailpit.yaml", "SMTP_ADDR="+lossy.addr, "MAILPIT_URL=http://"+web)
	for i := range 3 {
		subject, args := mail(i)
		lossy.loseAfterData()
		v := callTool(t, gateway, subject, "send_mail", args)
		if v.State != "succeeded" || v.Attempts != 1 {
			t.Errorf("mail %d: %s", i, v.raw)
		}
		if v := callTool(t, gateway, subject, "send_mail", args); !v.Replayed {
			t.Errorf("again: %s", v.raw)
		}
		if n := count(subject); n != 1 {
			t.Errorf("%d mails %q, want 1", n, subject)
		}
	}
	if lossy.lost() != 3 {
		t.Errorf("%d replies were lost, want 3", lossy.lost())
	}
}

// Mailpit refusing recipients at random (4xx, its chaos): tried again, one mail.
func TestCounterpart_MailpitChaos(t *testing.T) {
	t.Parallel()
	smtp, web, count := mailpit(t)
	_, gateway := serveExample(t, "mailpit.yaml", "SMTP_ADDR="+smtp, "MAILPIT_URL=http://"+web)
	chaos := func(probability int) {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, "http://"+web+"/api/v1/chaos",
			bytes.NewReader(fmt.Appendf(nil, `{"Recipient":{"ErrorCode":451,"Probability":%d},"Sender":{"ErrorCode":451,"Probability":%d}}`, probability, probability)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("chaos: %s", res.Status)
		}
	}
	chaos(25)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			subject, args := mail(i)
			v := callTool(t, gateway, subject, "send_mail", args)
			n := count(subject)
			if v.State == "succeeded" && n != 1 || v.State == "failed" && n != 0 || n > 1 {
				t.Errorf("%s with %d mails: %s", v.State, n, v.raw)
			}
			if v.State != "succeeded" && v.Reason != "exhausted" {
				t.Errorf("mail %d: %s", i, v.raw)
			}
		})
	}
	wg.Wait()
}
