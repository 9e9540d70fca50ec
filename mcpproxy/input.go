package mcpproxy

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// An awaiting is an operation whose server answered input_required: the client
// is to send the call again with what the server wants to know. Its attempt goes
// on meanwhile.
type awaiting struct {
	root     *turn
	asked    *turn // the one that got the question
	question json.RawMessage
	resume   chan *turn
	over     chan struct{}
}

// inputs holds them by operation.
type inputs struct {
	mu sync.Mutex
	m  map[justonce.Ref]*awaiting
}

func (in *inputs) get(ref justonce.Ref) *awaiting {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.m[ref]
}

// await asks the client of t and returns the turn with the answer; nil: there
// was none.
func (s *Server) await(ctx context.Context, t *turn, ref justonce.Ref, question json.RawMessage) *turn {
	aw := &awaiting{root: t.root, asked: t, question: question, resume: make(chan *turn), over: make(chan struct{})}
	in := &s.inputs
	in.mu.Lock()
	if in.m == nil {
		in.m = map[justonce.Ref]*awaiting{}
	}
	in.m[ref] = aw
	in.mu.Unlock()
	t.question <- question
	timer := time.NewTimer(s.o.InputWait)
	defer timer.Stop()
	var next *turn
	select {
	case next = <-aw.resume:
	case <-timer.C:
	case <-t.gone:
	case <-ctx.Done():
	}
	in.mu.Lock()
	if in.m[ref] == aw {
		delete(in.m, ref)
	}
	in.mu.Unlock()
	close(aw.over)
	return next
}

// answers reports whether a request may answer the question: whether it does is
// for the server to judge. One that does not, and one that was answered with this
// very question, do not.
func (aw *awaiting) answers(params json.RawMessage) bool {
	was := aw.asked.msg.Params
	repeats := isContinuation(was) && string(jsonrpc.Get(params, "requestState")) == string(jsonrpc.Get(was, "requestState")) &&
		string(jsonrpc.Get(params, "inputResponses")) == string(jsonrpc.Get(was, "inputResponses"))
	return isContinuation(params) && !repeats
}

// isContinuation reports whether a request answers some question.
func isContinuation(params json.RawMessage) bool {
	return jsonrpc.Get(params, "requestState") != nil || jsonrpc.Get(params, "inputResponses") != nil
}
