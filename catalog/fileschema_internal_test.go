package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	httpconn "github.com/justonce-dev/justonce/connector/http"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

// TestFileSchemaFollowsTheCode compares justonce.schema.json with the structs
// that files are decoded into: the same fields, of the same types.
func TestFileSchemaFollowsTheCode(t *testing.T) {
	t.Parallel()
	root, err := parseYAML("justonce.schema.json", fileSchema, DefaultMaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	w := &schemaWalk{T: t, root: root}
	w.compare(root, reflect.TypeFor[Settings](), "file", []string{"servers", "tools"})
	w.compare(root.get("$defs").get("server"), reflect.TypeFor[Server](), "server", nil)
	tool := root.get("$defs").get("tool")
	w.compare(tool, reflect.TypeFor[toolSpec](), "tool", connectorNames)
	w.compare(root.get("$defs").get("http"), reflect.TypeFor[httpconn.Config](), "http", nil)
	w.compare(root.get("$defs").get("smtp"), reflect.TypeFor[smtpconn.Config](), "smtp", nil)
	w.compare(root.get("$defs").get("mcp"), reflect.TypeFor[mcpconn.Config](), "mcp", nil)

	enum := func(n *node) (list []string) {
		for _, e := range n.list {
			list = append(list, e.text)
		}
		return list
	}
	if diff := cmp.Diff(warningIDs(), enum(tool.get("properties").get("allow").get("items").get("enum"))); diff != "" {
		t.Errorf("allow (-rules +schema):\n%s", diff)
	}
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff(names, enum(tool.get("properties").get("preset").get("enum"))); diff != "" {
		t.Errorf("preset (-presets +schema):\n%s", diff)
	}
}

type schemaWalk struct {
	*testing.T
	root *node
}

func (w *schemaWalk) deref(n *node) *node {
	if ref := n.get("$ref").str(); ref != "" {
		return (&view{root: w.root}).resolve(ref)
	}
	return n
}

func (w *schemaWalk) compare(n *node, t reflect.Type, path string, more []string) {
	w.Helper()
	fields := fieldsOf(t)
	// The tool's own field speaks for the connector's.
	delete(fields, map[string]string{"http": "capability"}[path])
	want := append(slices.Collect(maps.Keys(fields)), more...)
	var got []string
	if n.get("additionalProperties") == nil || n.get("additionalProperties").text != "false" {
		w.Errorf("%s: additionalProperties must be false", path)
	}
	for _, m := range n.get("properties").members {
		got = append(got, m.name)
		if m.value.get("description").str() == "" {
			w.Errorf("%s.%s has no description", path, m.name)
		}
		if i, ok := fields[m.name]; ok {
			w.field(m.value, t.FieldByIndex(i).Type, path+"."+m.name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s: fields (-code +schema):\n%s", path, diff)
	}
}

func (w *schemaWalk) field(n *node, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer && t != nodeType {
		t = t.Elem()
	}
	ref := n.get("$ref").str()
	if t == durationType {
		if ref != "#/$defs/duration" {
			w.Errorf("%s must be a duration", path)
		}
		return
	}
	var want string
	switch t.Kind() {
	case reflect.Int64:
		if ref != "#/$defs/size" {
			w.Errorf("%s must be a size", path)
		}
		return
	case reflect.Struct:
		w.compare(w.deref(n), t, path, nil)
		return
	case reflect.String:
		want = "string"
	case reflect.Bool:
		want = "boolean"
	case reflect.Int:
		want = "integer"
	case reflect.Slice:
		want = "array"
	case reflect.Map:
		want = "object"
	default: // *node, any
		return
	}
	typ := w.deref(n).get("type")
	switch {
	case want == "string" && n.get("enum") != nil:
	case typ.str() == want:
	case typ != nil && slices.ContainsFunc(typ.list, func(e *node) bool { return e.text == want }):
	default:
		w.Errorf("%s must be of type %s", path, want)
	}
}

// TestFileSchemaAcceptsWhatParseDoes validates all examples by it.
func TestFileSchemaAcceptsWhatParseDoes(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(FileSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("justonce.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("justonce.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	validate := func(name string, data []byte) error {
		root, err := parseYAML(name, data, DefaultMaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(root.json()))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(name, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(string(data), "# yaml-language-server: $schema=../catalog/justonce.schema.json\n") {
			t.Errorf("%s does not name the schema for editors", name)
		}
	}
	good, err := filepath.Glob("testdata/rules/*.txtar")
	if err != nil || len(good) == 0 {
		t.Fatal(err)
	}
	for _, name := range good {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), "-- good.yaml --\n")
		yaml, _, _ := strings.Cut(rest, "\n-- ")
		if err := validate(name, []byte(yaml+"\n")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range presets() {
		b, _ := json.Marshal(map[string]any{"tools": map[string]any{"it": p.tool.plain()}})
		if err := validate(p.Name, b); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if err := validate("wrong", []byte("tools: {a: {efect: write}}")); err == nil {
		t.Error("the schema accepts a misspelt field")
	}
}
