package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// A carrier is a front's side of one intercepted request.
type carrier interface {
	// forward hands raw, the request perhaps changed, to the server, once, and
	// waits for the final answer. What it meets on the way, such as progress, it
	// passes to the client while that is there. The client's leaving does not
	// end it; ctx does.
	forward(ctx context.Context, raw []byte) mcpconn.Reply
	// ask calls a tool for a lookup with the client's credentials.
	ask(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply
}

// A turn is one tools/call of a client, from its arrival to its answer.
type turn struct {
	carrier
	ctx     context.Context // ends when the client takes the call back or leaves
	msg     *jsonrpc.Message
	spec    *spec
	call    justonce.Call
	print   string // the fingerprint
	meta    json.RawMessage
	version string // the protocol's, as the client speaks it; "" if not known
	task    bool   // it is to run as a task
	asking  bool   // it asks about a call, and is none

	// gone is closed when the client can send no continuation any more; nil:
	// nobody can tell.
	gone <-chan struct{}
	// unseen is told of answers to an equal call about whose arrival nothing was
	// known when this call came; nil: it becomes known by itself.
	unseen func(*arrival)

	question chan json.RawMessage // an input_required for this turn; holds one
	root     *turn                // the one that began the operation; itself as a rule
	done     chan struct{}        // of the root: answer and err are set
	answer   *justonce.Answer
	err      error

	mu    sync.Mutex
	next  *turn // of the root: the one whose request is with the server, if another
	state turnState
	reply *mcpconn.Reply
	back  func() // called when forward ended without an answer
}

type turnState int

const (
	turnIdle turnState = iota
	turnSent
	turnOver // forward has returned
)

type turnKey struct{}

func withTurn(ctx context.Context, t *turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

var errTakenBack = errors.New("the client took the call back before it was sent")

// claim makes the caller the one who forwards t. It fails once the client has
// taken the call back: from here on nothing does that any more.
func (t *turn) claim() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != turnIdle || t.ctx.Err() != nil {
		return false
	}
	t.state = turnSent
	return true
}

// over notes what forward returned.
func (t *turn) over(r *mcpconn.Reply) {
	reply := *r
	t.mu.Lock()
	t.state, t.reply = turnOver, &reply
	back := t.back
	t.mu.Unlock()
	if back != nil && !r.Answered() {
		back()
	}
}

func (t *turn) inFlight() bool {
	t.mu.Lock()
	state, next := t.state, t.next
	t.mu.Unlock()
	return state == turnSent || next != nil && next.inFlight()
}

// sent returns what the server answered to this very request, or nil.
func (t *turn) sent() *mcpconn.Reply {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reply
}

// outbound returns the request as the server gets it.
func (t *turn) outbound() []byte {
	if t.spec.repeat && jsonrpc.Get(t.msg.Params, "arguments", argRepeat) != nil {
		return jsonrpc.Delete(t.msg.Raw, "params", "arguments", argRepeat)
	}
	return t.msg.Raw
}

// dispatch sends a turn to the server, and goes on with its continuations as
// long as the server wants input.
func (s *Server) dispatch(ctx context.Context, t *turn, c *mcpconn.ToolCall) mcpconn.Reply {
	for !t.claim() {
		// Somebody else may want the same.
		if t = s.lender(ctx, c.Attempt, true); t == nil {
			return mcpconn.Reply{Stage: mcpconn.Withdrawn, Cause: errTakenBack}
		}
	}
	r := t.forward(ctx, t.outbound())
	for mcpconn.IsInputRequired(r.Result) {
		next := s.await(ctx, t, c.Attempt.Ref, r.Result)
		t.over(&r)
		if next == nil {
			return mcpconn.Reply{Stage: mcpconn.Withdrawn, Cause: errors.New("the server wanted input, and the client gave none")}
		}
		next.mu.Lock()
		next.state = turnSent // its operation was sent: nothing takes it back
		next.mu.Unlock()
		t.root.mu.Lock()
		t.root.next = next
		t.root.mu.Unlock()
		t = next
		r = t.forward(ctx, t.outbound())
	}
	if r.Status >= 400 && r.Status < 500 && r.Status != http.StatusRequestTimeout && (!r.Answered() || ofRequest(r.Error)) {
		// Refused as a request: other credentials or another session are wanted,
		// or the message is wrong. No tool ran.
		r.Stage = mcpconn.Withdrawn
	}
	if r.Stage == mcpconn.Unsent {
		// Its client is here and may decide: no call is made behind its back once
		// it has gone on to something else.
		r.Stage = mcpconn.Withdrawn
	}
	t.over(&r)
	return r
}

// ofRequest reports whether an error is about the request, so that no tool ran.
func ofRequest(e json.RawMessage) bool {
	switch string(jsonrpc.Get(e, "code")) {
	case "-32700", "-32600", "-32601", "-32602", "-32020", "-32021", "-32022":
		return true
	}
	return false
}

// lender returns a turn that waits for an attempt's operation and can carry its
// send, or a lookup for it. Only the same call by the same client's rights can.
func (s *Server) lender(ctx context.Context, a *justonce.Attempt, send bool) *turn {
	if a == nil {
		return nil
	}
	in, err := s.runner.Identify(context.WithoutCancel(ctx), justonce.Call{Tenant: a.Tenant, Tool: a.Tool, Key: a.Key, Scope: a.Scope, Arguments: a.Arguments})
	if err != nil {
		return nil
	}
	return s.waiting.lender(a.Ref, in.Fingerprint, send)
}

// waiting holds the turns that wait for operations, by operation.
type waiting struct {
	mu sync.Mutex
	m  map[justonce.Ref][]*turn
}

func (w *waiting) add(ref justonce.Ref, t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m = map[justonce.Ref][]*turn{}
	}
	w.m[ref] = append(w.m[ref], t)
}

func (w *waiting) remove(ref justonce.Ref, t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.m[ref]
	for i := range list {
		if list[i] == t {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if w.m[ref] = list; len(list) == 0 {
		delete(w.m, ref)
	}
}

// lender returns a turn that waits for ref with these arguments.
func (w *waiting) lender(ref justonce.Ref, fingerprint string, send bool) *turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.m[ref] {
		t.mu.Lock()
		idle := t.state == turnIdle
		t.mu.Unlock()
		if t.print == fingerprint && t.ctx.Err() == nil && (idle || !send) {
			return t
		}
	}
	return nil
}
