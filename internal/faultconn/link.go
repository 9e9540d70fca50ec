package faultconn

import (
	"net"
	"sync"
)

// A link is one connection through the proxy.
type link struct {
	proxy   *Proxy
	fault   Fault
	ends    [2]*net.TCPConn // to the client, to the server
	once    sync.Once
	over    chan struct{}
	struck  chan struct{}
	release chan struct{}
}

func (p *Proxy) serve(client *net.TCPConn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, ends: [2]*net.TCPConn{client, server.(*net.TCPConn)}, over: make(chan struct{})}
	p.mu.Lock()
	l.fault, l.struck, l.release = p.fault, p.struck, p.release
	p.count++
	p.links[l] = true
	closed := p.closed
	p.mu.Unlock()
	if closed {
		l.end(Close)
	}
	if l.fault.After == 0 && l.fault.Action != None && l.fault.Action != Hold {
		l.strike()
		l.end(l.fault.Action)
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(Up, l.ends[0], l.ends[1]) })
	both.Go(func() { l.pump(Down, l.ends[1], l.ends[0]) })
	both.Wait()
	l.end(Close)
	p.mu.Lock()
	delete(p.links, l)
	p.idle.Broadcast()
	p.mu.Unlock()
}

// end breaks both sides, once.
func (l *link) end(a Action) {
	l.once.Do(func() {
		close(l.over)
		for _, c := range l.ends {
			if a == Reset {
				_ = c.SetLinger(0)
			}
			_ = c.Close()
		}
	})
}

func (l *link) strike() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	select {
	case <-l.struck:
	default:
		close(l.struck)
	}
}

// pump forwards one direction until its source ends, then closes that half.
func (l *link) pump(d Direction, from, to *net.TCPConn) {
	buf := make([]byte, 16<<10)
	left, armed := l.fault.After, l.fault.Action != None && l.fault.Direction == d
	for {
		if armed && left == 0 {
			l.strike()
			if l.fault.Action != Hold {
				l.end(l.fault.Action)
				return
			}
			select {
			case <-l.release:
				armed = false
			case <-l.over:
				return
			}
		}
		limit := len(buf)
		if armed {
			limit = int(min(int64(limit), left))
		}
		n, err := from.Read(buf[:limit])
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				l.end(Close)
				return
			}
			left -= int64(n)
			l.proxy.add(d, int64(n))
		}
		if err != nil {
			_ = to.CloseWrite()
			return
		}
	}
}

func (p *Proxy) add(d Direction, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed[d] += n
}
