package justonce_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/justonce-dev/justonce"

// allowed says which packages of this module each package may import, tests
// left out. Imports point one way: cmd, fronts and adapters, root, leaves.
// A package that is not listed may import leaves only: what is internal and
// does not import the root.
var allowed = map[string][]string{
	"":                        {"internal/canon"},
	"inmem":                   {""},
	"sqlite":                  {"", "internal/entries", "internal/outbox", "internal/packed"},
	"postgres":                {"", "internal/entries", "internal/news", "internal/outbox", "internal/packed", "internal/recent", "internal/remoteclock"},
	"redis":                   {"", "internal/entries", "internal/news", "internal/packed", "internal/recent", "internal/remoteclock"},
	"storetest":               {"", "inmem"},
	"connector/http":          {"", "internal/httpask", "internal/celexpr", "internal/secret"},
	"connector/smtp":          {"", "internal/httpask", "internal/celexpr", "internal/secret"},
	"connector/mcp":           {"", "internal/httpask", "internal/celexpr", "internal/secret", "internal/jsonrpc", "internal/sse"},
	"connector/connectortest": {"", "internal/faultconn"},
	"catalog":                 {"", "internal/canon", "internal/secret"},
	"gateway":                 {"", "internal/canon"},
	"mcpproxy":                {"", "connector/mcp", "internal/canon", "internal/jsonrpc", "internal/sse"},
	"sandbox":                 {},
	"cmd/justonce":            {"", "inmem", "sqlite", "postgres", "redis", "connector/http", "connector/smtp", "connector/mcp", "catalog", "gateway", "mcpproxy", "sandbox", "examples"},
	"internal/httpask":        {"internal/celexpr", "internal/secret"},
	// Shared by stores, above the root: no leaves.
	"internal/entries": {"", "internal/packed"},
	"internal/news":    {""},
	"internal/outbox":  {"", "internal/canon"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard"}, args...)...).Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			to := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
			ok := slices.Contains(allowed[name], to)
			if allowed[name] == nil {
				ok = strings.HasPrefix(to, "internal/") && !slices.Contains(allowed[to], "")
			}
			if !ok {
				t.Errorf("%s imports %s", p.ImportPath, imp)
			}
		}
	}
}

func TestRootLinksTheStandardLibraryOnly(t *testing.T) {
	for _, p := range list(t, "-deps", ".") {
		if !p.Standard && p.ImportPath != module && p.ImportPath != module+"/internal/canon" {
			t.Errorf("the root links %s", p.ImportPath)
		}
	}
}
