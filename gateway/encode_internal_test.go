package gateway

import (
	"encoding/json"
	"testing"

	"github.com/justonce-dev/justonce"
)

// A refusal shows its failure and, where the provider's answer was recorded,
// that; a job's progress is not taken for an answer, and "null" stands for none.
func TestEncode_ResultOrProgress(t *testing.T) {
	op := func(s justonce.Status, result string) *justonce.Operation {
		return &justonce.Operation{Tool: "t", Status: s, Result: json.RawMessage(result), Failure: &justonce.Failure{Code: "no"}}
	}
	rejected := justonce.Status{State: justonce.Failed, Reason: justonce.ReasonRejected}
	answered := rejected
	answered.Digest = "d"
	for name, test := range map[string]struct {
		op               *justonce.Operation
		result, progress string
	}{
		"answered refusal": {op(answered, `{"a": 1}`), `{"a": 1}`, ""},
		"failed job":       {op(rejected, `{"percent": 50}`), "", `{"percent": 50}`},
		"redriven":         {op(justonce.Status{State: justonce.Pending}, `null`), "", ""},
		"success":          {op(justonce.Status{State: justonce.Succeeded}, `null`), "null", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var o object
			o.answer(&justonce.Answer{Operation: test.op})
			var w struct {
				Result, Progress json.RawMessage
				Failure          *justonce.Failure
			}
			if err := json.Unmarshal(o.b, &w); err != nil {
				t.Fatal(err)
			}
			if string(w.Result) != test.result || string(w.Progress) != test.progress || w.Failure == nil {
				t.Errorf("result %q, progress %q, failure %v in %s", w.Result, w.Progress, w.Failure, o.b)
			}
		})
	}
}
