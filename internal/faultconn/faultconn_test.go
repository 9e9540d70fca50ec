package faultconn_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/justonce-dev/justonce/internal/faultconn"
)

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *faultconn.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func listen(t *testing.T) *faultconn.Proxy {
	t.Helper()
	p, err := faultconn.Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestWhole(t *testing.T) {
	p := listen(t)
	c := dial(t, p)
	text := strings.Repeat("0123456789", 10_000)
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != text {
		t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(text))
	}
	if up, down := p.Passed(faultconn.Up), p.Passed(faultconn.Down); up != int64(len(text)) || down != up {
		t.Errorf("passed %d up and %d down, want %d", up, down, len(text))
	}
}

func TestFaultAtEveryByte(t *testing.T) {
	const text = "0123456789"
	for _, action := range []faultconn.Action{faultconn.Close, faultconn.Reset} {
		for _, d := range []faultconn.Direction{faultconn.Up, faultconn.Down} {
			for after := range int64(len(text)) {
				p := listen(t)
				p.Set(faultconn.Fault{Action: action, Direction: d, After: after})
				// A reset may come so early that dialling itself reports it.
				var got []byte
				c, err := net.Dial("tcp", p.Addr())
				if err == nil {
					_, _ = io.WriteString(c, text)
					got, err = io.ReadAll(c)
					_ = c.Close()
				}
				<-p.Struck()
				if int64(len(got)) > after {
					t.Errorf("%s %s after %d: %q came back", action, d, after, got)
				}
				if action == faultconn.Reset && d == faultconn.Down && after == 0 && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s %s after %d: error %v, want a reset", action, d, after, err)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				if n := p.Passed(d); n != after && after > 0 {
					t.Errorf("%s %s after %d: %d bytes passed", action, d, after, n)
				}
			}
		}
	}
}

func TestHold(t *testing.T) {
	p := listen(t)
	p.Set(faultconn.Fault{Action: faultconn.Hold, Direction: faultconn.Down, After: 3})
	c := dial(t, p)
	_, _ = io.WriteString(c, "abcdef")
	buf := make([]byte, 6)
	if _, err := io.ReadFull(c, buf[:3]); err != nil {
		t.Fatal(err)
	}
	<-p.Struck()
	p.Release()
	if _, err := io.ReadFull(c, buf[3:]); err != nil || string(buf) != "abcdef" {
		t.Fatalf("got %q, %v", buf, err)
	}
}
