package e2e

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// A lossyRelay passes an SMTP dialogue through and, when told to, drops the
// connection instead of the reply to the mail's final dot.
type lossyRelay struct {
	addr, upstream string

	mu    sync.Mutex
	armed bool
	drops int
}

func newLossyRelay(t *testing.T, upstream string) *lossyRelay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &lossyRelay{addr: ln.Addr().String(), upstream: upstream}
	var conns sync.WaitGroup
	t.Cleanup(func() { ln.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { r.relay(client) })
		}
	})
	return r
}

func (r *lossyRelay) loseAfterData() { r.mu.Lock(); r.armed = true; r.mu.Unlock() }

func (r *lossyRelay) lost() int { r.mu.Lock(); defer r.mu.Unlock(); return r.drops }

func (r *lossyRelay) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	var mu sync.Mutex
	dotted := false // the client has sent its final dot
	go func() {
		defer server.Close()
		var tail []byte
		buf := make([]byte, 32<<10)
		for {
			n, err := client.Read(buf)
			if n > 0 {
				tail = append(tail, buf[:n]...)
				mu.Lock()
				dotted = dotted || bytes.HasSuffix(tail, []byte("\r\n.\r\n"))
				mu.Unlock()
				tail = tail[max(0, len(tail)-5):]
				if _, err := server.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		mu.Lock()
		cut := dotted
		mu.Unlock()
		if n > 0 && cut && r.drop() {
			return
		}
		if n > 0 {
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *lossyRelay) drop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.armed {
		return false
	}
	r.armed = false
	r.drops++
	return true
}
