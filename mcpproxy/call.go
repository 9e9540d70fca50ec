package mcpproxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// Members of a request's _meta that justonce reads, and of a result's that it
// writes.
const (
	metaOperation = "dev.justonce/operation_id"
	metaRun       = "dev.justonce/run_id"
	metaSeq       = "dev.justonce/intent_seq"

	metaKey       = "dev.justonce/key"
	metaState     = "dev.justonce/state"
	metaReplayed  = "dev.justonce/replayed"
	metaJoined    = "dev.justonce/joined"
	metaMatchedBy = "dev.justonce/matched_by"
	metaAdvice    = "dev.justonce/advice"
)

// taskScope is added to the scope of calls that are to run as a task.
const taskScope = "/task"

// argRepeat is the argument by which a model says that it means an equal call.
const argRepeat = "justonce_repeat"

// A response is what a client is to get.
type response struct {
	raw []byte // a JSON-RPC response; nil: none is due
	// mirror: the server answered at the level of the transport, say with a 401;
	// the client gets that answer.
	mirror   bool
	delivery *delivery // to be told whether raw arrived; may be nil
}

// An inbound is a message of a client as a front hands it over.
type inbound struct {
	msg     *jsonrpc.Message
	version string          // the protocol's, if the front knows; else the message may tell
	scope   string          // of the client's credentials; "" if it has none
	gone    <-chan struct{} // see turn
	unseen  func(*arrival)  // see turn
}

// effect returns the turn that msg is to become, or nil if it is to be passed
// on as it is. The error is a JSON-RPC error object for a request that two
// readers would understand differently.
func (s *Server) effect(ctx context.Context, in *inbound, c carrier) (*turn, json.RawMessage) {
	m := in.msg
	if m.Method != "tools/call" || !m.IsRequest() {
		return nil, nil
	}
	meta := jsonrpc.Get(m.Params, "_meta")
	if twice := cmp.Or(jsonrpc.Ambiguous(m.Params), jsonrpc.Duplicate(meta)); twice != "" {
		return nil, jsonrpc.ErrorObject(jsonrpc.CodeInvalidParams, fmt.Sprintf("the params have the member %q twice; nothing was sent", twice), nil)
	}
	if misspelt(m.Raw, "params") || misspelt(m.Params, "name", "arguments", "_meta") {
		return nil, jsonrpc.ErrorObject(jsonrpc.CodeInvalidParams, "a member of the call differs from what it should be in case only; nothing was sent", nil)
	}
	tool := jsonrpc.String(m.Params, "name")
	if tool == "" || s.harmless(tool) {
		return nil, nil // the server says what it thinks of a call without a name
	}
	if s.native && s.tools.get(tool) == nil {
		return nil, nil
	}
	sp, err := s.spec(tool)
	if err != nil {
		return nil, jsonrpc.ErrorObject(jsonrpc.CodeInvalidParams, err.Error(), nil)
	}
	if !sp.recorded() && !s.native {
		return nil, nil
	}
	t := &turn{carrier: c, ctx: ctx, msg: m, spec: sp, meta: meta, version: in.version, gone: in.gone, unseen: in.unseen,
		question: make(chan json.RawMessage, 1), done: make(chan struct{})}
	t.root = t
	if v := jsonrpc.String(meta, "io.modelcontextprotocol/protocolVersion"); v != "" {
		t.version = v
	}
	t.call = justonce.Call{Tenant: s.o.Tenant, Tool: sp.name, Scope: s.scope(sp, in.scope),
		Arguments:   jsonrpc.Get(m.Params, "arguments"),
		Key:         jsonrpc.String(meta, metaOperation),
		RunID:       jsonrpc.String(meta, metaRun),
		TraceParent: jsonrpc.String(meta, "traceparent")}
	if t.task = jsonrpc.Get(m.Params, "task") != nil; t.task && !sp.declared {
		t.call.Scope += taskScope // who wants a task can do nothing with a plain answer, nor the other way round
	}
	return t, nil
}

