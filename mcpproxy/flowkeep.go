package mcpproxy

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// flows holds those to which a client may come back, or whose answer has not
// arrived. Its lock is taken before that of a flow.
type flows struct {
	mu        sync.Mutex
	events    map[eventKey]*flow
	ids       map[*flow][]string
	delivered map[*delivery]*flow
	calls     map[eventKey]*flow // not over yet, by the client's id of the request
	parked    []*parking         // the oldest first
	bytes     int
}

// An eventKey is an event, or a request, as its client names it.
type eventKey struct {
	owner owner
	id    string
}

// A parking is a flow with an answer that nobody reads.
type parking struct {
	f      *flow
	bytes  int
	expiry *time.Timer
}

// Bounds of what is kept for clients that are away.
const (
	keepFor        = 5 * time.Minute
	maxParked      = 1_000
	maxParkedBytes = 64 << 20
	maxEvents      = 100_000
)

// put notes an event by which a client may come back; false: it can not.
func (k *flows) put(f *flow, id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.events == nil {
		k.events, k.ids = map[eventKey]*flow{}, map[*flow][]string{}
	}
	if len(k.events) >= maxEvents || f.ctx.Err() != nil {
		return false
	}
	k.events[eventKey{f.owner, id}] = f
	k.ids[f] = append(k.ids[f], id)
	return true
}

// find returns the flow that has an event, and the place behind it.
func (k *flows) find(o owner, id string) (*flow, *reader) {
	k.mu.Lock()
	f := k.events[eventKey{o, id}]
	k.mu.Unlock()
	if f == nil {
		return nil, nil
	}
	pos, ok := f.after(id)
	if !ok {
		return nil, nil
	}
	r := f.attach(pos)
	k.update(f)
	return f, r
}

// begin notes a call.
func (k *flows) begin(f *flow) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls == nil {
		k.calls = map[eventKey]*flow{}
	}
	k.calls[eventKey{f.owner, jsonrpc.Key(f.id)}] = f
}

// call returns the call that has an id and whose answer is not known to have
// arrived, or nil.
func (k *flows) call(o owner, id json.RawMessage) *flow {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[eventKey{o, jsonrpc.Key(id)}]
}

// expect notes that d reports about the answer of f.
func (k *flows) expect(f *flow, d *delivery) {
	if d == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.delivered == nil {
		k.delivered = map[*delivery]*flow{}
	}
	k.delivered[d] = f
}

// unseen is told that an equal call has come: answers that nobody is reading did
// not arrive.
func (k *flows) unseen(a *arrival) {
	var out []*flow
	k.mu.Lock()
	for d, f := range k.delivered {
		if d.of == a && !f.read() {
			out = append(out, f)
		}
	}
	for _, f := range out {
		k.remove(f)
	}
	k.mu.Unlock()
	refuseAll(out)
}

// read reports whether somebody reads f, or has just read it.
func (f *flow) read() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.readers) > 0 || f.settling > 0
}

// arrived notes that a client has the answer of f.
func (k *flows) arrived(f *flow) {
	k.mu.Lock()
	k.remove(f)
	k.mu.Unlock()
	f.cancel()
	f.final.delivery.report(true)
}

// update decides what becomes of a flow whose readers or answer have changed.
func (k *flows) update(f *flow) {
	var out []*flow
	k.mu.Lock()
	f.mu.Lock()
	read, final, size := len(f.readers) > 0 || f.settling > 0, f.final, f.bytes
	f.mu.Unlock()
	k.unpark(f)
	switch {
	case read:
	case len(k.ids[f]) == 0, final != nil && final.raw == nil && !final.mirror:
		k.remove(f)
		out = append(out, f)
	case final != nil:
		p := &parking{f: f, bytes: size + len(final.raw)}
		p.expiry = time.AfterFunc(keepFor, func() { k.expire(f) })
		k.parked, k.bytes = append(k.parked, p), k.bytes+p.bytes
		for len(k.parked) > maxParked || k.bytes > maxParkedBytes {
			oldest := k.parked[0].f
			k.remove(oldest)
			out = append(out, oldest)
		}
	}
	k.mu.Unlock()
	refuseAll(out)
}

func (k *flows) unpark(f *flow) {
	for i, p := range k.parked {
		if p.f == f {
			p.expiry.Stop()
			k.bytes -= p.bytes
			k.parked = append(k.parked[:i:i], k.parked[i+1:]...)
			return
		}
	}
}

// remove forgets f. k is locked.
func (k *flows) remove(f *flow) {
	k.unpark(f)
	for _, id := range k.ids[f] {
		delete(k.events, eventKey{f.owner, id})
	}
	delete(k.ids, f)
	f.mu.Lock()
	final, held := f.final, f.held > 0
	f.mu.Unlock()
	if final == nil {
		return
	}
	delete(k.delivered, final.delivery)
	if at := (eventKey{f.owner, jsonrpc.Key(f.id)}); k.calls[at] == f && !held {
		delete(k.calls, at)
	}
}

// release notes that the server is done with a flow's request.
func (k *flows) release(f *flow) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.mu.Lock()
	f.held--
	over := f.held == 0 && f.final != nil
	f.mu.Unlock()
	if at := (eventKey{f.owner, jsonrpc.Key(f.id)}); over && k.calls[at] == f && f.ctx.Err() != nil {
		delete(k.calls, at)
	}
}

func (k *flows) expire(f *flow) {
	if f.read() {
		return
	}
	k.mu.Lock()
	k.remove(f)
	k.mu.Unlock()
	refuseAll([]*flow{f})
}

// refuseAll says of flows without readers that they are over.
func refuseAll(list []*flow) {
	for _, f := range list {
		f.cancel()
		f.mu.Lock()
		final := f.final
		f.mu.Unlock()
		if final != nil {
			final.delivery.report(false)
		}
	}
}

// clear forgets everything: the handler is closed.
func (k *flows) clear() {
	k.mu.Lock()
	var out []*flow
	for _, f := range k.delivered {
		out = append(out, f)
	}
	for f := range k.ids {
		out = append(out, f)
	}
	for _, f := range out {
		k.remove(f)
	}
	k.mu.Unlock()
	refuseAll(out)
}
