package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/justonce-dev/justonce/catalog"
)

// TestYAML has one line of testdata/yaml.txtar's want for each of its files.
func TestYAML(t *testing.T) {
	t.Parallel()
	a := readArchive(t, filepath.Join("testdata", "yaml.txtar"))
	var got strings.Builder
	for _, name := range a.names {
		if name == "want" {
			continue
		}
		found := catalog.Check(name, []byte(a.files[name]), &catalog.Options{})
		if len(found) == 0 {
			fmt.Fprintf(&got, "%s: fine\n", name)
		}
		for _, f := range found {
			fmt.Fprintln(&got, f)
		}
	}
	a.golden(t, got.String())
}

// TestHostileYAML is refused, and soon.
func TestHostileYAML(t *testing.T) {
	t.Parallel()
	laughs := "x-a: &a [1,1,1,1,1,1,1,1,1,1]\n"
	for i := 'b'; i < 'k'; i++ {
		laughs += fmt.Sprintf("x-%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 10), ","))
	}
	for name, s := range map[string]string{
		"laughs":   laughs,
		"flow":     strings.Repeat("[", 100_000),
		"maps":     strings.Repeat("{a: ", 50_000),
		"dashes":   strings.Repeat("- ", 100_000),
		"keys":     strings.Repeat("? ", 100_000),
		"anchors":  strings.Repeat("&a ", 60_000),
		"aliases":  "x-a: &a 1\nx-b: [" + strings.Repeat("*a,", 60_000) + "]",
		"tags":     strings.Repeat("!a ", 60_000),
		"deep":     deep(300),
		"self":     "x-a: &a [*a]\n",
		"large":    strings.Repeat("#", 2<<20),
		"latin":    "listen: \xff\n",
		"document": "listen: a\n---\nlisten: b\n",
		"merge":    "x-a: &a {b: 1}\nx-b: {<<: [" + strings.Repeat("*a,", 999) + "], <<: 5}\n",
	} {
		if found := catalog.Check(name, []byte(s), nil); len(found) == 0 || found[0].Rule != "yaml" {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "x-a:\n")
	}
	return b.String()
}

// FuzzParse looks for panics, and for files that Parse accepts and the core
// refuses.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/rules/*.txtar", "testdata/*.txtar", "presets/*.yaml", "../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			if !strings.HasSuffix(name, ".txtar") {
				f.Add(data)
				continue
			}
			for _, part := range strings.Split(string(data), "-- ") {
				if _, body, ok := strings.Cut(part, " --\n"); ok {
					f.Add([]byte(body))
				}
			}
		}
	}
	none := func(string) ([]byte, error) { return nil, os.ErrNotExist }
	env := func(name string) (string, bool) { return "http://127.0.0.1:9", strings.HasSuffix(name, "URL") }
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &catalog.Options{Connectors: connectors(), ReadFile: none, LookupEnv: env, MaxBytes: 64 << 10}
		accepted(t, "fuzz.yaml", data, o, catalog.Check("fuzz.yaml", data, o))
	})
}
