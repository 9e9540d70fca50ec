package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/justonce-dev/justonce/sandbox"
)

type demoCmd struct {
	Keep bool `help:"Keep the ledger and say where it is."`
}

func (*demoCmd) Help() string {
	return `Everything is real: a provider that counts its effects, a gateway in a process of
its own, connections that are cut, and a kill -9. It takes about five seconds and
leaves nothing behind.

Examples:
  justonce demo
  justonce demo --json | jq .chapters`
}

// demo tells the story and counts.
type demo struct {
	*output
	provider *sandbox.Provider
	sandbox  string // its URL
	ledger   string
	gateway  string // its URL
	child    *exec.Cmd
	logs     bytes.Buffer
	facts    []map[string]any
}

func (c *demoCmd) Run(ctx context.Context, o *output) error {
	dir, err := os.MkdirTemp("", "justonce-demo-")
	if err != nil {
		return err
	}
	if !c.Keep {
		defer os.RemoveAll(dir)
	}
	d := &demo{output: o, ledger: filepath.Join(dir, "justonce.db")}
	if d.provider, err = sandbox.New(nil); err != nil {
		return err
	}
	defer d.provider.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: d.provider}
	go srv.Serve(ln)
	defer srv.Close()
	d.sandbox = "http://" + ln.Addr().String()

	began := time.Now()
	err = d.tell(ctx)
	d.stopGateway()
	switch {
	case err != nil && ctx.Err() != nil: // interrupted
		return ctx.Err()
	case err != nil:
		return hint(err, "the gateway's log:\n%s", d.logs.String())
	}
	if o.json {
		return o.object(map[string]any{"chapters": d.facts, "seconds": time.Since(began).Seconds()})
	}
	d.printf("\n%s\n", d.paint(dim, fmt.Sprintf("took %.1fs; now try it yourself: justonce serve", time.Since(began).Seconds())))
	if c.Keep {
		d.printf("the ledger: %s\n", d.ledger)
	}
	return nil
}

func (d *demo) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{d.without, d.with, d.killed} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) title(text string) {
	if !d.json {
		d.printf("\n%s\n", d.paint(bold, text))
	}
}

func (d *demo) line(what, came string) {
	if !d.json {
		d.printf("  %s %s\n", pad(what, 44), d.paint(dim, "→ ")+came)
	}
}

// verdict prints what the provider counted.
func (d *demo) verdict(name, service string, want int, bad string) error {
	n := d.provider.Count(service)
	d.facts = append(d.facts, map[string]any{"chapter": name, "effects": n})
	if !d.json {
		text := d.paint(green, fmt.Sprintf("effects at the provider: %d", n))
		if bad != "" {
			text = d.paint(red, fmt.Sprintf("effects at the provider: %d  %s", n, bad))
		}
		d.printf("  %s\n", text)
	}
	if n != want {
		return fmt.Errorf("the provider counted %d effects where %d were to be expected", n, want)
	}
	return d.provider.Reset()
}

const payment = `{"order_id":"123","amount":9900,"currency":"CNY"}`

// without is what a retry does to a provider whose answer got lost.
func (d *demo) without(ctx context.Context) error {
	d.title("1. Without justonce: the answer is lost, the agent tries again")
	if err := d.provider.Inject(sandbox.Fault{Service: sandbox.Payment, Kind: sandbox.LostReply}); err != nil {
		return err
	}
	for range 2 {
		came := ""
		status, body, err := post(ctx, d.sandbox+"/payments", "", payment)
		switch {
		case err != nil:
			came = "connection closed: did it work?"
		case status != http.StatusCreated:
			return fmt.Errorf("the sandbox answered %d: %s", status, body)
		default:
			came = "201 " + member(body, "id")
		}
		d.line("POST /payments  order 123, 99.00 CNY", came)
	}
	return d.verdict("without", sandbox.Payment, 2, "(the customer paid twice)")
}

