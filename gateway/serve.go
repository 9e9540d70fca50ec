package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Listen returns a listener on a loopback address, such as 127.0.0.1:7411 or
// localhost:0. Any other address is refused until there is access control.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if ip, err := netip.ParseAddr(host); !(err == nil && ip.IsLoopback()) && !strings.EqualFold(host, "localhost") {
		return nil, notLoopback(addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if !loopback(l.Addr()) { // whatever localhost means here
		l.Close()
		return nil, notLoopback(addr)
	}
	return l, nil
}

func notLoopback(addr string) error {
	return fmt.Errorf("listen: %s can be reached from other machines, and there is no access control yet; use a loopback address such as 127.0.0.1:7411", addr)
}

// ListenAndServe is [Listen] and [Server.Serve].
func (s *Server) ListenAndServe(ctx context.Context, addr string) error {
	l, err := Listen(addr)
	if err != nil {
		return err
	}
	return s.Serve(ctx, l)
}

// Serve serves requests that come in on l, which it closes, until ctx ends.
// Then /readyz turns 503, no more connections are accepted, calls that wait are
// answered with how things stand (202), other requests finish, and Serve
// returns nil; after Options.Grace what is left is cut off, and the error says
// so. It may be called once.
//
// Attempts under way go on beyond that. The order of an ordinary stop is
// Serve, Runner.Work, Runner.Shutdown, the store's Close.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if !loopback(l.Addr()) {
		l.Close()
		return notLoopback(l.Addr().String())
	}
	// Requests live in base. Ending it ends their waiting, nothing else: what
	// must not be cut short does not use the request's context.
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       s.o.ConnContext,
		ConnState:         s.o.ConnState,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		// Recording may take half a minute beside the waiting.
		WriteTimeout:   s.o.MaxWait + 90*time.Second,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		srv.Close()
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer done()
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Shutdown(grace) }()
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) { // it accepts no more
		s.log.Warn("the listener failed while stopping", "error", err)
	}
	cancel()
	if err := <-stopped; err != nil {
		srv.Close()
		return fmt.Errorf("serve: requests were still under way after %s: %w", s.o.Grace, err)
	}
	return nil
}
