package catalog

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocs compares docs/catalog.md with the rules, the presets, and the fields
// with their defaults.
func TestDocs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../docs/catalog.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	section := func(name string) string {
		_, rest, ok := strings.Cut(page, "\n## "+name+"\n")
		if !ok {
			t.Fatalf("there is no section %s", name)
		}
		body, _, _ := strings.Cut(rest, "\n## ")
		return body
	}

	var want, got []string
	for _, r := range Rules() {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", r.ID, r.Severity, r.Summary))
	}
	for _, p := range Presets() {
		key := "–"
		if p.KeyMax > 0 {
			key = fmt.Sprint(p.KeyMax)
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", p.Name, p.Summary, key, p.Source, p.AsOf))
	}
	for line := range strings.Lines(section("Checks") + section("Presets")) {
		if strings.HasPrefix(line, "| `") && !strings.HasPrefix(line, "| `${") {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules and presets (-code +page):\n%s", diff)
	}

	root, err := parseYAML("justonce.schema.json", fileSchema, DefaultMaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	defs := root.get("$defs")
	objects := []*node{root, defs.get("smtp").get("properties").get("message")}
	for _, m := range defs.members {
		if m.name != "basic" {
			objects = append(objects, m.value)
		}
	}
	for _, o := range objects {
		props := o.get("properties")
		if props == nil {
			continue
		}
		for _, m := range props.members {
			name, about := m.name, m.value.get("description").str()
			if name == "http" || name == "smtp" || name == "mcp" || name == "servers" || name == "tools" {
				continue
			}
			_, def, hasDefault := strings.Cut(about, "Default: ")
			def, _, _ = strings.Cut(def, " A CEL expression.")
			def, _, _ = strings.Cut(def, " A template: ")
			found := false
			for line := range strings.Lines(page) {
				found = found || strings.HasPrefix(line, "| `"+name+"` | ") && (!hasDefault || strings.Contains(line, def))
			}
			if !found {
				t.Errorf("the page has no row for %s with %q", name, about)
			}
		}
	}

	_, rest, _ := strings.Cut(page, "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	env := func(string) (string, bool) { return "anything", true }
	for _, f := range Check("docs/catalog.md", []byte(example), &Options{LookupEnv: env}) {
		t.Error(f)
	}
}
