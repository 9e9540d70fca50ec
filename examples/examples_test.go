// Package examples holds catalogs to start from. The tests see to it that they
// stay usable.
package examples_test

import (
	"path/filepath"
	"strings"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	httpconn "github.com/justonce-dev/justonce/connector/http"
	smtpconn "github.com/justonce-dev/justonce/connector/smtp"
)

func options(env map[string]string) *catalog.Options {
	return &catalog.Options{
		Connectors: map[string]catalog.Connect{
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
			"mcp": mcpTools(nil),
		},
		LookupEnv: func(name string) (string, bool) {
			if v, ok := env[name]; ok {
				return v, true
			}
			// Any secret will do, but an address must be meant.
			return "anything", !strings.HasSuffix(name, "_URL") && !strings.HasSuffix(name, "_ADDR")
		},
	}
}

// tools returns the tools of an example.
func tools(t *testing.T, path string, env map[string]string) map[string]*justonce.Tool {
	t.Helper()
	c, err := catalog.Load(path, options(env))
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Tools()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*justonce.Tool{}
	for _, tool := range list {
		all[tool.Name] = tool
	}
	return all
}

func TestExamplesAreFine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		found, err := catalog.CheckFile(file, options(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Error(f)
		}
		if len(found) > 0 {
			continue
		}
		for _, tool := range tools(t, file, nil) {
			if _, err := justonce.New(nil, &justonce.RunnerOptions{Tools: []*justonce.Tool{tool}}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if tool.Description == "" || tool.Schema == nil {
				t.Errorf("%s: %s is not described", file, tool.Name)
			}
		}
	}
}
