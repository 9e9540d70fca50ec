package catalog_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
)

// TestPresets sees that every preset can be used as it is.
func TestPresets(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		if strings.HasSuffix(name, "_URL") {
			return "https://provider.example", true
		}
		return "anything", true
	}
	all := catalog.Presets()
	if len(all) < 9 {
		t.Fatalf("%d presets", len(all))
	}
	for _, p := range all {
		if _, err := time.Parse(time.DateOnly, p.AsOf); err != nil || p.Source == "" || p.Summary == "" {
			t.Errorf("%s: source %q, as of %q, summary %q", p.Name, p.Source, p.AsOf, p.Summary)
		}
		data := []byte("tools:\n  it:\n    preset: " + p.Name + "\n")
		o := &catalog.Options{LookupEnv: env, Connectors: connectors()}
		found := catalog.Check("p.yaml", data, o)
		for _, f := range found {
			t.Errorf("%s: %s", p.Name, f)
		}
		accepted(t, "p.yaml", data, o, found)
	}
}

// TestPresetWire shows what presets send to their providers and what they make
// of the answers.
func TestPresetWire(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/presets/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a := readArchive(t, path)
			var wire strings.Builder
			answer := ""
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				dump(&wire, r)
				status, body, _ := strings.Cut(strings.TrimSpace(answer), " ")
				code, _ := strconv.Atoi(status)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				io.WriteString(w, body)
			}))
			t.Cleanup(srv.Close)
			a.files["env"] += "TEST_URL=" + srv.URL + "\n"
			o := a.options()
			c, err := catalog.Parse("tool.yaml", []byte(a.files["tool.yaml"]), o)
			if err != nil {
				t.Fatal(err)
			}
			a.files["env"], _, _ = strings.Cut(a.files["env"], "TEST_URL=")
			tools, err := c.Tools()
			if err != nil {
				t.Fatal(err)
			}
			args := json.RawMessage(strings.TrimSpace(a.files["arguments"]))
			if err := tools[0].Validate(args); err != nil {
				t.Fatal(err)
			}
			at := &justonce.Attempt{Ref: justonce.Ref{Tenant: "t", Key: "k"}, Tool: "it", Arguments: args,
				WireKey: "0123456789abcdef0123456789abcdef", Number: 1, FirstSent: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			answer = a.files["send"]
			out := tools[0].Connector.Send(t.Context(), at)
			fmt.Fprintf(&wire, "=> %s reference=%q result=%s failure=%v conclusive=%v\n", out.Kind, out.Reference, out.Result, out.Failure, out.Conclusive)
			if f, ok := tools[0].Connector.(justonce.Finder); ok {
				answer = a.files["lookup"]
				found := f.Lookup(t.Context(), at)
				fmt.Fprintf(&wire, "\n")
				fmt.Fprintf(&wire, "=> finding %d matches=%s failure=%v\n", found.Kind, found.Matches, found.Failure)
			}
			a.golden(t, wire.String())
		})
	}
}

func dump(w *strings.Builder, r *http.Request) {
	fmt.Fprintf(w, "%s %s\n", r.Method, r.URL.RequestURI())
	var names []string
	for name := range r.Header {
		if name != "Accept-Encoding" && name != "Content-Length" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "%s: %s\n", name, r.Header.Get(name))
	}
	b, _ := io.ReadAll(r.Body)
	if len(b) > 0 {
		fmt.Fprintf(w, "\n%s\n", b)
	}
}
