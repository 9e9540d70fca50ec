package connectortest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// A Server is a [Provider] made of a function that handles one connection.
type Server struct {
	listener net.Listener
	effects  atomic.Int64
	mu       sync.Mutex
	idle     *sync.Cond // open is 0
	open     int
	markers  map[string]chan struct{}
}

// Serve starts a server that is stopped when the test ends. It calls handle for
// each connection, on a goroutine of its own, and closes the connection when
// handle returns. Handle calls effect once for each effect.
func Serve(t testing.TB, handle func(c net.Conn, effect func())) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{listener: l, markers: map[string]chan struct{}{}}
	s.idle = sync.NewCond(&s.mu)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if s.marker(c) {
				continue
			}
			s.count(1)
			go func() {
				defer s.count(-1)
				defer c.Close()
				handle(c, func() { s.effects.Add(1) })
			}()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
	})
	return s
}

// Addr returns the address.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Effects waits until every connection made so far has ended, and returns how
// many effects there have been.
func (s *Server) Effects() int {
	// Connections are accepted in order: once a connection of our own is, all
	// earlier ones have been.
	reached := make(chan struct{})
	s.mu.Lock()
	c, err := net.Dial("tcp", s.Addr())
	if err == nil {
		s.markers[c.LocalAddr().String()] = reached
	}
	s.mu.Unlock()
	if err == nil {
		<-reached
		_ = c.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open > 0 {
		s.idle.Wait()
	}
	return int(s.effects.Load())
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open += n; s.open == 0 {
		s.idle.Broadcast()
	}
}

func (s *Server) marker(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.RemoteAddr().String()
	reached, ok := s.markers[name]
	if ok {
		delete(s.markers, name)
		close(reached)
		_ = c.Close()
	}
	return ok
}

// HTTP is a provider that reads whole requests and gives each the same answer:
// a status line, headers and body as they go over the wire. With effects, each
// request has one, before it is answered.
func HTTP(t testing.TB, effects bool, answer string) *Server {
	return Serve(t, func(c net.Conn, effect func()) {
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if effects {
				effect()
			}
			if _, err := io.WriteString(c, answer); err != nil || r.Close {
				return
			}
		}
	})
}

// JSON returns a whole HTTP answer with a JSON body.
func JSON(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
}