// with is the same through the gateway.
func (d *demo) with(ctx context.Context) error {
	d.title("2. With justonce: the same lost answer, the same retry")
	if err := d.startGateway(ctx); err != nil {
		return err
	}
	if err := d.provider.Inject(sandbox.Fault{Service: sandbox.Payment, Kind: sandbox.LostReply}); err != nil {
		return err
	}
	for _, try := range []struct{ what, arguments string }{
		{"POST /v1/tool-calls  order 123, 99.00 CNY", payment},
		{"POST /v1/tool-calls  order 123, 99.00 CNY", payment},
		{"POST /v1/tool-calls  order 123, 199.00 CNY", `{"order_id":"123","amount":19900,"currency":"CNY"}`},
	} {
		status, body, err := d.call(ctx, "payment", "shop-1:order-123:pay-v1", try.arguments)
		if err != nil {
			return err
		}
		came := fmt.Sprintf("%d ", status)
		var v struct {
			State     string
			Reference string
			Attempts  int
			Replayed  bool
			Paths     []string
		}
		if err := json.Unmarshal(body, &v); err != nil {
			return err
		}
		switch {
		case status == http.StatusConflict:
			came += fmt.Sprintf("refused, it differs in %s", strings.Join(v.Paths, ", "))
		case v.Replayed:
			came += fmt.Sprintf("%s %s, replayed from the ledger", v.State, v.Reference)
		default:
			came += fmt.Sprintf("%s %s, %d sends under one key", v.State, v.Reference, v.Attempts)
		}
		d.line(try.what, came)
	}
	return d.verdict("with", sandbox.Payment, 1, "")
}

// killed ends the gateway's process between the effect and its record.
func (d *demo) killed(ctx context.Context) error {
	d.title("3. kill -9 between the effect and its record")
	const key = "alert-456:ticket-v1"
	if err := d.provider.Inject(sandbox.Fault{Service: sandbox.Ticket, Kind: sandbox.SlowReply, Delay: time.Minute}); err != nil {
		return err
	}
	go d.call(ctx, "ticket", key, `{"case_id":"alert-456","title":"disk full"}`)
	if err := until(ctx, 5*time.Second, func() bool { return d.provider.Count(sandbox.Ticket) == 1 }); err != nil {
		return fmt.Errorf("the ticket was not opened: %w", err)
	}
	d.line("POST /v1/tool-calls  open ticket alert-456", "the provider did it and has not answered")
	pid := d.child.Process.Pid
	d.child.Process.Kill()
	d.child.Wait()
	d.child = nil
	d.line(fmt.Sprintf("kill -9 %d", pid), "the gateway is gone before it recorded the outcome")
	if err := d.startGateway(ctx); err != nil {
		return err
	}
	status, body, err := get(ctx, d.gateway+"/v1/tool-calls/"+url.PathEscape(key)+"?wait=20s")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the gateway answered %d: %s", status, body)
	}
	d.line("restart, GET …/"+key, fmt.Sprintf("%s %s, found at the provider", member(body, "state"), member(body, "reference")))
	return d.verdict("killed", sandbox.Ticket, 1, "")
}

func (d *demo) call(ctx context.Context, tool, key, arguments string) (int, []byte, error) {
	return post(ctx, d.gateway+"/v1/tool-calls", key, fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

func (d *demo) startGateway(ctx context.Context) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	ln.Close()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	d.child = exec.Command(exe, "serve", "--config", "", "--store", d.ledger, "--listen", addr, "--sandbox", d.sandbox)
	d.child.Stdout, d.child.Stderr = &d.logs, &d.logs
	if err := d.child.Start(); err != nil {
		return err
	}
	d.gateway = "http://" + addr
	return until(ctx, 10*time.Second, func() bool {
		status, _, err := get(ctx, d.gateway+"/readyz")
		return err == nil && status == http.StatusOK
	})
}

func (d *demo) stopGateway() {
	if d.child != nil {
		d.child.Process.Kill()
		d.child.Wait()
	}
}

// until polls for something that another process brings about.
func until(ctx context.Context, limit time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return errors.New("it took too long")
		case <-tick.C:
		}
	}
	return nil
}

// post sends once: without GetBody net/http cannot repeat it by itself.
func post(ctx context.Context, url, key, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return exchange(req)
}

func get(ctx context.Context, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	return exchange(req)
}

func exchange(req *http.Request) (int, []byte, error) {
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, body, err
}

func member(body []byte, name string) string {
	var v map[string]any
	json.Unmarshal(body, &v)
	s, _ := v[name].(string)
	return s
}
