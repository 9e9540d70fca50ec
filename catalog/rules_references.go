package catalog

import (
	"strings"

	justonce "github.com/justonce-dev/justonce"
)

// referenceRules are about what templates and expressions name.
func (c *checked) referenceRules() {
	list, ok := c.mentions()
	if !ok {
		return
	}
	if c.schema != nil {
		c.namedArguments(list)
	}
	if c.recorded() && c.looksUp() && c.canLookup() {
		c.lookupBinds(list)
		c.lookupSent(list)
	}
}

// looksUp reports whether the tool's policy makes use of a lookup.
func (c *checked) looksUp() bool {
	p := c.policy
	asks := func(v justonce.Capability) bool { return v == justonce.ByReference || v == justonce.ByList }
	return asks(p.Capability) || p.Capability == justonce.ByKey && asks(p.Fallback) || c.spec.Effect == justonce.LongRunning
}

// namedArguments finds arguments that the schema lacks.
func (c *checked) namedArguments(list []mention) {
	v := c.schema.view()
	seen := map[string]bool{}
	preset := c.node.get("preset")
	for _, m := range list {
		if m.path[0] != "args" || seen[m.at+" "+m.spelled()] {
			continue
		}
		seen[m.at+" "+m.spelled()] = true
		n, refused := v.lacks(m.path[1:])
		if n < 0 {
			continue
		}
		at := c.placeIn(m.at)
		if m.optional && preset != nil && at == preset.at {
			continue // a schema of one's own need not offer all that the preset can send
		}
		missing := mention{path: m.path[:n+2]}
		hint := didYouMean(m.path[n+1], c.schema.names(m.path[1:n+1]))
		if hint == "" {
			hint = "add it to the schema's properties"
		}
		where := strings.ReplaceAll(strings.TrimPrefix(m.at, "/"), "/", ".")
		if refused {
			c.report("argument-impossible", at, hint, "%s refers to %s, which the schema does not let in", where, missing.spelled())
		} else {
			c.report("argument-unknown", at, hint, "%s refers to %s, which is not in the schema", where, missing.spelled())
		}
	}
}

// lacks follows the members of an argument and returns the index of the first
// that the schema does not know, with whether it refuses it; -1 if there is none.
func (v *view) lacks(tokens []string) (i int, refused bool) {
	for i := range tokens {
		switch is, _ := v.find(tokens[:i+1]); is {
		case presenceUnknown:
			return -1, false
		case absent:
			return i, v.closed(v.descend(tokens[:i]))
		}
	}
	return -1, false
}

// identifying are the variables that tell one operation from another.
var identifying = []string{"args", "wire_key", "key", "reference", "message_id"}

// circumstances are those that operations have in common with others.
var circumstances = []string{"first_sent", "unknown_at", "run_id", "scope"}

// lookupBinds finds lookups that would find anybody's effect.
func (c *checked) lookupBinds(list []mention) {
	loose := c.block.get("lookup").get("item_time") != nil // not before this operation
	for _, m := range list {
		if !m.below("/lookup") || m.below("/lookup/reference", "/lookup/result", "/lookup/failure_code", "/lookup/failure_message") {
			continue
		}
		if m.names(identifying...) {
			return
		}
		loose = loose || m.names(circumstances...)
	}
	at, hint := c.place(c.kind, "lookup"), "ask for ${wire_key} where it was sent, or compare with args"
	if c.kind == "mcp" {
		hint = "ask for args, or compare with them"
	}
	if loose {
		c.report("lookup-vague", at, hint, "the lookup tells this operation's effect only by its time, run or scope, so that another's would be taken for it")
		return
	}
	c.report("lookup-unbound", at, hint, "nothing in the lookup is about this operation, so that anybody's effect would be taken for it")
}

// lookupSent finds lookups for a key that the provider never got.
func (c *checked) lookupSent(list []mention) {
	same := [][]string{{"wire_key", "message_id"}, {"key"}}
	if c.spec.WireKey == justonce.WireKeyRaw {
		same = [][]string{{"wire_key", "message_id", "key"}}
	}
	for _, names := range same {
		asked, sent := "", false
		for _, m := range list {
			switch {
			case !m.names(names...):
			case m.below("/lookup"):
				if asked == "" {
					asked = m.at
				}
			case !m.below("/answer"):
				sent = true
			}
		}
		if asked != "" && !sent {
			hint := "put ${" + names[0] + "} into the request, where the provider keeps it"
			if c.kind == "mcp" { // which sends the arguments as they came
				hint = "ask by args"
			}
			c.report("lookup-unsent", c.placeIn(asked), hint,
				"the lookup asks for %s, but the request does not send it", names[0])
		}
	}
}
