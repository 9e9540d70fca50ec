package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/canon"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema is the JSON Schema of a tool's arguments. It may be used from many
// goroutines.
type schema struct {
	raw      json.RawMessage
	node     *node
	compiled *jsonschema.Schema
}

// schemaURL is where the compiler believes a schema to be; nothing can be
// loaded from beside it.
const schemaURL = "justonce:///arguments.json"

// readSchema compiles the tool's schema, if it has one.
func (b *builder) readSchema(t *tool, d *decoder) {
	n, at := t.spec.Schema, t.place("schema")
	if file := t.spec.SchemaFile; file != "" {
		at = t.place("schema_file")
		if n != nil {
			b.found.add("schema-invalid", at, t.name, "", "it has both schema and schema_file")
			return
		}
		path := file
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(b.file), path)
		}
		data, err := b.o.ReadFile(path)
		if err != nil {
			b.found.add("schema-invalid", at, t.name, "", "the schema file cannot be read: %v", err)
			return
		}
		if n, err = parseYAML(path, data, b.o.MaxBytes); err != nil { // JSON is YAML
			b.found.yaml(err)
			return
		}
	}
	if n == nil || n.kind == kindNull {
		return
	}
	if n.kind != kindMap {
		b.found.add("schema-invalid", n.at, t.name, "", "the schema must be a mapping, not %s", n.kind)
		return
	}
	s, err := compileSchema(n, t.spec.AssertFormats)
	if err != nil {
		if n.at.File == at.File {
			at = n.at
		}
		b.found.add("schema-invalid", schemaPlace(n, err, at), t.name, "", "%s", schemaMessage(err))
		return
	}
	t.schema = s
}

func compileSchema(n *node, assertFormats bool) (*schema, error) {
	s := &schema{raw: n.json(), node: n}
	if err := canon.Valid(s.raw, nil); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if assertFormats {
		c.AssertFormat()
	}
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	s.compiled, err = c.Compile(schemaURL)
	return s, err
}

var errRemote = errors.New("a $ref may only point into the schema itself, as in #/$defs/name")

// noLoader refuses whatever is not in the file. The metaschemas of the drafts
// are built in.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// Validate returns an error unless the arguments fit: an
// *[justonce.InvalidError] that names JSON Pointers and rules, and quotes no
// values of the arguments.
func (s *schema) Validate(arguments json.RawMessage) error {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	// Bounds depth and exponents, which what follows does not.
	if err := canon.Valid(arguments, nil); err != nil {
		return &justonce.InvalidError{Field: "arguments", Detail: err.Error()}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return &justonce.InvalidError{Field: "arguments", Detail: "they are not JSON"}
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	e := (*jsonschema.ValidationError)(nil)
	if !errors.As(err, &e) {
		return &justonce.InvalidError{Field: "arguments", Schema: true, Detail: "they do not fit the tool's schema"}
	}
	list := violations(e, s)
	if len(list) == 1 && list[0].pointer != "" {
		return &justonce.InvalidError{Field: list[0].pointer, Schema: true, Detail: list[0].text}
	}
	detail := ""
	for i, l := range list {
		if i > 0 {
			detail += "; "
		}
		if i == maxViolations {
			detail += fmt.Sprintf("and %d more", len(list)-i)
			break
		}
		if l.pointer != "" {
			detail += l.pointer + ": "
		}
		detail += l.text
	}
	return &justonce.InvalidError{Field: "arguments", Schema: true, Detail: detail}
}

// maxViolations bounds how many are told at once.
const maxViolations = 5

// schemaMessage words why a schema cannot be used.
func schemaMessage(err error) string {
	if errors.Is(err, errRemote) {
		return "the schema refers to another document: " + errRemote.Error()
	}
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return "the schema refers to another document: " + errRemote.Error()
	}
	if v := metaViolation(err); v != nil {
		list := violations(v, nil)
		l := list[0]
		if l.pointer == "" {
			return "the schema is no JSON Schema: " + l.text
		}
		return "the schema is no JSON Schema: " + l.pointer + ": " + l.text
	}
	return "the schema cannot be used: " + firstLine(err)
}

func metaViolation(err error) *jsonschema.ValidationError {
	var s *jsonschema.SchemaValidationError
	if errors.As(err, &s) {
		err = s.Err
	}
	var v *jsonschema.ValidationError
	if errors.As(err, &v) {
		return v
	}
	return nil
}

// schemaPlace returns where a schema breaks its own rules.
func schemaPlace(n *node, err error, otherwise Position) Position {
	v := metaViolation(err)
	if v == nil {
		return otherwise
	}
	list := violations(v, nil)
	at := otherwise
	for _, token := range list[0].tokens {
		m := n.member(token)
		if m == nil {
			break
		}
		n, at = m.value, m.at
	}
	return at
}
