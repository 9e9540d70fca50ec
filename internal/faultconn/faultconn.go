// Package faultconn is a TCP proxy for tests that breaks a connection at a
// chosen byte: it closes, resets or holds it.
package faultconn

import (
	"errors"
	"net"
	"sync"
)

// A Direction is one of the two ways through the proxy.
type Direction int

const (
	Up   Direction = iota // from the client to the server
	Down                  // from the server to the client
)

func (d Direction) String() string { return [...]string{"up", "down"}[d] }

// An Action is what happens to a connection.
type Action int

const (
	None  Action = iota // nothing
	Close               // both sides are closed in order (FIN)
	Reset               // both sides are reset (RST)
	Hold                // nothing more passes in the direction until Release
)

func (a Action) String() string { return [...]string{"none", "close", "reset", "hold"}[a] }

// A Fault breaks a connection once After bytes have passed in a direction: these
// are delivered, no more are. After 0 acts as soon as the server is connected.
type Fault struct {
	Action    Action
	Direction Direction
	After     int64
}

// A Proxy forwards connections to a server. Its methods may be called from many
// goroutines.
type Proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	links   map[*link]bool
	idle    *sync.Cond // no links
	passed  [2]int64
	count   int
	closed  bool
	struck  chan struct{}
	release chan struct{}
}

// Listen starts a proxy to the server at target, on a loopback address.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, links: map[*link]bool{},
		struck: make(chan struct{}), release: make(chan struct{})}
	p.idle = sync.NewCond(&p.mu)
	p.done.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns the proxy's address.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set makes f the fault of connections accepted from now on, and counts the
// bytes passed anew.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.passed, p.count = f, [2]int64{}, 0
	p.struck, p.release = make(chan struct{}), make(chan struct{})
}

// Struck is closed when the fault that was set last has acted.
func (p *Proxy) Struck() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.struck
}

// Release lets held connections go on.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.release:
	default:
		close(p.release)
	}
}

// Passed returns how many bytes have passed in a direction since Set.
func (p *Proxy) Passed(d Direction) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed[d]
}

// Connections returns how many connections were accepted since Set.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Break ends the connections that are open now.
func (p *Proxy) Break() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.end(Close)
	}
}

// Drain ends the connections that are open now and waits until they are gone.
func (p *Proxy) Drain() {
	p.Break()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.links) > 0 {
		p.idle.Wait()
	}
}

// Close stops the proxy, ends its connections and waits for its goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Break()
	p.done.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) accept() {
	defer p.done.Done()
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Add(1)
		go func() {
			defer p.done.Done()
			p.serve(c.(*net.TCPConn))
		}()
	}
}
