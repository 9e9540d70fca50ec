package catalog_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	httpconn "github.com/justonce-dev/justonce/connector/http"
	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

var update = flag.Bool("update", false, "write the golden files")

// connectors are the real ones.
func connectors() map[string]catalog.Connect {
	return map[string]catalog.Connect{
		"http": func(s *catalog.Spec) (justonce.Connector, error) {
			c := httpconn.Config{Capability: s.Policy.Capability}
			if err := s.Decode(&c); err != nil {
				return nil, err
			}
			return httpconn.New(c, &httpconn.Options{Secrets: s.Secrets})
		},
		"smtp": func(s *catalog.Spec) (justonce.Connector, error) {
			var c smtpconn.Config
			if err := s.Decode(&c); err != nil {
				return nil, err
			}
			return smtpconn.New(c, &smtpconn.Options{Secrets: s.Secrets})
		},
		"mcp": func(s *catalog.Spec) (justonce.Connector, error) {
			var c mcpconn.Config
			if err := s.Decode(&c); err != nil {
				return nil, err
			}
			c.Server, c.Tool, _ = strings.Cut(s.Tool, "/")
			return mcpconn.New(c, nobody{})
		},
	}
}

// nobody calls no tool.
type nobody struct{}

func (nobody) CallTool(context.Context, *mcpconn.ToolCall) mcpconn.Reply { return mcpconn.Reply{} }

// options see nothing but the files of the archive; its file env has lines of
// NAME=VALUE.
func (a *archive) options() *catalog.Options {
	env := map[string]string{}
	for line := range strings.Lines(a.files["env"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return &catalog.Options{
		Connectors: connectors(),
		LookupEnv: func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		},
		ReadFile: func(path string) ([]byte, error) {
			s, ok := a.files[path]
			if !ok {
				return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
			}
			return []byte(s), nil
		},
	}
}

func diffText(want, got string) string {
	return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}

// accepted fails the test unless what Parse accepts can be used, and Parse
// accepts exactly what has no errors.
func accepted(t *testing.T, name string, data []byte, o *catalog.Options, found []catalog.Finding) {
	t.Helper()
	broken := false
	for _, f := range found {
		broken = broken || f.Severity == catalog.SeverityError
	}
	c, err := catalog.Parse(name, data, o)
	if broken != (err != nil) {
		t.Fatalf("Check found errors: %v, Parse: %v", broken, err)
	}
	if err != nil {
		return
	}
	tools, err := c.Tools()
	if err != nil {
		if o.Connectors != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := justonce.New(nil, &justonce.RunnerOptions{Tools: tools}); err != nil {
		t.Fatalf("the core refuses what the catalog accepts: %v", err)
	}
}

// TestRules has a file for each rule, whose bad.yaml triggers it and whose
// good.yaml, much the same, does not.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, rule := range catalog.Rules() {
		t.Run(rule.ID, func(t *testing.T) {
			t.Parallel()
			a := readArchive(t, filepath.Join("testdata", "rules", rule.ID+".txtar"))
			o := a.options()
			bad, good := []byte(a.files["bad.yaml"]), []byte(a.files["good.yaml"])
			found := catalog.Check("bad.yaml", bad, o)
			accepted(t, "bad.yaml", bad, o, found)
			var got strings.Builder
			hit := false
			for _, f := range found {
				got.WriteString(f.String() + "\n")
				hit = hit || f.Rule == rule.ID && f.Severity == rule.Severity
			}
			if !hit {
				t.Errorf("bad.yaml does not trigger it:\n%s", got.String())
			}
			if strings.Contains(got.String(), "hunter22") {
				t.Errorf("a secret is shown:\n%s", got.String())
			}
			found = catalog.Check("good.yaml", good, o)
			accepted(t, "good.yaml", good, o, found)
			for _, f := range found {
				if f.Rule == rule.ID || f.Severity == catalog.SeverityError {
					t.Errorf("good.yaml: %s", f)
				}
			}
			a.golden(t, got.String())
		})
	}
}
