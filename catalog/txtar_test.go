package catalog_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// An archive is a few named texts in one file, each after a line "-- name --".
type archive struct {
	path  string
	names []string
	files map[string]string
}

func readArchive(t *testing.T, path string) *archive {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{path: path, files: map[string]string{}}
	name := ""
	for line := range strings.Lines(string(data)) {
		if s, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(s, " --\n") {
			name = strings.TrimSuffix(s, " --\n")
			a.names = append(a.names, name)
			a.files[name] = ""
			continue
		}
		a.files[name] += line
	}
	return a
}

// golden compares the file called want, or writes it with -update.
func (a *archive) golden(t *testing.T, got string) {
	t.Helper()
	if *update {
		a.files["want"] = got
		var b bytes.Buffer
		for _, name := range a.names {
			fmt.Fprintf(&b, "-- %s --\n%s", name, a.files[name])
		}
		if err := os.WriteFile(a.path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := diffText(a.files["want"], got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
