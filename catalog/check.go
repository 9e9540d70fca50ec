package catalog

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	justonce "github.com/justonce-dev/justonce"
)

// Check reads a catalog as [Parse] does and returns everything that was found,
// in the order of the file: what makes it unusable and what somebody may
// regret. Besides, it looks whether the secrets that the file refers to can be
// had, and whether there are any tools. An empty result means that the file is as it should be.
func Check(name string, data []byte, o *Options) []Finding {
	c, found := parse(name, data, o)
	all := &findings{list: found}
	c.toolless(all)
	for _, t := range c.tools {
		if !slices.Contains(t.spec.Allow, "secret-missing") {
			c.unreachable(t.name, t.refs, all)
		}
	}
	for _, name := range sortedNames(c.servers) {
		c.unreachable("", c.servers[name].refs, all)
	}
	return all.sorted()
}

// CheckFile is Check of the file at path. The error says that it cannot be
// read.
func CheckFile(path string, o *Options) ([]Finding, error) {
	data, err := readBounded(path, o.maxBytes())
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	return Check(path, data, o), nil
}

// toolless finds that there is nothing to call: no tool or MCP server is
// declared, and the sandbox, which has some, is not asked for.
func (c *Catalog) toolless(found *findings) {
	sandbox := c.Settings.Sandbox != "" && c.Settings.Sandbox != "off"
	if len(c.tools) == 0 && len(c.servers) == 0 && !sandbox && len(errorsOf(found.list)) == 0 {
		found.add("no-tools", c.toolsAt, "", "add one under tools, or an MCP server under servers", "it declares no tools")
	}
}

// unreachable finds the references that have no value now. They are a tool's;
// of a server tool is "".
func (c *Catalog) unreachable(tool string, refs []reference, found *findings) {
	seen := map[string]bool{}
	for _, r := range refs {
		if seen[r.name()] {
			continue
		}
		seen[r.name()] = true
		hint := "set it where justonce runs"
		what := "the environment variable " + r.value + " is not set"
		if r.kind == "file" {
			hint = "create it where justonce runs"
			what = "the file " + r.value + " cannot be read or is empty"
			if filepath.IsAbs(r.value) {
				hint += ", readable for its user"
			}
		}
		if _, err := c.secrets.Secret(context.Background(), r.name()); err != nil {
			found.add("secret-missing", r.at, tool, hint, "%s", what)
		}
	}
}

// A context for the checks of one tool.
type checked struct {
	*tool
	found  *findings
	policy justonce.Policy
}

// report adds a finding, unless the tool allows its rule.
func (c *checked) report(rule string, at Position, hint, format string, a ...any) {
	if severityOf(rule) == SeverityWarning && slices.Contains(c.spec.Allow, rule) {
		return
	}
	c.found.add(rule, at, c.name, hint, format, a...)
}

// lint looks at every tool that could be read.
func lint(c *Catalog, found *findings) {
	for _, t := range c.tools {
		if t.broken {
			continue
		}
		k := &checked{tool: t, found: found, policy: t.policy}
		k.identityRules()
		k.argumentRules()
		k.policyRules()
		k.lookupRules()
		k.referenceRules()
		k.keyRules()
		if t.recorded() {
			k.moneyRules()
		}
	}
}
