package mcpproxy

import (
	"context"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// observed passes a call on whatever the ledger says, and records what would
// have become of it.
func (s *Server) observed(t *turn) *response {
	if in, err := s.runner.Identify(t.ctx, t.call); err == nil {
		// Or an equal call right after a delivered answer counts as a duplicate.
		s.settled(t, justonce.Ref{Tenant: justonce.ObservedTenant(in.Tenant), Key: in.Key})
	}
	o, err := s.runner.Observe(t.ctx, t.call)
	if err != nil {
		s.log.Warn("a call could not be observed; it was passed on", "tool", t.spec.tool, "error", err)
		o = nil
	}
	var r mcpconn.Reply
	caller := once(func(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
		if !t.claim() {
			r = mcpconn.Reply{Stage: mcpconn.Withdrawn, Cause: errTakenBack}
		} else {
			r = t.forward(ctx, t.outbound())
			t.over(&r)
		}
		return r
	})
	// The client's leaving ends the call as it would without justonce.
	ctx := context.WithValue(t.ctx, onceKey{}, caller)
	if o == nil || o.Would != justonce.CallExecuted {
		caller(ctx, nil)
	} else {
		op := o.Operation
		out := t.spec.connector.Send(ctx, &justonce.Attempt{Ref: op.Ref, Tool: t.spec.name, Scope: op.Scope, RunID: op.RunID,
			Arguments: t.call.Arguments, WireKey: op.WireKey, Number: 1, TraceParent: t.call.TraceParent})
		if err := o.Settle(context.WithoutCancel(ctx), out); err != nil {
			s.log.Warn("what became of an observed call could not be recorded", "tool", t.spec.tool, "error", err)
		}
	}
	switch {
	case t.ctx.Err() != nil:
		return &response{}
	case r.Result != nil:
		return &response{raw: jsonrpc.Response(t.msg.ID, r.Result), delivery: s.observedDelivery(o)}
	case r.Error != nil:
		return &response{raw: jsonrpc.ErrorResponse(t.msg.ID, r.Error), delivery: s.observedDelivery(o)}
	case r.Status != 0:
		return &response{mirror: true}
	}
	return &response{raw: jsonrpc.ErrorResponse(t.msg.ID, noAnswer(&r))}
}

func (s *Server) observedDelivery(o *justonce.Observation) *delivery {
	if o == nil || o.Operation == nil || !o.Operation.State.Ended() && o.Would == justonce.CallExecuted {
		return nil
	}
	return s.deliver(o.Operation, o.Delivered)
}

// noAnswer is what a client is told of a call that the server did not answer.
func noAnswer(r *mcpconn.Reply) []byte {
	what := "the server did not answer"
	if r.Cause != nil {
		what += ": " + r.Cause.Error()
	}
	return jsonrpc.ErrorObject(jsonrpc.CodeInternal, what, nil)
}

type onceKey struct{}

type callFunc func(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply

// once returns f, which is not called a second time.
func once(f callFunc) callFunc {
	called := false
	return func(ctx context.Context, c *mcpconn.ToolCall) mcpconn.Reply {
		if called {
			return mcpconn.Reply{Stage: mcpconn.Withdrawn}
		}
		called = true
		return f(ctx, c)
	}
}
