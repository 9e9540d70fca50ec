package httpask

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// An Operation is what templates and expressions know of an operation.
type Operation struct {
	Arguments            json.RawMessage // nil is {}
	WireKey, Key, Tool   string
	Scope, RunID         string
	FirstSent, UnknownAt time.Time
	Reference            string
	More                 celexpr.Vars // further variables
}

// RequestVars returns the values of [RequestVars].
func (o *Operation) RequestVars() (celexpr.Vars, error) {
	args := []byte(o.Arguments)
	if len(args) == 0 {
		args = []byte("{}")
	}
	parsed, err := celexpr.Value(args)
	if err != nil {
		return nil, fmt.Errorf("the arguments are not JSON: %w", err)
	}
	v := celexpr.Vars{"args": parsed, "wire_key": o.WireKey, "key": o.Key, "tool": o.Tool,
		"scope": o.Scope, "run_id": o.RunID, "first_sent": instant(o.FirstSent)}
	for name, value := range o.More {
		v[name] = value
	}
	return v, nil
}

// LookupVars returns the values of [LookupVars].
func (o *Operation) LookupVars() (celexpr.Vars, error) {
	v, err := o.RequestVars()
	if err == nil {
		v["reference"], v["unknown_at"] = o.Reference, instant(o.UnknownAt)
	}
	return v, err
}

// instant keeps a zero time within CEL's range.
func instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return t.UTC()
}
