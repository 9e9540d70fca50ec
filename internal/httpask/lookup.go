package httpask

import (
	"fmt"
	"net/http"
	"time"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// A Lookup describes how a provider is asked, by one read, what became of an
// operation. The request's templates also have the variables reference,
// first_sent and unknown_at. Expressions have those and status, headers, body
// and text.
//
// Either one thing is fetched (Found), or a list of which items are matched
// (Items and Match). What an expression cannot tell is no answer.
type Lookup struct {
	Request Request `json:"request"`

	// Found says that the answer shows the effect. Defaults to a 2xx status.
	Found string `json:"found,omitempty"`

	// Items gives the list of candidates, as in body.data. It replaces Found.
	Items string `json:"items,omitempty"`
	// Match says of each item whether it may be this operation's effect; the
	// variable item holds it. Required with Items, as is Reference.
	Match string `json:"match,omitempty"`
	// ItemTime gives an item's time: a timestamp, RFC 3339 text, or seconds or
	// milliseconds since 1970. An item from before first_sent - Skew is no match.
	ItemTime string `json:"item_time,omitempty"`
	// Skew is how far the provider's clock may be behind. Defaults to 2 minutes.
	Skew time.Duration `json:"skew,omitempty"`
	// Complete says that the list shows everything that could match. Defaults
	// to true. An incomplete list proves no absence.
	Complete string `json:"complete,omitempty"`

	// Absent says that the provider knows of no such effect. Defaults to status
	// 404, and with Items to no match in a complete list of a 2xx answer.
	Absent string `json:"absent,omitempty"`
	// Failed says that the provider knows it, and that it failed without
	// effect. Progress says that the provider still works on it. No defaults.
	Failed   string `json:"failed,omitempty"`
	Progress string `json:"progress,omitempty"`

	// Reference gives the provider's name for the effect. With Items it is
	// asked of each match.
	Reference string `json:"reference,omitempty"`
	// Result gives what callers get. Defaults to the body, with Items to the
	// item.
	Result string `json:"result,omitempty"`
	// FailureCode and FailureMessage tell of Failed. Defaults as for answers.
	FailureCode    string `json:"failure_code,omitempty"`
	FailureMessage string `json:"failure_message,omitempty"`

	// MaxAnswer bounds the body, in bytes. Defaults to 4 MiB. A larger one is
	// no answer.
	MaxAnswer int64 `json:"max_answer,omitempty"`
}

// DefaultSkew is the default of [Lookup.Skew].
const DefaultSkew = 2 * time.Minute

// A Finder carries out a Lookup. It may be used from many goroutines.
type Finder struct {
	builder   *Builder
	judge     *Judge
	limit     int64
	absent404 bool
	found2xx  bool
	failure   Failures
}

// Compile checks l and returns its finder. More are further variables, which
// [Operation.More] must give.
func (l Lookup) Compile(more map[string]celexpr.Kind) (*Finder, error) {
	if l.Request.Method == "" {
		l.Request.Method = http.MethodGet
	}
	requests, err := celexpr.NewEnv(with(LookupVars(), more))
	if err != nil {
		return nil, err
	}
	vars := with(with(LookupVars(), AnswerVars()), more)
	answers, err := celexpr.NewEnv(vars)
	if err != nil {
		return nil, err
	}
	f := &Finder{limit: l.MaxAnswer,
		absent404: l.Items == "" && l.Absent == "", found2xx: l.Items == "" && l.Found == ""}
	if f.limit == 0 {
		f.limit = 4 << 20
	}
	if f.judge, err = l.Judge(vars); err != nil {
		return nil, err
	}
	if f.builder, err = l.Request.Compile(requests); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	c := Compiler{}
	f.failure = c.Failures(answers, l.FailureCode, l.FailureMessage)
	return f, c.Err
}
