package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Severity says whether a catalog can be used.
type Severity string

const (
	SeverityError   Severity = "error"   // it cannot: Parse refuses it
	SeverityWarning Severity = "warning" // it can, and somebody may regret it
)

// A Finding is something wrong with a catalog. Its words never hold a secret.
// Its JSON is what justonce check --json prints.
type Finding struct {
	Rule     string   `json:"rule"` // the id of one of [Rules]
	Severity Severity `json:"severity"`
	Position
	// Tool is the tool's name. Where several share what is wrong, as by an alias,
	// it is all of them: "a, b".
	Tool    string `json:"tool,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do
}

// String returns "file:line:column: severity: message (hint) [rule]".
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: ", f.Position, f.Severity)
	switch {
	case strings.Contains(f.Tool, ", "):
		fmt.Fprintf(&b, "tools %s: ", f.Tool)
	case f.Tool != "":
		fmt.Fprintf(&b, "tool %s: ", f.Tool)
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		fmt.Fprintf(&b, " (%s)", f.Hint)
	}
	fmt.Fprintf(&b, " [%s]", f.Rule)
	return b.String()
}

// An Error is why a catalog cannot be used. All its findings are of severity
// error.
type Error struct{ Findings []Finding }

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Findings))
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// maxFindings bounds what a hopeless file reports.
const maxFindings = 200

// findings collects what is found.
type findings struct{ list []Finding }

func (c *findings) add(rule string, at Position, tool, hint, format string, a ...any) {
	if len(c.list) >= maxFindings {
		return
	}
	c.list = append(c.list, Finding{Rule: rule, Severity: severityOf(rule), Position: at, Tool: tool,
		Message: fmt.Sprintf(format, a...), Hint: hint})
}

func (c *findings) yaml(err error) {
	if e, ok := err.(*yamlError); ok {
		c.add("yaml", e.at, "", e.hint, "%s", e.message)
	}
}

// sorted returns the findings by place, the same one of several tools once.
func (c *findings) sorted() []Finding {
	list := slices.Clone(c.list)
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Rule, b.Rule))
	})
	return merged(list)
}

func merged(list []Finding) []Finding {
	var out []Finding
	first := map[Finding]int{}
	names := map[int][]string{}
	for _, f := range list {
		of := f
		of.Tool = ""
		i, dup := first[of]
		if !dup {
			i = len(out)
			first[of], out = i, append(out, of)
		}
		if f.Tool != "" && !slices.Contains(names[i], f.Tool) {
			names[i] = append(names[i], f.Tool)
			out[i].Tool = strings.Join(names[i], ", ")
		}
	}
	return out
}

func errorsOf(list []Finding) []Finding {
	var out []Finding
	for _, f := range list {
		if f.Severity == SeverityError {
			out = append(out, f)
		}
	}
	return out
}
