package entries_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/justonce-dev/justonce/internal/entries"
)

// A word that is not in its list is stored as text in every entry that has it.
func TestWords(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]string{"EntryKind": entries.Kinds, "State": entries.States, "EventKind": entries.Outcomes} {
		declared := constants(t, name)
		if len(declared) == 0 {
			t.Errorf("no constants of type %s are found", name)
		}
		for _, word := range declared {
			if !slices.Contains(list, word) {
				t.Errorf("%q, of type %s, is not in the list: append it", word, name)
			}
		}
	}
}

// constants returns the values of the root package's constants of a type.
func constants(t *testing.T, typeName string) (values []string) {
	t.Helper()
	files, err := filepath.Glob("../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != typeName {
				return false
			}
			for _, v := range spec.Values {
				if text, ok := v.(*ast.BasicLit); ok && text.Kind == token.STRING {
					word, err := strconv.Unquote(text.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, word)
				}
			}
			return false
		})
	}
	return values
}
