package gateway

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/justonce-dev/justonce"
)

// An endpoint is the description of a route.
type endpoint = huma.Operation

// docs writes the OpenAPI document. Only the description is made this way: the
// handlers do without reflection, which neither passes a result on byte for
// byte nor refuses what strict JSON refuses.
type docs struct{ registry huma.Registry }

const schemas = "#/components/schemas/"

func newDocs() *docs {
	return &docs{huma.NewMapRegistry(schemas, func(t reflect.Type, hint string) string {
		return wirePrefix.ReplaceAllString(huma.DefaultSchemaNamer(t, hint), "")
	})}
}

var wirePrefix = regexp.MustCompile(`^Wire`)

// document returns the OpenAPI 3.1 document of every route.
func (s *Server) document() ([]byte, error) {
	d := newDocs()
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "justonce", Version: s.o.Version,
			Description: "Runs tool calls whose effects must not happen twice."},
		Paths:      map[string]*huma.PathItem{},
		Components: &huma.Components{Schemas: d.registry},
	}
	for _, rt := range routes() {
		op := rt.doc(d)
		op.Responses["default"] = &huma.Response{Description: "A problem (RFC 9457); its advice says what to do.",
			Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schemaOf[Problem](d)}}}
		item := api.Paths[rt.path]
		if item == nil {
			item = &huma.PathItem{}
			api.Paths[rt.path] = item
		}
		if rt.method == "POST" {
			item.Post = op
		} else {
			item.Get = op
		}
	}
	// Requests are strict. Answers may get more members one day.
	strict := map[string]bool{"Call": true, "Decision": true, "Resolution": true}
	for name, schema := range d.registry.Map() {
		schema.AdditionalProperties = !strict[name]
	}
	return json.MarshalIndent(api, "", "  ")
}

// TransformSchema adds what is embedded, which huma leaves out since its type
// is not exported.
func (wireAnswer) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	op := r.Schema(reflect.TypeFor[wireOperation](), false, "")
	maps.Copy(s.Properties, op.Properties)
	s.Required = append(slices.Clone(op.Required), s.Required...)
	return s
}

func schemaOf[T any](d *docs) *huma.Schema {
	return d.registry.Schema(reflect.TypeFor[T](), true, "")
}

func text(description string) *huma.Param {
	return &huma.Param{Description: description, Schema: &huma.Schema{Type: "string"}}
}

func in(place, name string, p *huma.Param) *huma.Param {
	p.In, p.Name, p.Required = place, name, place == "path"
	return p
}

func keyParam() *huma.Param {
	return in("path", "key", text("The operation's key, escaped as one segment."))
}

func takes[T any](d *docs) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schemaOf[T](d)}}}
}

func gives[T any](d *docs, description string, headers ...string) *huma.Response {
	r := &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/json": {Schema: schemaOf[T](d)}}}
	for _, h := range headers {
		if r.Headers == nil {
			r.Headers = map[string]*huma.Param{}
		}
		r.Headers[h] = text(headerDocs[h])
	}
	return r
}

var headerDocs = map[string]string{
	"Idempotent-Replayed": "true, if the answer is the recorded one of an earlier call.",
	"Preference-Applied":  "What of Prefer was followed.",
	"Location":            "Where to ask how the operation stands.",
	"Retry-After":         "In how many seconds to ask again.",
}

func described(id, summary string, params []*huma.Param, body *huma.RequestBody, responses map[int]*huma.Response) *endpoint {
	op := &huma.Operation{OperationID: id, Summary: summary, Parameters: params, RequestBody: body, Responses: map[string]*huma.Response{}}
	for status, r := range responses {
		op.Responses[strconv.Itoa(status)] = r
	}
	return op
}

func docCall(d *docs) *endpoint {
	op := described("call", "Call a tool, once", []*huma.Param{
		in("header", "Idempotency-Key", text("Names the intent: 1 to 255 printable ASCII characters, bare or as a quoted string. Left out, the key is derived.")),
		in("header", "Prefer", text("wait=N: seconds to wait for the end. wait=0 or respond-async: record and return.")),
		in("header", "traceparent", text("W3C trace context, for correlation only.")),
	}, takes[wireCall](d), map[int]*huma.Response{
		200: gives[wireAnswer](d, "Ended: succeeded, or failed with proof that nothing happened.", "Idempotent-Replayed", "Preference-Applied"),
		202: gives[wireAnswer](d, "Not ended: open, or in review, where a person decides.", "Preference-Applied", "Location", "Retry-After"),
	})
	op.Description = "Of any number of equal calls one has the effect; the others wait for it, or get the recorded result."
	return op
}

