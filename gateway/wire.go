package gateway

import (
	"encoding/json"
	"time"

	"github.com/justonce-dev/justonce"
)

// What goes over the wire. Requests and the big answers are read and written by
// hand, for exactness and speed; these types are their description, from which
// the OpenAPI document is made, and what the client reads answers into. A test
// holds the two together. Answers may get more members; requests may not.

type wireCall struct {
	Name      string          `json:"name" minLength:"1" maxLength:"128" doc:"The tool."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"A JSON object; left out it is {}."`
	Scope     string          `json:"scope,omitempty" maxLength:"255" doc:"The account, session or user within which derived keys match."`
	RunID     string          `json:"run_id,omitempty" maxLength:"255" doc:"The whole agent task, the same after a resume."`
	IntentSeq int             `json:"intent_seq,omitempty" minimum:"1" doc:"Tells deliberate equal calls apart; 1 if left out."`
}

type wireOperation struct {
	Key   string          `json:"key,omitempty" doc:"The operation's name. Absent for read and idempotent tools, which are not recorded."`
	Tool  string          `json:"tool"`
	State justonce.State  `json:"state" enum:"pending,running,unknown,review,succeeded,failed"`
	Why   justonce.Reason `json:"reason,omitempty" enum:"rejected,exhausted,cancelled" doc:"Why it failed."`

	Result    json.RawMessage   `json:"result,omitempty" doc:"What the provider answered, byte for byte as recorded."`
	Progress  json.RawMessage   `json:"progress,omitempty" doc:"Of a long-running job that the provider accepted."`
	Failure   *justonce.Failure `json:"failure,omitempty"`
	Reference string            `json:"reference,omitempty" doc:"The provider's name for the effect."`
	Note      string            `json:"note,omitempty"`

	Accepted bool       `json:"accepted,omitempty" doc:"The provider took a long-running job."`
	Incident bool       `json:"incident,omitempty" doc:"What was reported contradicts what was recorded."`
	Attempts int        `json:"attempts" doc:"Sends begun, since arrival or the last redrive."`
	Lookups  int        `json:"lookups,omitempty"`
	Due      *time.Time `json:"due,omitempty" doc:"When it is next looked at."`

	KeySource   justonce.KeySource `json:"key_source,omitempty" enum:"given,inherited,identity,content"`
	Scope       string             `json:"scope,omitempty"`
	RunID       string             `json:"run_id,omitempty"`
	IntentSeq   int                `json:"intent_seq"`
	Identity    string             `json:"identity,omitempty" doc:"Hash of the declared identity."`
	Fingerprint string             `json:"fingerprint" doc:"Hash of the arguments that count."`
	WireKey     string             `json:"wire_key,omitempty" doc:"What the provider gets as its idempotency key."`
	TraceParent string             `json:"traceparent,omitempty"`
	CreatedAt   time.Time          `json:"created_at"`
	UpdatedAt   time.Time          `json:"updated_at"`

	Advice justonce.Advice `json:"advice" doc:"What to do next, in a sentence that a model can act on."`
}

type wireAnswer struct {
	wireOperation
	Replayed  bool           `json:"replayed" doc:"The recorded result of an earlier call."`
	Joined    bool           `json:"joined" doc:"Met an earlier call that had not ended."`
	MatchedBy justonce.Match `json:"matched_by,omitempty" enum:"key,identity"`
}

type wirePage struct {
	Operations []wireOperation `json:"operations" nullable:"false" doc:"Newest first, without results."`
	Next       string          `json:"next,omitempty" doc:"Cursor of the next page; absent on the last."`
}

type wireHistory struct {
	Entries []justonce.Entry `json:"entries" nullable:"false" doc:"Oldest first."`
}

type wireTools struct {
	Tools []justonce.ToolInfo `json:"tools" nullable:"false"`
}

type wireDecision struct {
	Actor  string `json:"actor" minLength:"1" doc:"Who decides."`
	Reason string `json:"reason" minLength:"1" doc:"Why; kept in the history."`
}

type wireResolution struct {
	Verdict   justonce.Verdict `json:"verdict" enum:"happened,retry,cancel" doc:"It happened; it did not, send it; it did not, leave it."`
	Actor     string           `json:"actor" minLength:"1" doc:"Who decides."`
	Reason    string           `json:"reason" minLength:"1" doc:"Why; kept in the history."`
	Reference string           `json:"reference,omitempty" doc:"With happened: the provider's name for the effect."`
	Result    json.RawMessage  `json:"result,omitempty" doc:"With happened: what duplicates get."`
}

type wireStatus struct {
	Status string `json:"status"`
}

// operation returns what the wire says of an operation of the default tenant.
func (w *wireOperation) operation() *justonce.Operation {
	op := &justonce.Operation{
		Ref: justonce.Ref{Tenant: justonce.DefaultTenant, Key: w.Key}, KeySource: w.KeySource,
		Scope: w.Scope, RunID: w.RunID, Tool: w.Tool, IntentSeq: w.IntentSeq,
		Identity: w.Identity, Fingerprint: w.Fingerprint, Algorithm: justonce.Algorithm, WireKey: w.WireKey,
		Result: w.Result, Failure: w.Failure, Note: w.Note, TraceParent: w.TraceParent,
		CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
	}
	op.State, op.Reason, op.Reference = w.State, w.Why, w.Reference
	op.Accepted, op.Incident, op.Attempts, op.Lookups = w.Accepted, w.Incident, w.Attempts, w.Lookups
	if w.Due != nil {
		op.Due = *w.Due
	}
	if w.Progress != nil {
		op.Result = w.Progress
	}
	return op
}
