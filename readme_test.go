package justonce_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The README's Go code is the body of ExampleWrap, which compiles and runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- ExampleWrap -->\n```go\n(.*?)```").FindSubmatch(readme)
	body := regexp.MustCompile(`(?s)func ExampleWrap\(\) \{\n(.*?)\t// Output:`).FindSubmatch(source)
	if shown == nil || body == nil {
		t.Fatal("the README or the example has another shape")
	}
	want := strings.ReplaceAll("\n"+string(body[1]), "\n\t", "\n")[1:]
	if got := string(shown[1]); got != want {
		t.Errorf("the README shows\n%s\nthe example is\n%s", got, want)
	}
}

// Pages that the README and the other pages link to exist.
func TestLinksLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	docs, err := os.ReadDir("docs")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		if strings.HasSuffix(d.Name(), ".md") {
			pages = append(pages, "docs/"+d.Name())
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		dir := page[:strings.LastIndex(page, "/")+1]
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(dir + m[1]); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// Every test that the guarantees name is there.
func TestGuaranteesNameTests(t *testing.T) {
	page, err := os.ReadFile("docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		sources.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(names) < 20 {
		t.Errorf("the page names %d tests only", len(names))
	}
	for _, m := range names {
		if !strings.Contains(sources.String(), "func "+m[1]+"(") {
			t.Errorf("there is no %s", m[1])
		}
	}
}
