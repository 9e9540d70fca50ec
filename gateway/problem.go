package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/justonce-dev/justonce"
)

// problemBase is what the types of problems start with. They are stable names;
// nothing need be there.
const problemBase = "https://justonce.dev/problems/"

const (
	slugInvalid     = "invalid"
	slugArguments   = "arguments"
	slugTooLarge    = "too-large"
	slugMediaType   = "media-type"
	slugUnknownTool = "unknown-tool"
	slugNotFound    = "not-found"
	slugPath        = "no-such-path"
	slugMethod      = "method"
	slugConflict    = "conflict"
	slugNotAllowed  = "not-allowed"
	slugHost        = "foreign-host"
	slugOrigin      = "foreign-origin"
	slugUnsupported = "unsupported"
	slugUnavailable = "unavailable"
	slugStopping    = "stopping"
	slugLedgerGone  = "ledger-gone"
	slugNoAnswerYet = "no-answer-yet"
	slugInternal    = "internal"
)

// A Problem is an answer of the gateway that is no answer to the call (RFC
// 9457). As an error, of the [Client], it is also the error of the root package
// that it stands for, where there is one.
type Problem struct {
	Type   string          `json:"type" format:"uri" doc:"Stable name of the kind of problem."`
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail,omitempty" doc:"What was wrong this time."`
	Hint   string          `json:"hint,omitempty" doc:"What to do about it."`
	Advice justonce.Advice `json:"advice"`

	// Of a malformed request: where, and which bound was broken.
	Field    string `json:"field,omitempty" doc:"The member, header or parameter, or a JSON Pointer below arguments."`
	Schema   bool   `json:"schema,omitempty" doc:"The arguments break the tool's schema or lack its identity."`
	TooLarge bool   `json:"too_large,omitempty"`

	// Of a conflict: the operation that is there, and what differs.
	Key       string         `json:"key,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	State     justonce.State `json:"state,omitempty"`
	MatchedBy justonce.Match `json:"matched_by,omitempty" enum:"key,identity"`
	Paths     []string       `json:"paths,omitempty" nullable:"false" doc:"JSON Pointers to the arguments that differ."`
	Differs   []string       `json:"differs,omitempty" nullable:"false" doc:"What else differs: tool, scope."`

	// Of a decision that the state does not allow.
	Event justonce.EventKind `json:"event,omitempty"`
	Why   string             `json:"why,omitempty"`
}

func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// Is reports whether target is the error of the root package that p stands
// for. Where the gateway itself does not know what became of the request it is
// [ErrNoAnswer].
func (p *Problem) Is(target error) bool {
	if target == ErrNoAnswer {
		return p.slug() == slugNoAnswerYet || p.slug() == slugInternal
	}
	k := kindOf(p.slug())
	return k.err != nil && errors.Is(k.err, target)
}

func (p *Problem) slug() string { return strings.TrimPrefix(p.Type, problemBase) }

// A kind is a row of the one table between errors and statuses.
type kind struct {
	slug   string
	status int
	err    error // of the root package; nil: the gateway's own
	title  string
	hint   string
	advice justonce.Advice
	again  int // seconds, for Retry-After; 0: none
}

func kinds() []kind {
	const (
		fix  = justonce.AdviceFixArguments
		wait = justonce.AdviceWait
		dont = justonce.AdviceDoNotRetry
		ask  = justonce.AdviceAskAPerson
	)
	return []kind{
		{slugInvalid, 400, justonce.ErrInvalid, "The request is malformed", "",
			justonce.Advice{Code: fix, Text: "Nothing was sent. Correct the request as the detail says and call again."}, 0},
		{slugArguments, 422, justonce.ErrInvalid, "The tool does not take these arguments", "GET /v1/tools shows the schema and the identity of each tool",
			justonce.Advice{Code: fix, Text: "Nothing was sent. Correct the arguments as the detail says and call again."}, 0},
		{slugTooLarge, 413, justonce.ErrInvalid, "The request is too large", "send less, or a reference to the data",
			justonce.Advice{Code: fix, Text: "Nothing was sent. Send less, or a reference to the data."}, 0},
		{slugMediaType, 415, nil, "The body is not JSON", "send Content-Type: application/json, without Content-Encoding",
			justonce.Advice{Code: fix, Text: "Nothing was sent. Send JSON and say so in Content-Type."}, 0},
		{slugUnknownTool, 404, justonce.ErrUnknownTool, "There is no such tool", "GET /v1/tools lists the tools",
			justonce.Advice{Code: fix, Text: "Nothing was sent. Call one of the tools that there are."}, 0},
		{slugNotFound, 404, justonce.ErrNotFound, "There is no such operation", "escape the key as one path segment, / as %2F",
			justonce.Advice{Code: fix, Text: "Nothing is recorded under this key. Check the key."}, 0},
		{slugPath, 404, nil, "There is no such path", "GET /openapi.json describes the paths",
			justonce.Advice{Code: dont, Text: "Nothing was sent. Use a path that there is."}, 0},
		{slugMethod, 405, nil, "The path does not take this method", "see the Allow header",
			justonce.Advice{Code: dont, Text: "Nothing was sent. Use a method that the path takes."}, 0},
		{slugConflict, 409, justonce.ErrConflict, "The key or identity stands for another call",
			"repeat the first call to get its result; for a second effect on purpose use another key, identity or intent_seq",
			justonce.Advice{Code: dont, Text: "Nothing was sent: the same intent was called before with other arguments. Look at that operation; do not call again with a new key unless a second effect is wanted."}, 0},
		{slugNotAllowed, 409, justonce.ErrNotAllowed, "The operation's state does not allow that", "look at the operation: it has moved on",
			justonce.Advice{Code: ask, Text: "Nothing was changed. Look at the operation as it stands."}, 0},
		{slugHost, 403, nil, "The request names a foreign host", "address the gateway by a loopback address or localhost, or add the name to the gateway's hosts",
			justonce.Advice{Code: dont, Text: "Nothing was sent. Address the gateway by a loopback address."}, 0},
		{slugOrigin, 403, nil, "The request comes from a foreign origin", "add the origin to the gateway's origins if its pages may call tools",
			justonce.Advice{Code: dont, Text: "Nothing was sent. Pages of other origins may not call tools."}, 0},
		{slugUnsupported, 501, nil, "This gateway's service cannot do that", "",
			justonce.Advice{Code: dont, Text: "Nothing was sent. This is not available here."}, 0},
		{slugStopping, 503, justonce.ErrUnavailable, "The gateway is shutting down", "try again; another process will take over",
			justonce.Advice{Code: wait, Text: "Nothing was sent. Make the same call again, with the same key, in a moment."}, 1},
		{slugLedgerGone, 503, justonce.ErrLedgerGone, "The ledger is gone", "restore it before a gateway starts again: in an empty ledger nothing counts as done",
			justonce.Advice{Code: ask, Text: "Nobody knows any more what was done. Do not call again, here or elsewhere, before a person has restored the ledger: what was done would be done twice."}, 0},
		{slugUnavailable, 503, justonce.ErrUnavailable, "The ledger is unavailable", "see the gateway's log for the reason",
			justonce.Advice{Code: wait, Text: "Nothing was sent. Make the same call again, with the same key, in a moment."}, 1},
		{slugNoAnswerYet, 503, nil, "There was no answer in time", "repeat the same request",
			justonce.Advice{Code: wait, Text: "It is not known yet whether this call was recorded. Make the same call again, with the same key: it has its effect once."}, 1},
		{slugInternal, 500, nil, "Something went wrong in the gateway", "see the gateway's log",
			justonce.Advice{Code: wait, Text: "It is not known whether this call was recorded. Make the same call again, with the same key: it has its effect once."}, 0},
	}
}

var kindTable = kinds()

func kindOf(slug string) *kind {
	for i := range kindTable {
		if kindTable[i].slug == slug {
			return &kindTable[i]
		}
	}
	return &kind{slug: slug}
}

func problemOf(slug, detail string) *Problem {
	k := kindOf(slug)
	return &Problem{Type: problemBase + slug, Title: k.title, Status: k.status, Detail: detail, Hint: k.hint, Advice: k.advice}
}

// A deed is what a request was about to do; it decides what a failure of the
// ledger means.
type deed int

const (
	calling deed = iota
	reading
	deciding
)

// problemFor translates an error of the service.
func problemFor(what deed, err error) *Problem {
	var (
		own     *Problem
		invalid *justonce.InvalidError
		clash   *justonce.ConflictError
		move    *justonce.TransitionError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &invalid):
		slug := slugInvalid
		switch {
		case invalid.TooLarge && invalid.Field != "key":
			slug = slugTooLarge
		case invalid.Schema:
			slug = slugArguments
		}
		p := problemOf(slug, invalid.Error())
		p.Field, p.Schema, p.TooLarge = invalid.Field, invalid.Schema, invalid.TooLarge
		return p
	case errors.As(err, &clash):
		p := problemOf(slugConflict, clash.Error())
		p.Key, p.Tool, p.State = clash.Operation.Key, clash.Operation.Tool, clash.Operation.State
		p.MatchedBy, p.Paths, p.Differs = clash.MatchedBy, clash.Paths, clash.Differs
		return p
	case errors.As(err, &move):
		p := problemOf(slugNotAllowed, move.Error())
		p.State, p.Event, p.Why = move.State, move.Event, move.Why
		return p
	case errors.Is(err, justonce.ErrLedgerGone):
		return problemOf(slugLedgerGone, "somebody has emptied or replaced the ledger")
	case errors.Is(err, justonce.ErrUnavailable):
		p := problemOf(slugUnavailable, "the ledger could not record the call; nothing was sent")
		switch what { // the error itself may tell of addresses and accounts
		case reading:
			p.Detail, p.Advice.Text = "the ledger could not be read", "The ledger cannot be read now. Ask again in a moment."
		case deciding:
			p.Detail = "it is not known whether the decision was recorded"
			p.Advice.Text = "Look at the operation before you decide again."
		}
		return p
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p := problemOf(slugNoAnswerYet, "the ledger has not answered yet")
		if what != calling {
			p.Advice.Text = "Look again in a moment."
		}
		return p
	}
	if errors.Is(err, justonce.ErrNotFound) {
		return problemOf(slugNotFound, "nothing is recorded under this key")
	}
	for _, k := range kindTable {
		if k.err != nil && errors.Is(err, k.err) {
			return problemOf(k.slug, err.Error())
		}
	}
	return problemOf(slugInternal, "")
}

// fail answers with the problem that err is. Faults on our side are logged,
// here and nowhere else.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, what deed, err error) {
	p := problemFor(what, err)
	if p.Status >= 500 && p.slug() != slugStopping && r.Context().Err() == nil {
		s.log.Error("a request failed", "route", r.Pattern, "status", p.Status, "error", err)
	}
	s.problem(w, p)
}

// problem answers with p and counts it.
func (s *Server) problem(w http.ResponseWriter, p *Problem) {
	s.metrics.refuse(p.Status, p.slug())
	if again := kindOf(p.slug()).again; again > 0 {
		w.Header()["Retry-After"] = []string{itoa(again)}
	}
	tell(w, p.Status, problemType, marshal(p))
}

// marshal returns v as JSON, without escapes made for HTML.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // of our own types only
	}
	return b.Bytes()
}
