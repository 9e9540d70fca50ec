package catalog

import (
	"slices"
	"strings"
	"unicode"
)

// words splits a name at case, digits aside, and at what is no letter.
func words(s string) []string {
	var out []string
	var w []rune
	end := func() {
		if len(w) > 0 {
			out = append(out, string(w))
			w = nil
		}
	}
	lower := false
	for _, r := range s {
		switch {
		case unicode.IsUpper(r):
			if lower {
				end()
			}
			w, lower = append(w, unicode.ToLower(r)), false
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			w, lower = append(w, r), true
		default:
			end()
			lower = false
		}
	}
	end()
	return out
}

// volatileNames are arguments that change from try to try of one intent.
var volatileNames = map[string]bool{
	"timestamp": true, "ts": true, "now": true, "current_time": true, "sent_at": true, "requested_at": true, "generated_at": true,
	"nonce": true, "uuid": true, "guid": true, "random": true, "salt": true,
	"attempt": true, "attempts": true, "attempt_id": true, "attempt_number": true, "retry": true, "retries": true, "retry_count": true,
	"request_id": true, "correlation_id": true, "tool_call_id": true, "call_id": true, "tool_use_id": true, "invocation_id": true,
	"trace": true, "trace_id": true, "span_id": true, "traceparent": true, "tracestate": true, "trace_context": true,
	"idempotency_key": true,
}

func volatile(name string) bool { return volatileNames[strings.Join(words(name), "_")] }

func (c *checked) identityRules() {
	for _, p := range c.identity {
		for _, q := range c.ignore {
			if q.covers(p) {
				c.report("identity-ignored", p.at, "take "+q.text+" out of ignore", "%s identifies the call and is ignored", p.text)
			}
		}
	}
	switch {
	case !c.recorded():
		if len(c.identity) > 0 {
			c.report("identity-useless", c.place("identity"), "leave it out, or make the effect write", "a tool with effect %s is not recorded and needs no identity", c.spec.Effect)
		}
		return
	case len(c.identity) == 0 && len(c.node.get("identity").items()) == 0:
		c.report("identity-missing", c.at, "name the arguments that make two calls the same, such as identity: [/order_id]",
			"it has no identity, so that a retry in other words is another call")
	}
	for _, p := range c.identity {
		if last := p.tokens[len(p.tokens)-1]; volatile(last) {
			c.report("identity-volatile", p.at, "identify by what is meant, such as an order", "%s looks as if it changed from try to try", p.text)
		}
		if c.schema == nil {
			continue
		}
		switch is, required := c.schema.view().find(p.tokens); {
		case is == absent:
			c.report("identity-unknown", p.at, c.near(p), "the schema has no %s", p.text)
		case is == present && !required:
			c.report("identity-optional", p.at, "add it to the schema's required", "%s identifies the call, but the schema does not require it", p.text)
		}
	}
}

// items returns a list's elements; of a lone value, that.
func (n *node) items() []*node {
	switch {
	case n == nil || n.kind == kindNull:
		return nil
	case n.kind == kindList:
		return n.list
	}
	return []*node{n}
}

// near suggests a pointer that the schema has.
func (c *checked) near(p pointerAt) string {
	var known []string
	c.schema.view().each(func(q property) {
		if len(known) < 200 {
			known = append(known, q.path)
		}
	})
	return didYouMean(p.text, known)
}

func (c *checked) argumentRules() {
	if c.schema == nil || !c.recorded() {
		return
	}
	if t := c.schema.node.get("type"); t == nil || t.str() != "object" {
		c.report("schema-object", c.schemaPlace(), "add type: object", "the schema does not say type: object")
	}
	for _, p := range slices.Concat(c.ignore, c.pointers) {
		if is, _ := c.schema.view().find(p.tokens); is == absent {
			c.report("pointer-unknown", p.at, c.near(p), "the schema has no %s", p.text)
		}
	}
	c.schema.view().each(func(p property) {
		if !volatile(p.name) {
			return
		}
		q := pointerAt{text: p.path, tokens: strings.Split(p.path[1:], "/")}
		covers := func(i pointerAt) bool { return i.covers(q) }
		same := func(i pointerAt) bool { return i.text == p.path }
		if slices.ContainsFunc(c.ignore, covers) || slices.ContainsFunc(c.identity, same) {
			return
		}
		at := p.at
		if at.File != c.at.File {
			at = c.schemaPlace()
		}
		c.report("argument-volatile", at, "ignore: ["+p.path+"]", "%s looks as if it changed from try to try and is not ignored", p.path)
	})
}

// schemaPlace is where the tool names its schema.
func (c *checked) schemaPlace() Position {
	if c.spec.SchemaFile != "" {
		return c.place("schema_file")
	}
	return c.place("schema")
}
