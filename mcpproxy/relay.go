package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A relay carries messages between a client that speaks in lines and its
// server. Ids pass unchanged; requests of the relay's own have ids that no
// client makes up.
type relay struct {
	s     *Server
	o     *StdioOptions
	out   *jsonrpc.LineWriter
	acks  *receipts
	ctx   context.Context // ends once the client is gone for good
	leave context.CancelFunc
	// serving ends when the relay is to end; calls under way may outlive it.
	serving context.Context
	broken  chan struct{}   // closed when the client takes nothing any more
	lost    <-chan struct{} // the same, until that was seen
	once    sync.Once
	// writing is held from the first byte of a message to its receipt.
	writing sync.Mutex
	gone    chan struct{} // closed when the client will send nothing any more
	calls   sync.WaitGroup

	starting sync.Mutex // one start at a time
	pace     pace

	mu      sync.Mutex
	peer    Peer
	err     error // why there is none
	pending map[string]*pending
	turns   map[string]*answering
	asked   map[string]question // of the server to the client, by id
	starts  int
	idle    chan struct{} // told when pending or turns may have become empty
	hello   []byte        // the client's initialize, once a server took it
	ready   []byte        // and notifications/initialized
	version string
	modern  json.RawMessage // _meta of a client whose requests carry the version
	seq     int
}

// pending is a request that the server has not answered.
type pending struct {
	id     json.RawMessage
	method string
	reply  chan mcpconn.Reply // of requests that are not the client's alone; holds one
	given  bool               // up by who waited for reply
	hello  []byte             // the client's initialize
}

// A question is a request of a server to the client.
type question struct {
	id    json.RawMessage
	start int // which start of the server asked; 0: it has ended
}

// An answering is a request of the client that the relay answers itself.
type answering struct {
	ctx     context.Context
	cancel  context.CancelFunc
	passive bool // the server is told of a cancellation
}

func newRelay(ctx context.Context, s *Server, o *StdioOptions) *relay {
	r := &relay{s: s, serving: ctx, o: o, out: jsonrpc.NewLineWriter(o.Out), acks: &receipts{out: outlet{o.Out}},
		broken: make(chan struct{}), gone: make(chan struct{}), idle: make(chan struct{}, 1),
		pending: map[string]*pending{}, turns: map[string]*answering{}, asked: map[string]question{}}
	r.lost = r.broken
	r.ctx, r.leave = context.WithCancel(context.Background())
	return r
}

// take removes a pending request.
func (r *relay) take(id string) *pending {
	r.mu.Lock()
	p := r.pending[id]
	delete(r.pending, id)
	r.mu.Unlock()
	r.maybeIdle()
	return p
}

func (r *relay) maybeIdle() {
	select {
	case r.idle <- struct{}{}:
	default:
	}
}

func (r *relay) quiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending) == 0 && len(r.turns) == 0
}

func (r *relay) spoken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}

// lingerOthers bounds the waiting for what has no effect.
const lingerOthers = 30 * time.Second

// linger ends the conversation: what is under way is waited for.
func (r *relay) linger() {
	limit := r.o.Linger
	if limit == 0 {
		limit = 5 * time.Minute
	}
	close(r.gone)
	all, some := time.NewTimer(min(limit, lingerOthers)), time.NewTimer(limit)
	defer all.Stop()
	defer some.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	read := true // somebody may still read answers
	for read && !r.quiet() || r.sending() {
		select {
		case <-r.idle:
		case <-look.C:
			if _, _, gone, _ := r.acks.out.unread(); gone {
				read = false
			}
		case <-r.lost:
			read = false
			r.lost = nil // once is enough
		case <-all.C:
			read = false
		case <-some.C:
			r.close()
			return
		}
	}
	r.close()
}

// sending reports whether an intercepted request is with the server, and somebody
// waits for its end.
func (r *relay) sending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pending {
		if p.reply != nil && !p.given {
			return true
		}
	}
	return false
}

func (r *relay) close() {
	r.leave()
	r.mu.Lock()
	p := r.peer
	r.peer, r.err = nil, io.EOF
	r.mu.Unlock()
	// A client that does not read, and does not go, keeps writes from ending.
	done := make(chan struct{})
	go func() {
		if p != nil {
			p.Close()
		}
		r.calls.Wait()
		close(done)
	}()
	timer := time.NewTimer(closing)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		r.s.log.Warn("the client does not read; what it was to be told is dropped")
	}
	r.acks.stop()
}

// closing bounds how long a server is waited for, which is killed after 4s, and a
// client that does not read.
const closing = 6 * time.Second

var errEnded = errors.New("the conversation is over")

// toServer hands a message to the server, which is started again if it has
// ended.
func (r *relay) toServer(line []byte) error {
	r.mu.Lock()
	p, err := r.peer, r.err
	r.mu.Unlock()
	if p == nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: %w", mcpconn.ErrNotSent, errEnded)
		}
		if err := r.connect(r.serving); err != nil {
			return fmt.Errorf("%w: %w", mcpconn.ErrNotSent, err)
		}
		r.mu.Lock()
		p = r.peer
		r.mu.Unlock()
		if p == nil {
			return fmt.Errorf("%w: the server ended at once", mcpconn.ErrNotSent)
		}
	}
	return p.Write(line)
}