func docList(d *docs) *endpoint {
	state := in("query", "state", text("One or more of the six states; may be repeated."))
	state.Schema = &huma.Schema{Type: "array", Items: &huma.Schema{Type: "string",
		Enum: []any{"pending", "running", "unknown", "review", "succeeded", "failed"}}}
	limit := in("query", "limit", text("1 to 1000; 50 if left out."))
	limit.Schema = &huma.Schema{Type: "integer"}
	moment := func(name, description string) *huma.Param {
		p := in("query", name, text(description))
		p.Schema.Format = "date-time"
		return p
	}
	return described("list", "List operations, newest first", []*huma.Param{
		state, in("query", "tool", text("")), in("query", "scope", text("")), in("query", "run_id", text("")),
		in("query", "reference", text("The provider's name for the effect.")),
		moment("since", "Created at or after."), moment("until", "Created before."),
		limit, in("query", "cursor", text("next of the page before.")),
	}, nil, map[int]*huma.Response{200: gives[wirePage](d, "A page.")})
}

func docGet(d *docs) *endpoint {
	return described("get", "Look at an operation", []*huma.Param{
		keyParam(), in("query", "wait", text("How long to wait for its end, such as 30 or 30s.")),
	}, nil, map[int]*huma.Response{200: gives[wireAnswer](d, "The operation.", "Retry-After")})
}

func docHistory(d *docs) *endpoint {
	return described("history", "What happened to an operation", []*huma.Param{keyParam()}, nil,
		map[int]*huma.Response{200: gives[wireHistory](d, "Attempts, lookups and decisions, with evidence.")})
}

func docResolve(d *docs) *endpoint {
	return described("resolve", "Decide an operation in review", []*huma.Param{keyParam()}, takes[wireResolution](d),
		map[int]*huma.Response{200: gives[wireAnswer](d, "The operation after the decision.")})
}

func docRedrive(d *docs) *endpoint {
	return described("redrive", "Send a failed operation once more, under a new wire key", []*huma.Param{keyParam()}, takes[wireDecision](d),
		map[int]*huma.Response{200: gives[wireAnswer](d, "The operation after the decision.")})
}

func docCancel(d *docs) *endpoint {
	return described("cancel", "Cancel an operation that was not sent", []*huma.Param{keyParam()}, takes[wireDecision](d),
		map[int]*huma.Response{200: gives[wireAnswer](d, "The operation after the decision.")})
}

func docExplain(d *docs) *endpoint {
	return described("explain", "Tell which operation a call means, and why, without running it", []*huma.Param{
		in("header", "Idempotency-Key", text("As for a call.")),
	}, takes[wireCall](d), map[int]*huma.Response{200: gives[justonce.Explanation](d, "The explanation.")})
}

func docTools(d *docs) *endpoint {
	return described("tools", "The tools that can be called", nil, nil,
		map[int]*huma.Response{200: gives[wireTools](d, "The tools, by name.")})
}

func docHealthz(d *docs) *endpoint {
	return described("healthz", "Whether the process is alive", nil, nil,
		map[int]*huma.Response{200: gives[wireStatus](d, "It is.")})
}

func docReadyz(d *docs) *endpoint {
	return described("readyz", "Whether calls are taken and the ledger can be reached", nil, nil,
		map[int]*huma.Response{200: gives[wireStatus](d, "It is so.")})
}

func docMetrics(*docs) *endpoint {
	return described("metrics", "Metrics for Prometheus", nil, nil, map[int]*huma.Response{
		200: {Description: "The metrics.", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: "string"}}}}})
}

func docOpenAPI(*docs) *endpoint {
	return described("openapi", "This document", nil, nil, map[int]*huma.Response{
		200: {Description: "OpenAPI 3.1.", Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "object"}}}}})
}
