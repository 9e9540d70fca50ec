package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// answered renders how an operation stands for the client of t.
func (s *Server) answered(t *turn, a *justonce.Answer) *response {
	op := a.Operation
	if r := t.sent(); r != nil {
		switch {
		case r.Answered():
			// What the server said to this very request, whatever its size.
			return s.direct(t, a, r)
		case r.Stage == mcpconn.Withdrawn && r.Status != 0:
			return &response{mirror: true}
		case r.Stage == mcpconn.Withdrawn && op.State.Ended() && t.ctx.Err() != nil:
			return &response{}
		}
	}
	if op.State == justonce.Succeeded || op.State == justonce.Failed && op.Reason == justonce.ReasonRejected {
		return s.recorded(t, a)
	}
	return s.told(t, a)
}

// direct is the server's own answer, marked.
func (s *Server) direct(t *turn, a *justonce.Answer, r *mcpconn.Reply) *response {
	d := s.deliverTo(t, a.Operation)
	if r.Result == nil {
		return &response{raw: jsonrpc.ErrorResponse(t.msg.ID, r.Error), delivery: d}
	}
	return &response{raw: jsonrpc.Response(t.msg.ID, s.marks(r.Result, s.about(a))), delivery: d}
}

// deliverTo returns the delivery of an operation's answer to t; nil where it does
// not matter.
func (s *Server) deliverTo(t *turn, op *justonce.Operation) *delivery {
	derived := op.KeySource == justonce.KeyContent || op.KeySource == justonce.KeyIdentity
	if t.asking || !op.State.Ended() || !derived || t.spec.dedupe != justonce.UntilDelivered {
		return nil
	}
	return s.deliver(op, func(ctx context.Context) error { return s.runner.Delivered(ctx, op) })
}

// recorded is the recorded answer, as it was, with a note that says so.
func (s *Server) recorded(t *turn, a *justonce.Answer) *response {
	op := a.Operation
	d := s.deliverTo(t, op)
	if e := mcpconn.ErrorOf(op.Result); e != nil {
		return &response{raw: jsonrpc.ErrorResponse(t.msg.ID, e), delivery: d}
	}
	result := op.Result
	if s.native && op.State == justonce.Succeeded && len(result) > 0 && string(result) != "null" {
		result = wrapped(result)
	}
	if !isResult(result) || jsonrpc.Get(result, "task") != nil && !t.task && !t.asking && t.version != "" && t.version < stateless {
		r := s.told(t, a)
		r.delivery = d
		return r
	}
	result = adapt(result, t.version)
	if s.o.NoExtras {
		return &response{raw: jsonrpc.Response(t.msg.ID, result), delivery: d}
	}
	note := a.Advice().Text
	switch {
	case a.Joined:
		note = "This call met an equal one that was under way and shares its result; it was executed once. Do not call again."
	case !a.Replayed:
		note = ""
	case t.spec.repeat:
		note += fmt.Sprintf(" If you mean to do it once more, give the argument %s: %d.", argRepeat, op.IntentSeq+1)
	}
	if content := jsonrpc.Get(result, "content"); note != "" && len(content) > 0 && content[0] == '[' {
		block, _ := json.Marshal(map[string]string{"type": "text", "text": "[justonce] " + note})
		result = jsonrpc.Set(result, jsonrpc.Append(content, block), "content")
	}
	return &response{raw: jsonrpc.Response(t.msg.ID, s.marks(result, s.about(a))), delivery: d}
}

// isResult reports whether a recorded result is one of tools/call. One that a
// person gave, or a tombstone's, need not be.
func isResult(result json.RawMessage) bool {
	c := jsonrpc.Get(result, "content")
	return len(c) > 0 && c[0] == '[' || jsonrpc.String(result, "resultType") != "" || jsonrpc.Get(result, "task") != nil
}

// told is the state in words: what is known, what happens next, what not to do.
// It is an error to the model, since the call has no result, but a result to the
// protocol: frameworks repeat what fails below that.
func (s *Server) told(t *turn, a *justonce.Answer) *response {
	op := a.Operation
	advice := a.Advice()
	var b strings.Builder
	fmt.Fprintf(&b, "[justonce] %s: %s.", t.spec.tool, phrase(op))
	if f := op.Failure; f != nil && op.State != justonce.Pending {
		fmt.Fprintf(&b, " Reason: %s.", strings.TrimRight(f.String(), "."))
	}
	fmt.Fprintf(&b, " %s", advice.Text)
	done := op.State == justonce.Succeeded
	if done && len(op.Result) > 0 && string(op.Result) != "null" {
		fmt.Fprintf(&b, "\nThe recorded result: %s", op.Result)
	}
	if op.State.Open() && !s.o.NoExtras && !s.o.NoTools {
		fmt.Fprintf(&b, " Use %s with this key to wait for its end.", toolWait)
	}
	if op.Key != "" {
		fmt.Fprintf(&b, "\nOperation: %s", op.Key)
	}
	if op.State == justonce.Review && s.o.Decide != "" {
		fmt.Fprintf(&b, "\nTell the user; they settle it with: %s", strings.ReplaceAll(s.o.Decide, "%s", shellWord(op.Key)))
	}
	if op.Reference != "" {
		fmt.Fprintf(&b, "\nReference: %s", op.Reference)
	}
	meta := s.about(a)
	if s.o.NoExtras {
		meta = nil
	}
	result := s.typed(t, mcpconn.TextResult(b.String(), !done, meta))
	return &response{raw: jsonrpc.Response(t.msg.ID, result)}
}

