package mcpconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/httpask"
	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// Error codes of MCP beyond those of JSON-RPC.
const (
	codeHeaderMismatch      = -32020
	codeMissingCapabilities = -32021
	codeUnsupportedVersion  = -32022
	codeElicitationRequired = -32042
)

// A judge says what a reply proves.
type judge struct {
	isError    string
	conditions []condition
	reference  *celexpr.Expr
}

type condition struct {
	kind justonce.OutcomeKind
	when *celexpr.Expr
}

func (a Answer) compile() (judge, error) {
	j := judge{isError: a.IsError}
	switch j.isError {
	case "":
		j.isError = IsErrorAnswered
	case IsErrorAnswered, IsErrorRejected, IsErrorUnknown:
	default:
		return j, fmt.Errorf("answer: is_error %q is none of answered, rejected, unknown", a.IsError)
	}
	env, err := celexpr.NewEnv(answerKinds(httpask.RequestVars()))
	if err != nil {
		return j, err
	}
	var x httpask.Compiler
	for _, d := range []struct {
		kind   justonce.OutcomeKind
		name   string
		source string
	}{
		{justonce.OutcomeRejected, "rejected", a.Rejected},
		{justonce.OutcomeNotExecuted, "not_executed", a.NotExecuted},
		{justonce.OutcomeUnknown, "unknown", a.Unknown},
		{justonce.OutcomeAccepted, "accepted", a.Accepted},
	} {
		if e := x.Bool(env, d.name, d.source); e != nil {
			j.conditions = append(j.conditions, condition{d.kind, e})
		}
	}
	if j.reference = x.Any(env, "reference", a.Reference); x.Err != nil {
		return j, fmt.Errorf("answer: %w", x.Err)
	}
	return j, nil
}

// outcome judges r. Vars gives the operation's variables.
func (j *judge) outcome(r *Reply, vars func() (answerVars, error)) justonce.Outcome {
	o := justonce.Outcome{Evidence: evidence(r), RetryAfter: r.RetryAfter}
	switch {
	case !r.Answered():
		unanswered(&o, r)
	case r.Stage == Withdrawn:
		o.Kind = justonce.OutcomeWithdrawn
		o.Failure, _ = failureOf(r)
	case r.Error != nil && j.refused(&o, r):
	case IsInputRequired(r.Result):
		o.Kind = justonce.OutcomeWithdrawn
		o.Failure = &justonce.Failure{Code: "input_required", Message: "the server cannot complete the call without input, and nobody is there to give it"}
	default:
		j.answered(&o, r, vars)
	}
	return o
}

// unanswered judges a reply without a JSON-RPC message.
func unanswered(o *justonce.Outcome, r *Reply) {
	code, message := "no_answer", "the server gave no answer"
	if r.Cause != nil {
		message = httpask.Clip(r.Cause.Error(), 300)
	}
	switch {
	case r.Stage == Withdrawn:
		o.Kind, code = justonce.OutcomeWithdrawn, "withdrawn"
	case r.Stage == Unsent:
		o.Kind, code = justonce.OutcomeNotExecuted, "not_sent"
	case r.Status >= 400 && !doubtful(r.Status):
		// Refused before the server looked at it as a message.
		o.Kind, code = justonce.OutcomeNotExecuted, "http_"+strconv.Itoa(r.Status)
	case errors.Is(r.Cause, context.DeadlineExceeded):
		code = "timeout"
	}
	if r.Cause == nil && r.Status != 0 {
		message = fmt.Sprintf("the server answered %d %s, without a message", r.Status, http.StatusText(r.Status))
	}
	o.Failure = &justonce.Failure{Code: code, Message: message}
}

// doubtful reports whether a status leaves open what happened.
func doubtful(status int) bool { return status >= 500 || status == http.StatusRequestTimeout }

// refused judges the JSON-RPC errors that speak for themselves.
func (j *judge) refused(o *justonce.Outcome, r *Reply) bool {
	e := errorOf(r.Error)
	f := &justonce.Failure{Code: strconv.Itoa(e.Code), Message: httpask.Clip(e.Message, 500)}
	switch e.Code {
	case jsonrpc.CodeParse, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams,
		codeHeaderMismatch, codeUnsupportedVersion:
		o.Kind, o.Failure, o.Result = justonce.OutcomeRejected, f, wrapError(r.Error)
		return true
	case codeElicitationRequired, codeMissingCapabilities:
		// The same call, made again by a client that can do more, may well work.
		f.Code = "input_required"
		o.Kind, o.Failure = justonce.OutcomeWithdrawn, f
		return true
	}
	if r.Status == http.StatusUnauthorized || r.Status == http.StatusTooManyRequests {
		o.Kind, o.Failure = justonce.OutcomeNotExecuted, f
		return true
	}
	return false
}

