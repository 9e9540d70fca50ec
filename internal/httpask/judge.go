package httpask

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// A Judge says what a lookup's answer shows. It knows no transport, and may be
// used from many goroutines.
type Judge struct {
	skew      time.Duration
	items     *celexpr.Expr
	match     *celexpr.Expr
	itemTime  *celexpr.Expr
	complete  *celexpr.Expr
	explicit  []verdict
	absent    bool // Absent is declared
	reference *celexpr.Expr
	result    *celexpr.Expr
}

type verdict struct {
	kind Kind
	when *celexpr.Expr
}

// Shown is what was answered to a lookup.
type Shown struct {
	Raw  []byte // the result, where no expression gives one
	Vars celexpr.Vars
	// NoList is why it holds no list of candidates; nil: it may.
	NoList error
	// Default is what it shows where nothing that was declared is true.
	Default Kind
}

// Judge checks the expressions of l and returns their judge; the request and
// what tells of a failure are left to the caller. Vars are all variables but
// item.
func (l Lookup) Judge(vars map[string]celexpr.Kind) (*Judge, error) {
	if l.Items == "" && (l.Match != "" || l.ItemTime != "" || l.Complete != "") {
		return nil, errors.New("match, item_time and complete go with items")
	}
	if l.Items != "" && (l.Match == "" || l.Reference == "" || l.Found != "") {
		return nil, errors.New("items need match and reference, and replace found")
	}
	answers, err := celexpr.NewEnv(vars)
	if err != nil {
		return nil, err
	}
	items, err := celexpr.NewEnv(with(with(map[string]celexpr.Kind{}, vars), map[string]celexpr.Kind{"item": celexpr.Any}))
	if err != nil {
		return nil, err
	}
	j := &Judge{skew: l.Skew, absent: l.Absent != ""}
	if j.skew == 0 {
		j.skew = DefaultSkew
	}
	each := answers
	if l.Items != "" {
		each = items
	}
	c := Compiler{}
	j.items = c.Any(answers, "items", l.Items)
	j.match = c.Bool(items, "match", l.Match)
	j.itemTime = c.Any(items, "item_time", l.ItemTime)
	j.complete = c.Bool(answers, "complete", l.Complete)
	j.reference = c.Any(each, "reference", l.Reference)
	j.result = c.Any(each, "result", l.Result)
	for _, v := range []struct {
		kind   Kind
		name   string
		source string
	}{{Found, "found", l.Found}, {Absent, "absent", l.Absent}, {Failed, "failed", l.Failed}, {Progress, "progress", l.Progress}} {
		if x := c.Bool(answers, v.name, v.source); x != nil {
			j.explicit = append(j.explicit, verdict{v.kind, x})
		}
	}
	return j, c.Err
}

// Judge fills in what s shows. What is declared comes first. An expression that
// fails, or two that are true, are errors; then out shows nothing.
func (j *Judge) Judge(out *Finding, s Shown, firstSent time.Time) error {
	err := j.judge(out, s, firstSent)
	if err != nil {
		out.Kind, out.Matches, out.Result, out.Reference = NoAnswer, nil, nil, ""
	}
	return err
}

func (j *Judge) judge(out *Finding, s Shown, firstSent time.Time) error {
	said := 0
	for _, e := range j.explicit {
		yes, err := e.when.Bool(s.Vars)
		if err != nil {
			return err
		}
		if yes {
			out.Kind = e.kind
			said++
		}
	}
	switch {
	case said > 1:
		return errors.New("more than one of found, absent, failed and progress is true")
	case said == 1:
	case j.items != nil && s.NoList != nil:
		return s.NoList
	case j.items != nil:
		return j.list(out, s.Vars, firstSent)
	case s.Default != NoAnswer:
		out.Kind = s.Default
	default:
		return errors.New("the answer shows nothing that was declared")
	}
	switch out.Kind {
	case Found:
		m, err := j.one(s.Raw, s.Vars)
		out.Matches = []Match{m}
		return err
	case Progress:
		m, err := j.one(s.Raw, s.Vars)
		out.Reference, out.Result = m.Reference, m.Result
		return err
	}
	return nil
}

// list matches the items of a list.
func (j *Judge) list(out *Finding, v celexpr.Vars, firstSent time.Time) error {
	r, err := j.items.Eval(v)
	if err != nil {
		return err
	}
	items, err := r.List()
	if err != nil {
		return fmt.Errorf("%s: %w", j.items, err)
	}
	complete := true
	if j.complete != nil {
		if complete, err = j.complete.Bool(v); err != nil {
			return err
		}
	}
	iv := celexpr.Vars{}
	for k, val := range v {
		iv[k] = val
	}
	for _, item := range items {
		iv["item"] = item
		yes, err := j.matches(iv, firstSent)
		if err != nil {
			return err
		}
		if !yes {
			continue
		}
		m, err := j.one(nil, iv)
		if err != nil {
			return err
		}
		out.Matches = append(out.Matches, m)
	}
	out.Evidence["items"], out.Evidence["matches"] = strconv.Itoa(len(items)), strconv.Itoa(len(out.Matches))
	switch {
	case len(out.Matches) > 0:
		out.Kind = Found
	case !complete:
		return errors.New("no match, but the list is not complete")
	case !j.absent:
		out.Kind = Absent
	}
	return nil
}

func (j *Judge) matches(v celexpr.Vars, firstSent time.Time) (bool, error) {
	yes, err := j.match.Bool(v)
	if err != nil || !yes || j.itemTime == nil {
		return yes, err
	}
	r, err := j.itemTime.Eval(v)
	if err != nil {
		return false, err
	}
	t, err := r.Time()
	if err != nil {
		return false, fmt.Errorf("%s: %w", j.itemTime, err)
	}
	return !t.Before(firstSent.Add(-j.skew)), nil
}

// one reads reference and result; raw is the answer, or nil for an item.
func (j *Judge) one(raw []byte, v celexpr.Vars) (Match, error) {
	var m Match
	var err error
	if m.Reference, err = Reference(j.reference, v); err != nil {
		return m, err
	}
	m.Result, err = ResultOf(j.result, raw, v)
	return m, err
}
