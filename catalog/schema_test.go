package catalog_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
)

// one returns the only tool of a catalog that has the given fields.
func one(t testing.TB, fields string) *justonce.Tool {
	t.Helper()
	c, err := catalog.Parse("t.yaml", []byte("tools:\n  it:\n    identity: [/id]\n    http: {request: {url: http://127.0.0.1:9/x}}\n"+fields), &catalog.Options{Connectors: connectors()})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := c.Tools()
	if err != nil {
		t.Fatal(err)
	}
	return tools[0]
}

const orderSchema = `
    assert_formats: true
    schema:
      type: object
      required: [id]
      additionalProperties: false
      properties:
        id: {type: string, minLength: 2, maxLength: 8}
        amount: {type: integer, minimum: 1, maximum: 9007199254740993}
        price: {type: number, multipleOf: 0.01, exclusiveMinimum: 0}
        currency: {enum: [EUR, USD]}
        kind: {const: order}
        at: {type: string, format: date-time}
        sku: {type: string, pattern: "^[A-Z]+$"}
        note: {anyOf: [{type: string}, {type: "null"}]}
        who: {oneOf: [{type: object, required: [name]}, {type: string, minLength: 3}]}
        many: {oneOf: [{type: string}, {minLength: 1}]}
        lines: {type: array, minItems: 1, maxItems: 2, uniqueItems: true, items: {$ref: "#/$defs/line"}}
      $defs:
        line: {type: object, required: [sku], properties: {sku: {type: string}}, unevaluatedProperties: false}
`

func TestValidate(t *testing.T) {
	t.Parallel()
	tool := one(t, orderSchema)
	for _, tt := range []struct{ arguments, want string }{
		{`{"id":"o-1"}`, ""},
		{`{"id":"o-1","amount":9007199254740993,"price":0.07,"at":"2026-01-01T00:00:00Z","lines":[{"sku":"A"}]}`, ""},
		{``, "/id: it is required"},
		{`{"id":"o-1","amount":9007199254740994}`, "/amount: it must be 9007199254740993 at most"},
		{`{"id":"o-1","amount":1.5}`, "/amount: it must be an integer, not number"},
		{`{"id":"o-1","amount":1.0}`, ""},
		{`{"id":"o-1","price":0.075}`, "/price: it must be a multiple of 0.01"},
		{`{"id":"o-1","price":1e999999999}`, "arguments: "},
		{`{"id":"o-1","id":"o-2"}`, "arguments: "},
		{`{"id":"o"}`, "/id: it must have 2 characters or more"},
		{`{"id":"o-12345678"}`, "/id: it must have 8 characters at most"},
		{`{"id":"o-1","currency":"GBP"}`, `/currency: it must be "EUR" or "USD"`},
		{`{"id":"o-1","kind":"x"}`, `/kind: it must be "order"`},
		{`{"id":"o-1","at":"yesterday"}`, "/at: it is no valid date-time"},
		{`{"id":"o-1","sku":"a"}`, "/sku: it must match ^[A-Z]+$"},
		{`{"id":"o-1","note":5}`, "/note: it must be a string or null"},
		{`{"id":"o-1","who":"x"}`, "/who: it must have 3 characters or more"},
		{`{"id":"o-1","who":{}}`, "/who/name: it is required"},
		{`{"id":"o-1","many":"x"}`, "/many: it fits more than one of the alternatives, and must fit exactly one"},
		{`{"id":"o-1","lines":[]}`, "/lines: it must have 1 elements or more"},
		{`{"id":"o-1","lines":[{"sku":"A"},{"sku":"A"}]}`, "/lines: its elements 0 and 1 are equal"},
		{`{"id":"o-1","lines":[{"sku":"A","x":1}]}`, "/lines/0/x: it is not allowed"},
		{`{"id":"o-1","amuont":1}`, "/amuont: there is no such member, did you mean amount?"},
		{`{"amount":"hunter22","currency":"hunter22","a/b~":1}`, ""},
		{`[]`, "arguments: it must be an object, not array"},
		{`nope`, "arguments: "},
	} {
		err := tool.Validate(json.RawMessage(tt.arguments))
		got := ""
		if err != nil {
			got = err.Error()
			if !errors.Is(err, justonce.ErrInvalid) {
				t.Errorf("%s: %v is not ErrInvalid", tt.arguments, err)
			}
		}
		if strings.Contains(got, "hunter22") {
			t.Errorf("%s: a value is quoted: %s", tt.arguments, got)
		}
		switch {
		case strings.Contains(tt.arguments, "hunter22"):
			for _, p := range []string{"/id: it is required", "/amount: it must be an integer", "/currency: ", "/a~1b~0: there is no such member"} {
				if !strings.Contains(got, p) {
					t.Errorf("%s is not in %q", p, got)
				}
			}
		case strings.HasSuffix(tt.want, ": "):
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: %q", tt.arguments, got)
			}
		default:
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.arguments, diff)
			}
		}
	}
}

func TestValidateConcurrently(t *testing.T) {
	t.Parallel()
	tool := one(t, orderSchema)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if tool.Validate(json.RawMessage(`{"id":"o-1"}`)) != nil || tool.Validate(json.RawMessage(`{}`)) == nil {
					t.Error("wrong")
				}
			}
		})
	}
	wg.Wait()
}

func TestFormatsAreNotAssertedByDefault(t *testing.T) {
	t.Parallel()
	tool := one(t, strings.Replace(orderSchema, "assert_formats: true", "assert_formats: false", 1))
	if err := tool.Validate(json.RawMessage(`{"id":"o-1","at":"yesterday"}`)); err != nil {
		t.Error(err)
	}
}

func TestSchemaDefaults(t *testing.T) {
	t.Parallel()
	tool := one(t, `
    schema:
      type: object
      required: [id]
      properties:
        id: {type: string}
        currency: {type: string, default: EUR}
        ship: {$ref: "#/$defs/ship"}
        lines: {type: array, items: {type: object, properties: {count: {type: integer, default: 1}}}}
        tree: {$ref: "#"}
      $defs:
        ship: {type: object, properties: {fast: {type: boolean, default: false}}}
    equal:
      sets: [/lines]
      text: /note
      use_schema_defaults: true
      defaults: {/currency: USD, /channel: web}
`)
	got := map[string]string{}
	for p, v := range tool.Equal.Defaults {
		if strings.Count(p, "/tree") == 0 {
			got[p] = string(v)
		}
	}
	want := map[string]string{"/currency": `"USD"`, "/channel": `"web"`, "/ship/fast": "false", "/lines/*/count": "1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r, err := justonce.New(nil, &justonce.RunnerOptions{Tools: []*justonce.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.Identify(t.Context(), justonce.Call{Tool: "it", Arguments: json.RawMessage(`{"id":"1","note":"e\u0301","lines":[{"count":1},{"count":2}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Identify(t.Context(), justonce.Call{Tool: "it", Arguments: json.RawMessage(`{"lines":[{"count":2},{}],"currency":"USD","id":"1","note":"é","channel":"web"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if a.Fingerprint != b.Fingerprint {
		t.Errorf("%s\n%s", a.Canonical, b.Canonical)
	}
}