// answered judges a result, or an error that speaks of the tool.
func (j *judge) answered(o *justonce.Outcome, r *Reply, vars func() (answerVars, error)) {
	v := answerVars{}
	if len(j.conditions) > 0 || j.reference != nil {
		var err error
		if v, err = vars(); err == nil {
			err = addAnswer(v, r)
		}
		if err != nil {
			notUnderstood(o, err)
			return
		}
	}
	said, err := j.said(v)
	if err != nil {
		notUnderstood(o, err)
		return
	}
	failed, bad := failureOf(r)
	switch {
	case said != nil:
		o.Kind = *said
	case r.Error != nil && doubtful(r.Status):
		// Whoever stands before the server may speak here, say of a timeout.
	case !bad || j.isError == IsErrorAnswered:
		o.Kind = justonce.OutcomeSucceeded
	case j.isError == IsErrorRejected:
		o.Kind = justonce.OutcomeRejected
	}
	switch o.Kind {
	case justonce.OutcomeSucceeded:
		if o.Result = recorded(r); bad {
			o.Note = noteOf(r)
			return
		}
		if o.Reference, err = httpask.Reference(j.reference, v); err != nil {
			// The answer is proof enough that the call was run.
			o.Evidence["note"] = httpask.Clip("no reference: "+err.Error(), 300)
		}
	case justonce.OutcomeAccepted:
		if o.Reference, err = httpask.Reference(j.reference, v); err != nil {
			notUnderstood(o, err)
			return
		}
		o.Result = recorded(r)
	case justonce.OutcomeRejected:
		o.Failure, o.Result = failed, recorded(r)
	default:
		o.Failure = failed
	}
}

// said returns what the conditions say; nil: nothing.
func (j *judge) said(v answerVars) (*justonce.OutcomeKind, error) {
	var found []justonce.OutcomeKind
	for _, c := range j.conditions {
		yes, err := c.when.Bool(v)
		if err != nil {
			return nil, err
		}
		if yes {
			found = append(found, c.kind)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &found[0], nil
	}
	return nil, fmt.Errorf("the answer counts as %v at once", found)
}

// notUnderstood makes o unknown: whatever goes wrong here, the call was made.
func notUnderstood(o *justonce.Outcome, err error) {
	o.Kind, o.Result, o.Reference = justonce.OutcomeUnknown, nil, ""
	o.Failure = &justonce.Failure{Code: "answer_not_understood", Message: httpask.Clip(err.Error(), 400)}
}

// failureOf tells of an answer that did not succeed, and whether the server
// itself says so.
func failureOf(r *Reply) (*justonce.Failure, bool) {
	if r.Error != nil {
		e := errorOf(r.Error)
		return &justonce.Failure{Code: strconv.Itoa(e.Code), Message: httpask.Clip(e.Message, 500)}, true
	}
	text := textOf(r.Result)
	if text == "" {
		text = "the tool answered with an error"
	}
	return &justonce.Failure{Code: "tool_error", Message: httpask.Clip(text, 500)}, isError(r.Result)
}

func noteOf(r *Reply) string {
	if r.Error != nil {
		return "the server answered with an error"
	}
	return "the server answered with an error (isError)"
}

// recorded returns what the ledger keeps of an answer: the bytes as they came.
func recorded(r *Reply) json.RawMessage {
	if r.Error != nil {
		return wrapError(r.Error)
	}
	return r.Result
}

// evidence says what was seen; never arguments, headers or answers.
func evidence(r *Reply) map[string]string {
	e := map[string]string{}
	if r.Status != 0 {
		e["status"] = strconv.Itoa(r.Status)
	}
	switch {
	case r.Result != nil:
		e["is_error"] = strconv.FormatBool(isError(r.Result))
	case r.Error != nil:
		e["error_code"] = strconv.Itoa(errorOf(r.Error).Code)
	default:
		e["stage"] = r.Stage.String()
		if r.Cause != nil {
			e["error"] = httpask.Clip(r.Cause.Error(), 300)
		}
	}
	return e
}
