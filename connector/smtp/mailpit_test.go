package smtpconn_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
	"github.com/justonce-dev/justonce/internal/faultconn"
)

// mailpit starts a real mail server and returns its SMTP and HTTP addresses.
func mailpit(t *testing.T) (smtp, web string) {
	t.Helper()
	program := os.Getenv("JUSTONCE_MAILPIT")
	if program == "" {
		var err error
		if program, err = exec.LookPath("mailpit"); err != nil {
			t.Skip("mailpit is neither in PATH nor named by JUSTONCE_MAILPIT: go install github.com/axllent/mailpit@v1.33.1")
		}
	}
	smtp, web = free(t), free(t)
	cmd := exec.Command(program, "--database", filepath.Join(t.TempDir(), "mail.db"), "-s", smtp, "-l", web,
		"--disable-version-check", "--smtp-auth-accept-any", "--smtp-auth-allow-insecure", "--enable-chaos")
	logs, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = logs.Close()
	})
	ready := 0
	lines := bufio.NewScanner(logs)
	for ready < 2 && lines.Scan() {
		if strings.Contains(lines.Text(), "[smtpd] starting") || strings.Contains(lines.Text(), "accessible via") {
			ready++
		}
	}
	if ready < 2 {
		t.Fatal("mailpit did not start")
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	for _, addr := range []string{smtp, web} { // it logs just before it listens
		await(t, addr)
	}
	return smtp, web
}

func await(t *testing.T, addr string) {
	t.Helper()
	for range 10_000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return
		}
	}
	t.Fatalf("nobody listens at %s", addr)
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// search declares Mailpit's search as the lookup.
func search(web string) *smtpconn.Lookup {
	return &smtpconn.Lookup{
		Request: smtpconn.Request{URL: "http://" + web + "/api/v1/search",
			Query: map[string]string{"query": "message-id:${message_id}"}},
		Items:     "body.messages",
		Match:     "item.MessageID == message_id",
		ItemTime:  "item.Created",
		Reference: "item.MessageID",
		Result:    `{"message_id": item.MessageID, "subject": item.Subject}`,
	}
}

func mailTo(n int) *justonce.Attempt {
	a := attempt(`{"to":"ada@example.com","subject":"hello","text":"hi"}`)
	a.WireKey = fmt.Sprintf("%032x", n)
	return a
}

func TestMailpitLostReply(t *testing.T) {
	t.Parallel()
	smtp, web := mailpit(t)
	p, err := faultconn.Listen(smtp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	k := must(t, smtpconn.Config{Addr: p.Addr(), TLS: smtpconn.TLSNone, Lookup: search(web)}, nil)
	ctx := context.Background()

	// One whole session tells how long the replies are; the one to the dot is
	// among the last 130 bytes.
	if o := k.Send(ctx, mailTo(1)); o.Kind != justonce.OutcomeSucceeded {
		t.Fatalf("undisturbed: %+v", o)
	}
	p.Drain()
	whole := p.Passed(faultconn.Down)
	lost := 0
	for i := range 65 {
		a, after := mailTo(2+i), whole-130+2*int64(i)
		p.Set(faultconn.Fault{Action: faultconn.Reset, Direction: faultconn.Down, After: after})
		o := k.Send(ctx, a)
		p.Drain()
		f := k.(justonce.Finder).Lookup(ctx, a)
		if o.Kind == justonce.OutcomeUnknown && f.Kind == justonce.FindingFound {
			lost++
		}
		switch {
		case f.Kind == justonce.FindingNoAnswer:
			t.Errorf("cut after %d: the lookup got no answer: %v", after, f.Evidence)
		case o.Kind == justonce.OutcomeSucceeded && f.Kind != justonce.FindingFound,
			o.Kind == justonce.OutcomeNotExecuted && f.Kind != justonce.FindingAbsent:
			t.Errorf("cut after %d: outcome %s, but the lookup shows %v", after, o.Kind, f.Kind)
		case f.Kind == justonce.FindingFound && (len(f.Matches) != 1 || f.Matches[0].Reference != fmt.Sprintf("%032x@example.com", 2+i)):
			t.Errorf("cut after %d: found %+v", after, f.Matches)
		}
	}
	if lost == 0 {
		t.Error("no cut lost the reply to a mail that was delivered")
	}
	t.Logf("%d mails were delivered without a reply, and found", lost)
}

func TestMailpitChaos(t *testing.T) {
	t.Parallel()
	smtp, web := mailpit(t)
	k := must(t, smtpconn.Config{Addr: smtp, TLS: smtpconn.TLSNone, Lookup: search(web),
		Auth: &smtpconn.Auth{Username: "u", Password: "${secret:p}"}}, nil)
	n := 100
	for _, c := range []struct {
		stage string
		code  int
		want  justonce.OutcomeKind
	}{
		{"Authentication", 535, justonce.OutcomeNotExecuted},
		{"Sender", 451, justonce.OutcomeNotExecuted},
		{"Sender", 550, justonce.OutcomeRejected},
		{"Recipient", 451, justonce.OutcomeNotExecuted},
		{"Recipient", 550, justonce.OutcomeRejected},
		{"", 0, justonce.OutcomeSucceeded},
	} {
		setChaos(t, web, c.stage, c.code)
		n++
		a := mailTo(n)
		o := k.Send(context.Background(), a)
		if o.Kind != c.want {
			t.Errorf("%s %d: outcome %s, want %s (%v)", c.stage, c.code, o.Kind, c.want, o.Evidence)
		}
		want := justonce.FindingAbsent
		if c.want == justonce.OutcomeSucceeded {
			want = justonce.FindingFound
		}
		if f := k.(justonce.Finder).Lookup(context.Background(), a); f.Kind != want {
			t.Errorf("%s %d: the lookup shows %v, want %v (%v)", c.stage, c.code, f.Kind, want, f.Evidence)
		}
	}
}

func setChaos(t *testing.T, web, stage string, code int) {
	t.Helper()
	body := map[string]any{}
	if stage != "" {
		body[stage] = map[string]int{"ErrorCode": code, "Probability": 100}
	}
	b, _ := json.Marshal(body)
	req, _ := http.NewRequest(http.MethodPut, "http://"+web+"/api/v1/chaos", bytes.NewReader(b))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("chaos: %s", resp.Status)
	}
}