func phrase(op *justonce.Operation) string {
	since := op.CreatedAt.UTC().Format(time.RFC3339)
	switch op.State {
	case justonce.Succeeded:
		return "done at " + op.UpdatedAt.UTC().Format(time.RFC3339)
	case justonce.Failed:
		return "not done (" + string(op.Reason) + ")"
	case justonce.Review:
		return "a person must decide about the call of " + since
	case justonce.Unknown:
		return "sent at " + since + ", the outcome is not known yet"
	case justonce.Running:
		return "running since " + since
	}
	return "recorded at " + since + ", not sent yet"
}

// conflict tells in what a call differs from the one whose key it has.
func (s *Server) conflict(t *turn, err error) *response {
	meta := map[string]any{metaAdvice: string(justonce.AdviceFixArguments)}
	var e *justonce.ConflictError
	if errors.As(err, &e) {
		meta[metaKey], meta[metaState], meta[metaMatchedBy] = e.Operation.Key, string(e.Operation.State), string(e.MatchedBy)
	}
	text := fmt.Sprintf("[justonce] %s: %s. If you mean the first call, repeat it with its arguments to get its result; if you mean another one, give it its own identity.", t.spec.tool, err)
	if t.spec.repeat {
		text += fmt.Sprintf(" To do it on purpose once more, give the argument %s: 2.", argRepeat)
	}
	return s.text(t, text, meta)
}

// refused tells why a call was not even begun.
func (s *Server) refused(t *turn, err error) *response {
	if t.ctx.Err() != nil {
		return &response{}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return s.text(t, fmt.Sprintf("[justonce] %s: the ledger has not answered in time; whether the call is recorded is not known. Call again in a while: it is still the same call.", t.spec.tool), nil)
	}
	text := fmt.Sprintf("[justonce] %s: %s. Nothing was sent.", t.spec.tool, err)
	if errors.Is(err, justonce.ErrUnavailable) {
		s.log.Error("a call was refused, since it could not be recorded", "tool", t.spec.tool, "error", err)
	}
	switch {
	case errors.Is(err, justonce.ErrLedgerGone):
		text = fmt.Sprintf("[justonce] %s: the ledger of what was done is gone. Do not call again, here or elsewhere, before a person has restored it: what was done would be done twice.", t.spec.tool)
	case errors.Is(err, justonce.ErrUnavailable):
		text = fmt.Sprintf("[justonce] %s: the ledger cannot record the call now, and what is not recorded is not sent. Call again in a while.", t.spec.tool)
	}
	return s.text(t, text, nil)
}

func (s *Server) text(t *turn, text string, meta map[string]any) *response {
	if s.o.NoExtras {
		meta = nil
	}
	return &response{raw: jsonrpc.Response(t.msg.ID, s.typed(t, mcpconn.TextResult(text, true, meta)))}
}

// about is what the _meta of an answer tells of the operation.
func (s *Server) about(a *justonce.Answer) map[string]any {
	m := map[string]any{metaState: string(a.Operation.State)}
	if a.Operation.Key != "" {
		m[metaKey] = a.Operation.Key
	}
	if a.Replayed {
		m[metaReplayed] = true
	}
	if a.Joined {
		m[metaJoined] = true
	}
	if a.MatchedBy == justonce.MatchIdentity {
		m[metaMatchedBy] = string(a.MatchedBy)
	}
	if a.Operation.State != justonce.Succeeded {
		m[metaAdvice] = string(a.Advice().Code)
	}
	return m
}

// marks returns a result with members added to its _meta.
func (s *Server) marks(result json.RawMessage, meta map[string]any) json.RawMessage {
	if s.o.NoExtras {
		return result
	}
	for _, key := range []string{metaKey, metaState, metaReplayed, metaJoined, metaMatchedBy, metaAdvice} {
		if v, ok := meta[key]; ok {
			b, _ := json.Marshal(v)
			result = jsonrpc.Set(result, b, "_meta", key)
		}
	}
	return result
}

// stateless is the first version of the protocol whose results have a type.
const stateless = "2026-07-28"

// typed gives a result of ours its type where the client's version has one.
func (s *Server) typed(t *turn, result json.RawMessage) json.RawMessage {
	return adapt(result, t.version)
}

// adapt changes a recorded result as far as the client's version of the protocol
// demands: it may have been recorded for a client with another one.
func adapt(result json.RawMessage, version string) json.RawMessage {
	typ := jsonrpc.Get(result, "resultType")
	switch {
	case version == "":
	case version >= stateless && typ == nil:
		result = jsonrpc.Set(result, json.RawMessage(`"complete"`), "resultType")
	case version < stateless && string(typ) == `"complete"`:
		result = jsonrpc.Delete(result, "resultType")
	}
	// Before, structured content had to be an object.
	if sc := jsonrpc.Get(result, "structuredContent"); sc != nil && version != "" && version < stateless && !jsonrpc.IsObject(sc) {
		result = jsonrpc.Delete(result, "structuredContent")
	}
	return result
}

// shellWord returns a key as one word of a shell.
func shellWord(key string) string {
	if plainWord.MatchString(key) {
		return key
	}
	return "'" + strings.ReplaceAll(key, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+-]+$`)
