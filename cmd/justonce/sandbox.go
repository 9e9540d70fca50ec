package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/sandbox"
)

type sandboxCmd struct {
	Listen     string        `help:"The address; loopback only." default:"127.0.0.1:7412" env:"JUSTONCE_SANDBOX_LISTEN"`
	Journal    string        `help:"Keep the effects in this file, so that a restarted sandbox still counts them." placeholder:"FILE"`
	Window     time.Duration `help:"How long payments remember an idempotency key." default:"24h"`
	MailLag    time.Duration `help:"How long until a mail is listed."`
	JobsByHand bool          `help:"Jobs end by POST /jobs/{id}/finish only. Otherwise after ten seconds."`
	Seed       uint64        `help:"Seed of the faults' choices; 0: a new one."`
}

func (*sandboxCmd) Help() string {
	return `A provider of payments (level 1), tickets (2), mails (3), posts (4) and jobs that
counts its effects. Open its page in a browser.

Faults: lost_reply, cut_before, cut_mid, error_500_after, error_500_before, error_503,
rate_limit, slow, slow_reply, list_lag (the last three with "delay":"1s"), each with
"times" (1; -1 for ever) and "probability". DELETE /faults disarms, DELETE /effects
forgets.

Examples:
  justonce sandbox --journal effects.jsonl
  curl -d '{"service":"payment","kind":"lost_reply"}' 127.0.0.1:7412/faults
  curl '127.0.0.1:7412/effects/duplicates?by=order_id'`
}

func (c *sandboxCmd) Run(ctx context.Context, o *output) error {
	jobs := time.Duration(0)
	if c.JobsByHand {
		jobs = -1
	}
	p, err := sandbox.New(&sandbox.Options{JobDuration: jobs, Journal: c.Journal, Window: c.Window, MailLag: c.MailLag, Seed: c.Seed})
	if err != nil {
		return err
	}
	ln, err := listen(c.Listen, "--listen")
	if err != nil {
		return errors.Join(err, p.Close())
	}
	if o.json {
		o.object(map[string]string{"sandbox": "http://" + ln.Addr().String()})
	} else {
		o.printf("sandbox provider on http://%s\n", ln.Addr())
	}
	return serveSandbox(ctx, p, ln)
}

// listen is gateway.Listen with a hint.
func listen(addr, flag string) (net.Listener, error) {
	ln, err := gateway.Listen(addr)
	var op *net.OpError
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, hint(err, "is another one running? name another address with %s", flag)
	case errors.As(err, &op):
		return nil, hint(err, "name another address with %s", flag)
	}
	return nil, &usageError{hint(err, "%s wants an address such as 127.0.0.1:7411", flag)}
}

// serveSandbox serves p, which it closes, until ctx ends.
func serveSandbox(ctx context.Context, p *sandbox.Provider, ln net.Listener) error {
	srv := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return errors.Join(fmt.Errorf("sandbox: %w", err), p.Close())
	case <-ctx.Done():
	}
	err := p.Close() // before Shutdown, which waits for slow answers
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, srv.Shutdown(grace))
}
