package mcpproxy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
	"github.com/justonce-dev/justonce/internal/sse"
)

// A flow is one intercepted request between its carrier and its client: what the
// server says meanwhile, and the answer. A client whose connection breaks can
// come back to it where the server gave its events ids.
type flow struct {
	h       *Handler
	ctx     context.Context // ends when the client has left for good
	cancel  context.CancelFunc
	msg     *jsonrpc.Message
	id      json.RawMessage
	meta    json.RawMessage
	owner   owner
	version string
	gone    <-chan struct{}
	early   bool // no status of a server has to be waited for
	// unwanted: somebody who may be the client took the call back.
	unwanted atomic.Bool

	mu        sync.Mutex
	changed   chan struct{} // closed, and replaced, when anything below changes
	begun     bool          // the request went to the server
	head      *head         // how the server answered
	blocks    []block
	first     int // the number of blocks[0]
	bytes     int
	resumable bool // events have ids, by which a client can come back
	leg       int  // counts the streams that the server closed before the answer
	closing   *sse.Event
	final     *response
	readers   map[*reader]bool
	// settling counts the answers written of which it is not known yet whether
	// they arrived.
	settling int
	held     int // times that its request is with the server
}

// A head is how a server answered at the level of HTTP.
type head struct {
	status   int
	header   http.Header
	stream   bool   // events follow
	answered bool   // with a JSON-RPC response
	body     []byte // else what it said
}

// A block is one event as the client gets it.
type block struct {
	raw []byte
	id  string // "": none
}

// A reader is a client's connection that reads a flow.
type reader struct {
	pos int // number of the block that comes next
	leg int
}

// An owner is who may read a flow: a session, and credentials.
type owner [sha256.Size]byte

func (h *Handler) owner(r *http.Request) owner {
	session, _ := json.Marshal([]any{r.Header.Values(headerSession), r.Header.Values("Authorization"), h.scope(r)})
	return sha256.Sum256(session)
}

func newFlow(h *Handler, r *http.Request, m *jsonrpc.Message) *flow {
	f := &flow{h: h, msg: m, id: m.ID, meta: jsonrpc.Get(m.Params, "_meta"), owner: h.owner(r), version: r.Header.Get(headerVersion), gone: h.ctx.Done(),
		changed: make(chan struct{}), readers: map[*reader]bool{}}
	f.ctx, f.cancel = context.WithCancel(h.ctx)
	return f
}

// Bounds of what is kept of a flow's events.
const (
	maxUnread = 64 << 20 // for a client that reads slowly
	maxKept   = 4 << 20  // for one that may come back
)

// tell wakes the readers. f is locked.
func (f *flow) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// sending notes that the request goes to the server.
func (f *flow) sending() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
	f.tell()
}

// heading notes how the server answered.
func (f *flow) heading(h *head) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.head == nil || !h.stream { // a later stream continues the first
		f.head = h
	}
	f.tell()
}

// answeredBy notes that the server gave a JSON-RPC response, in an event or not.
func (f *flow) answeredBy(e *sse.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = e
	if f.head != nil {
		f.head.answered, f.head.body = true, nil
	}
}

// add gives the client one more event.
func (f *flow) add(raw []byte, id string) {
	known := id != "" && f.h.kept.put(f, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumable = f.resumable || known
	f.blocks = append(f.blocks, block{raw, id})
	f.bytes += len(raw)
	f.trim()
	f.tell()
}

// trim drops what nobody is going to read. f is locked.
func (f *flow) trim() {
	next := f.first + len(f.blocks) // what everybody has read ends there
	for r := range f.readers {
		next = min(next, r.pos)
	}
	if !f.resumable {
		f.drop(next - f.first)
	}
	n, left := 0, f.bytes
	for ; left > maxKept && n < len(f.blocks) && (f.first+n < next || len(f.readers) == 0 && f.resumable || left > maxUnread); n++ {
		left -= len(f.blocks[n].raw)
	}
	f.drop(n)
}

func (f *flow) drop(n int) {
	for _, b := range f.blocks[:n] {
		f.bytes -= len(b.raw)
	}
	clear(f.blocks[:n])
	f.blocks = f.blocks[n:]
	f.first += n
}

// cut notes that the server closed its stream before the answer. The client's
// ends there, too, so that it does what it would do.
func (f *flow) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leg++
	f.tell()
}

// attach begins to read at a block's number.
func (f *flow) attach(pos int) *reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reader{pos: pos, leg: f.leg}
	f.readers[r] = true
	return r
}

// after returns the number of the block behind the event with an id.
func (f *flow) after(id string) (pos int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, b := range f.blocks {
		if b.id == id {
			return f.first + i + 1, true
		}
	}
	return 0, false
}

// A view is what there is for a reader.
type view struct {
	blocks  []block
	lost    bool // blocks that it should have had
	over    bool // the server closed the stream that this one continues
	head    *head
	begun   bool
	closing *sse.Event
	final   *response
	changed <-chan struct{}
}

// look returns what there is beyond r, and moves r behind it.
func (f *flow) look(r *reader) view {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := view{over: r.leg != f.leg, begun: f.begun, closing: f.closing, final: f.final, changed: f.changed}
	if f.head != nil {
		h := *f.head
		v.head = &h
	}
	if v.lost = r.pos < f.first; !v.lost {
		v.blocks = append(v.blocks, f.blocks[r.pos-f.first:]...)
		r.pos = f.first + len(f.blocks)
		f.trim()
	}
	return v
}

// finish gives the answer to whoever reads.
func (f *flow) finish(res *response) {
	f.h.kept.expect(f, res.delivery)
	f.mu.Lock()
	f.final = res
	f.tell()
	f.mu.Unlock()
	f.h.kept.update(f)
}

// over reports whether there is an answer.
func (f *flow) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.final != nil
}

// detach notes that a client's connection has ended, or has got everything.
func (f *flow) detach(r *reader) {
	f.mu.Lock()
	delete(f.readers, r)
	f.mu.Unlock()
	f.h.kept.update(f)
}

// A heldCarrier keeps it known that a flow's request is with the server: its
// client may leave and cancel it later, which must not get there.
type heldCarrier struct {
	carrier
	f *flow
}

func (c *heldCarrier) forward(ctx context.Context, raw []byte) mcpconn.Reply {
	c.f.mu.Lock()
	c.f.held++
	c.f.mu.Unlock()
	defer c.f.h.kept.release(c.f)
	return c.carrier.forward(ctx, raw)
}