// misspelt reports whether an object has a member that is one of names but for its
// case: to some readers it is the same.
func misspelt(object json.RawMessage, names ...string) (found bool) {
	jsonrpc.Members(object, func(name string, _ json.RawMessage) bool {
		for _, n := range names {
			found = found || name != n && strings.EqualFold(name, n)
		}
		return !found
	})
	return found
}

// scope returns within which the derived keys of a call match.
func (s *Server) scope(sp *spec, credentials string) string {
	scope := cmp.Or(s.o.Scope, credentials)
	switch {
	case sp.declared || s.o.Instance == "":
		return scope
	case scope == "":
		return s.o.Instance
	}
	return s.o.Instance + "/" + scope
}

// sequence reads what tells deliberate equal calls apart, and takes the
// repeat argument out of the arguments.
func (t *turn) sequence() error {
	read := func(field string, v json.RawMessage) error {
		n, err := strconv.Atoi(string(v))
		if err != nil || n < 1 {
			return &justonce.InvalidError{Field: field, Detail: "it counts from 1: give 2 for the second deliberate time, 3 for the third"}
		}
		t.call.IntentSeq = n
		return nil
	}
	if v := jsonrpc.Get(t.meta, metaSeq); v != nil {
		if err := read(metaSeq, v); err != nil {
			return err
		}
	}
	if !t.spec.repeat {
		return nil
	}
	if v := jsonrpc.Get(t.call.Arguments, argRepeat); v != nil {
		t.call.Arguments = jsonrpc.Delete(t.call.Arguments, argRepeat)
		if string(v) != "null" {
			return read(argRepeat, v)
		}
	}
	return nil
}

// serve carries out a turn and returns what its client is to get.
func (s *Server) serve(t *turn) *response {
	err := t.sequence()
	if t.spec.mode == Observe {
		return s.observed(t)
	}
	if err != nil {
		return s.refused(t, err)
	}
	in, err := s.runner.Identify(t.ctx, t.call)
	if err != nil {
		return s.refused(t, err)
	}
	t.print = in.Fingerprint
	mark := s.mark(t)
	if op := s.marked(t.ctx, mark, in); op != nil {
		return s.recorded(t, &justonce.Answer{Operation: op, Replayed: true, MatchedBy: justonce.MatchKey})
	}
	s.settled(t, in.Ref)
	if aw := s.inputs.get(in.Ref); aw != nil && aw.root.print == t.print { // or the runner refuses
		if !aw.answers(t.msg.Params) {
			return &response{raw: jsonrpc.Response(t.msg.ID, s.marks(aw.question, map[string]any{metaKey: in.Key, metaJoined: true}))}
		}
		t.root = aw.root
		select {
		case aw.resume <- t:
			return s.finish(t, mark, func() {})
		case <-aw.over:
			t.root = t
		}
	}
	// The waiting outlives this turn where another one continues it.
	ctx, stop := context.WithCancel(withTurn(context.WithoutCancel(t.ctx), t))
	patience := time.AfterFunc(s.o.Wait, func() {
		if !t.inFlight() {
			stop()
		}
	})
	t.mu.Lock()
	t.back = func() { patience.Reset(s.o.Wait) }
	t.mu.Unlock()
	s.waiting.add(in.Ref, t)
	go func() {
		defer stop()
		t.answer, t.err = s.runner.Do(ctx, t.call)
		patience.Stop()
		s.waiting.remove(in.Ref, t)
		close(t.done)
	}()
	return s.finish(t, mark, stop)
}

// finish waits for the end of a turn: its operation's, a question of the
// server, or the client's leaving.
func (s *Server) finish(t *turn, mark string, stop func()) *response {
	select {
	case q := <-t.question:
		return &response{raw: jsonrpc.Response(t.msg.ID, s.marks(q, nil))}
	case <-t.ctx.Done():
		stop()
		return &response{}
	case <-t.root.done:
	}
	a, err := t.root.answer, t.root.err
	switch {
	case t.ctx.Err() != nil:
		return &response{}
	case errors.Is(err, justonce.ErrConflict):
		return s.conflict(t, err)
	case err != nil:
		return s.refused(t, err)
	}
	if mark != "" {
		s.intents.put(mark, a.Operation)
	}
	return s.answered(t, a)
}
