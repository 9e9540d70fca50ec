package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	restateserver "github.com/restatedev/sdk-go/server"
)

var restateContestants = []contestant{
	{name: "restate", setup: "a handler with one run step, the key as idempotency key, through the ingress on kept-alive connections; 24 partitions (default)", servers: []string{"restate"}, open: openRestate},
	{name: "restate-2", setup: "the same, 2 partitions", servers: []string{"restate-2"}, open: openRestate},
}

type restateCaller struct {
	charge ingress.Requester[charge, json.RawMessage]
	http   *http.Transport
	stop   context.CancelFunc
	done   chan error
}

// openRestate serves the handler on a free port and makes it known to the
// server.
func openRestate(ctx context.Context, p *place) (caller, error) {
	handler := restate.NewServiceHandler(func(ctx restate.Context, in charge) (json.RawMessage, error) {
		return restate.Run(ctx, func(restate.RunContext) (json.RawMessage, error) { return p.effect(in.Key), nil })
	})
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &restateCaller{stop: stop, done: make(chan error, 1), http: &http.Transport{MaxIdleConnsPerHost: 1024}}
	go func() {
		c.done <- restateserver.NewRestate().WithLogger(slog.DiscardHandler, true).Bind(restate.NewService("Peers").Handler("Charge", handler)).Start(ctx, address)
	}()
	if err := registerRestate(ctx, p.Restate.Admin, address); err != nil {
		c.Close()
		return nil, err
	}
	client := ingress.NewClient(p.Restate.Ingress, ingress.WithHttpClient(&http.Client{Transport: c.http}))
	c.charge = ingress.Service[charge, json.RawMessage](client, "Peers", "Charge")
	return c, nil
}

// registerRestate waits until a handler serves and makes it known.
func registerRestate(ctx context.Context, admin, address string) error {
	if err := reachable(ctx, address); err != nil {
		return err
	}
	body, _ := json.Marshal(map[string]any{"uri": "http://" + address, "force": true})
	answer, err := http.Post(admin+"/deployments", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("restate: %s: %.300s", answer.Status, text)
	}
	return nil
}

func (c *restateCaller) Call(ctx context.Context, key string) (json.RawMessage, error) {
	return c.charge.Request(ctx, charge{key, arguments}, restate.WithIdempotencyKey(key))
}

func (c *restateCaller) Close() error {
	c.http.CloseIdleConnections()
	c.stop()
	return <-c.done
}

// freeAddress returns an address of the loopback interface that nobody uses.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// reachable waits until something listens at address.
func reachable(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nothing listens at %s: %w", address, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
