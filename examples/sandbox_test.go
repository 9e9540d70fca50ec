package examples_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sandbox"
)

// calls are one call of each tool of sandbox.yaml.
var calls = map[string]string{
	"payment": `{"order_id":"o-1","amount":12.50,"currency":"EUR"}`,
	"ticket":  `{"case_id":"c-1","title":"It broke","body":"Twice."}`,
	"mail":    `{"reference":"o-1/receipt","to":"ada@example.com","subject":"Your order","body":"Thanks."}`,
	"post":    `{"reference":"o-1","channel":"sales","text":"An order!"}`,
	"job":     `{"export_id":"e-1","format":"csv"}`,
}

func sandboxTools(t *testing.T) (*sandbox.Provider, map[string]*justonce.Tool) {
	t.Helper()
	p, err := sandbox.New(&sandbox.Options{Seed: 1, JobDuration: -1})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(p)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(func() {
		p.Close()
		srv.Close()
	})
	return p, tools(t, "sandbox.yaml", map[string]string{"SANDBOX_URL": srv.URL})
}

func attempt(tool *justonce.Tool) *justonce.Attempt {
	return &justonce.Attempt{
		Ref: justonce.Ref{Tenant: "t", Key: "k"}, Tool: tool.Name, Arguments: json.RawMessage(calls[tool.Name]),
		WireKey: "0123456789abcdef0123456789abcdef", Number: 1, FirstSent: time.Now().Add(-time.Second),
	}
}

func TestSandboxAnswers(t *testing.T) {
	t.Parallel()
	p, tools := sandboxTools(t)
	for name, tool := range tools {
		if err := tool.Validate(json.RawMessage(calls[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		out := tool.Connector.Send(t.Context(), attempt(tool))
		want := justonce.OutcomeSucceeded
		if name == "job" {
			want = justonce.OutcomeAccepted
		}
		if out.Kind != want || out.Reference == "" || p.Count(name) != 1 {
			t.Errorf("%s: %v, reference %q, %d effects, %+v", name, out.Kind, out.Reference, p.Count(name), out.Failure)
		}
	}
}

// TestSandboxLostReply has each provider do its work and lose the answer: what
// can be known is known by asking.
func TestSandboxLostReply(t *testing.T) {
	t.Parallel()
	p, tools := sandboxTools(t)
	for name, tool := range tools {
		a := attempt(tool)
		finder, _ := tool.Connector.(justonce.Finder)
		if finder != nil {
			if f := finder.Lookup(t.Context(), a); f.Kind != justonce.FindingAbsent {
				t.Errorf("%s: before: %d, evidence %v", name, f.Kind, f.Evidence)
			}
		}
		if err := p.Inject(sandbox.Fault{Service: name, Kind: sandbox.LostReply}); err != nil {
			t.Fatal(err)
		}
		if out := tool.Connector.Send(t.Context(), a); out.Kind != justonce.OutcomeUnknown {
			t.Fatalf("%s: %v", name, out.Kind)
		}
		a.UnknownAt = time.Now()
		id := p.Effects()[p.Count("")-1].ID
		switch {
		case finder == nil:
			if name != "post" {
				t.Errorf("%s cannot be asked", name)
			}
		case name == "job":
			f := finder.Lookup(t.Context(), a)
			if f.Kind != justonce.FindingProgress || f.Reference != id {
				t.Errorf("job: %d %q, evidence %v", f.Kind, f.Reference, f.Evidence)
			}
			if err := p.FinishJob(id, sandbox.JobUpdate{Status: sandbox.JobDone}); err != nil {
				t.Fatal(err)
			}
			fallthrough
		default:
			f := finder.Lookup(t.Context(), a)
			if f.Kind != justonce.FindingFound || len(f.Matches) != 1 || f.Matches[0].Reference != id {
				t.Errorf("%s: %d %v, want %s, evidence %v", name, f.Kind, f.Matches, id, f.Evidence)
			}
		}
		if name == "payment" { // level 1: the same key again is the question
			if out := tool.Connector.Send(t.Context(), a); out.Kind != justonce.OutcomeSucceeded || out.Reference != id {
				t.Errorf("payment: %v %q", out.Kind, out.Reference)
			}
		}
		if n := p.Count(name); n != 1 {
			t.Errorf("%s: %d effects", name, n)
		}
	}
}

func TestSandboxSchemas(t *testing.T) {
	t.Parallel()
	_, tools := sandboxTools(t)
	for _, tt := range []struct{ tool, arguments, want string }{
		{"payment", `{"order_id":"o-1","amount":"12","currency":"EUR"}`, "/amount: it must be a number, not string"},
		{"payment", `{"order_id":"o-1","amount":0,"currency":"EUR"}`, "/amount: it must be more than 0"},
		{"ticket", `{"case_id":"c-1"}`, "/title: it is required"},
		{"mail", `{"reference":"r","to":"a","subject":"s","boddy":"x"}`, "/boddy: there is no such member, did you mean body?"},
		{"job", `{"export_id":"e","format":"xml"}`, `/format: it must be "csv" or "json"`},
	} {
		err := tools[tt.tool].Validate(json.RawMessage(tt.arguments))
		if err == nil {
			t.Errorf("%s %s: no error", tt.tool, tt.arguments)
		} else if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.arguments, diff)
		}
	}
}
