package httpconn

import (
	"fmt"
	"slices"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/celexpr"
	"github.com/justonce-dev/justonce/internal/httpask"
)

// A judge says what an answer proves.
type judge struct {
	declared   []condition
	byStatus   map[justonce.OutcomeKind]bool // kinds whose defaults apply
	conclusive *celexpr.Expr
	byKey      bool
	reference  *celexpr.Expr
	result     *celexpr.Expr
	failure    httpask.Failures
}

type condition struct {
	kind justonce.OutcomeKind
	when *celexpr.Expr
}

func (a Answer) compile(c justonce.Capability) (judge, error) {
	vars := httpask.RequestVars()
	for name, kind := range httpask.AnswerVars() {
		vars[name] = kind
	}
	env, err := celexpr.NewEnv(vars)
	if err != nil {
		return judge{}, err
	}
	j := judge{byStatus: map[justonce.OutcomeKind]bool{}, byKey: c == justonce.ByKey}
	var x httpask.Compiler
	for _, d := range []struct {
		kind   justonce.OutcomeKind
		name   string
		source string
	}{
		{justonce.OutcomeSucceeded, "succeeded", a.Succeeded},
		{justonce.OutcomeRejected, "rejected", a.Rejected},
		{justonce.OutcomeNotExecuted, "not_executed", a.NotExecuted},
		{justonce.OutcomeAccepted, "accepted", a.Accepted},
	} {
		if d.source == "" {
			j.byStatus[d.kind] = true
		} else if e := x.Bool(env, d.name, d.source); e != nil {
			j.declared = append(j.declared, condition{d.kind, e})
		}
	}
	j.conclusive = x.Bool(env, "conclusive", a.Conclusive)
	j.reference = x.Any(env, "reference", a.Reference)
	j.result = x.Any(env, "result", a.Result)
	j.failure = x.Failures(env, a.FailureCode, a.FailureMessage)
	if x.Err != nil {
		return j, fmt.Errorf("answer: %w", x.Err)
	}
	return j, nil
}

// judge fills in o. Whatever goes wrong here happens after a send: unknown.
func (j *judge) judge(o *justonce.Outcome, a *httpask.Answer, v celexpr.Vars) {
	kind, err := j.kind(a.Status, v)
	if err == nil && (kind == justonce.OutcomeSucceeded || kind == justonce.OutcomeAccepted) {
		err = j.effect(o, a, v)
	}
	if err != nil {
		o.Kind, o.Result, o.Reference = justonce.OutcomeUnknown, nil, ""
		o.Failure = &justonce.Failure{Code: "answer_not_understood", Message: httpask.Clip(err.Error(), 400)}
		return
	}
	o.Kind = kind
	switch kind {
	case justonce.OutcomeSucceeded, justonce.OutcomeAccepted:
		return
	case justonce.OutcomeRejected:
		o.Conclusive = j.isConclusive(a, v)
	}
	code, message := j.failure.Of(a.Status, v)
	o.Failure = &justonce.Failure{Code: code, Message: message}
}

func (j *judge) kind(status int, v celexpr.Vars) (justonce.OutcomeKind, error) {
	var found []justonce.OutcomeKind
	for _, c := range j.declared {
		yes, err := c.when.Bool(v)
		if err != nil {
			return 0, err
		}
		if yes {
			found = append(found, c.kind)
		}
	}
	switch len(found) {
	case 0:
		if kind := statusKind(status); j.byStatus[kind] {
			return kind, nil
		}
		return justonce.OutcomeUnknown, nil
	case 1:
		return found[0], nil
	}
	return 0, fmt.Errorf("the answer counts as %v at once", found)
}

// effect reads reference and result of an answer that reports an effect.
func (j *judge) effect(o *justonce.Outcome, a *httpask.Answer, v celexpr.Vars) error {
	var err error
	if o.Reference, err = httpask.Reference(j.reference, v); err != nil && !a.TooLarge {
		return err
	}
	if o.Result, err = httpask.ResultOf(j.result, a.Body, v); err != nil && !a.TooLarge {
		return fmt.Errorf("the result: %w", err)
	}
	return nil
}

var (
	rejectedStatus    = []int{307, 308, 400, 402, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 417, 422, 426, 428, 431, 451}
	notExecutedStatus = []int{401, 407, 425, 429}
	// inconclusive answers come from before the provider looked at the key.
	inconclusive = []int{401, 403, 407, 429}
)

// statusKind is the default meaning of a status. 409, 423 and all of 5xx may
// mean that the effect exists or is under way: unknown.
func statusKind(status int) justonce.OutcomeKind {
	switch {
	case status >= 200 && status < 300:
		return justonce.OutcomeSucceeded
	case slices.Contains(rejectedStatus, status):
		return justonce.OutcomeRejected
	case slices.Contains(notExecutedStatus, status):
		return justonce.OutcomeNotExecuted
	}
	return justonce.OutcomeUnknown
}

func (j *judge) isConclusive(a *httpask.Answer, v celexpr.Vars) bool {
	if slices.Contains(inconclusive, a.Status) {
		return false
	}
	if j.conclusive != nil {
		yes, err := j.conclusive.Bool(v)
		return err == nil && yes
	}
	h := a.Header
	return h.Get("Idempotent-Replayed") == "true" || h.Get("Idempotency-Replayed") == "true" ||
		h.Get("X-Idempotency-Lookup") == "hit" || j.byKey && a.Status == 402
}
