package mcpconn

import (
	"slices"
	"strings"

	"github.com/justonce-dev/justonce/internal/celexpr"
)

// References calls visit for each variable that the declaration names: at is
// the JSON Pointer of the template or expression; path the variable and the
// members below it, with * for any; optional says that it may be absent. The
// arguments go without saying, and are visited as args; so is the variable
// arguments, which is another name of theirs.
func (k *connector) References(visit func(at string, path []string, optional bool)) {
	expression := func(at string) bool {
		return strings.HasPrefix(at, "/answer/") || strings.HasPrefix(at, "/lookup/") && !strings.HasPrefix(at, "/lookup/arguments/")
	}
	c := k.config
	c.Server, c.Tool, c.Mode, c.Answer.IsError = "", "", "", "" // names, and no templates
	if c.Lookup != nil {
		l := *c.Lookup
		l.Tool, c.Lookup = "", &l
	}
	celexpr.EachRef(c, expression, func(at string, r celexpr.Ref) {
		if r.Path[0] == "arguments" {
			r.Path = slices.Clone(r.Path)
			r.Path[0] = "args"
		}
		visit(at, r.Path, r.Optional)
	})
	visit("/tool", []string{"args"}, false)
}
