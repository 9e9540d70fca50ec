package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

func (c *checked) policyRules() {
	p := c.policy
	if p.Lease < time.Second {
		c.report("lease-short", c.place("lease"), "leave it out for the default",
			"the lease, %s, must be 1s or more", p.Lease)
	}
	if p.Capability == justonce.ByKey && p.Window <= p.Margin {
		at := c.place("window")
		if c.node.get("margin") != nil {
			at = c.place("margin")
		}
		c.report("window-margin", at, "", "the window, %s, must be longer than its margin, %s", spell(p.Window), spell(p.Margin))
	}
	if !c.recorded() {
		return
	}
	span := sendSpan(p)
	all := span
	if c.canLookup() {
		all += lookupSpan(p)
	}
	if n := c.node.get("dedupe_for"); n != nil && c.spec.DedupeFor > 0 && c.spec.DedupeFor < all {
		c.report("dedupe-short", c.place("dedupe_for"), "make it longer than "+spell(all)+", or retry less",
			"derived keys are forgotten after %s, and attempts and lookups may take %s", spell(c.spec.DedupeFor), spell(all))
	}
	if p.Capability != justonce.ByKey {
		return
	}
	if c.node.get("window") == nil {
		c.report("window-missing", c.place("capability"), "declare window with what the provider documents",
			"how long the provider remembers a key is not declared, and 24h is only a guess")
	} else if usable := p.Window - p.Margin; usable > 0 && usable < span {
		c.report("window-short", c.place("window"), "retry less, or sooner",
			"the key is safe for %s (window less margin), and attempts may take %s", spell(usable), spell(span))
	}
}

func (c *checked) lookupRules() {
	if c.kind == "" || c.block == nil {
		return
	}
	p, finds := c.policy, c.canLookup()
	needs := func(field string, v justonce.Capability) {
		if (v == justonce.ByReference || v == justonce.ByList) && !finds {
			c.report("lookup-needed", c.place(field), "add a lookup to "+c.kind, "%s %s, but the connector has no lookup", field, v)
		}
	}
	needs("capability", p.Capability)
	if p.Capability == justonce.ByKey {
		needs("fallback", p.Fallback)
	}
	if c.spec.Effect == justonce.LongRunning && !finds {
		c.report("lookup-needed", c.place("effect"), "add a lookup to "+c.kind, "a long-running tool is polled, but the connector has no lookup")
	}
	if !c.recorded() {
		return
	}
	uses := p.Capability == justonce.ByReference || p.Capability == justonce.ByList || p.Fallback != justonce.ByNothing
	if finds && !uses && c.spec.Effect == justonce.Write {
		field := "capability"
		if p.Capability == justonce.ByKey {
			field = "fallback"
		}
		c.report("lookup-unused", c.place(c.kind, "lookup"), "declare "+field+": reference or list", "the lookup is never used")
	}
	list := p.Capability == justonce.ByList || p.Capability == justonce.ByKey && p.Fallback == justonce.ByList
	if l := c.block.get("lookup"); list && l != nil && l.get("items") != nil && l.get("item_time") == nil && !exact(l) {
		c.report("list-unbounded", c.place(c.kind, "lookup"), "add item_time, such as item.created_at",
			"items are matched by fields, however old they are")
	}
}

// exact reports whether a lookup asks for what only this operation has.
func exact(lookup *node) bool {
	found := false
	lookup.walk("", "", func(_, key string, n *node) {
		if n.kind == kindText && (strings.Contains(n.text, "wire_key") || strings.Contains(n.text, "message_id")) {
			found = true
		}
	})
	return found
}

// keyLimits are the fields, with - and _ removed, in which providers take keys
// shorter than 255 characters.
var keyLimits = map[string]int{
	"xamzpayidempotencykey": 32, "xgcsidempotencekey": 40, "paypalrequestid": 108, "ckoidempotencykey": 36,
}

// bodyKeyLimit is the shortest limit known of idempotency keys in bodies.
const bodyKeyLimit = 45

func (c *checked) keyRules() {
	if c.block == nil || !c.recorded() {
		return
	}
	key := c.block.get("key")
	if key != nil && len(key.members) > 0 && c.policy.Capability != justonce.ByKey {
		c.report("key-unused", c.place(c.kind, "key"), "declare capability: key and the provider's window", "the wire key is sent as an idempotency key, but the capability is %s", c.policy.Capability)
	}
	if c.spec.WireKey != justonce.WireKeyRaw {
		return
	}
	most, where := 255, ""
	if c.preset != nil && c.preset.KeyMax > 0 {
		most, where = c.preset.KeyMax, "preset "+c.preset.Name
	}
	limit := func(n int, name string) {
		if n < most {
			most, where = n, name
		}
	}
	flat := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
	}
	if h := key.get("header").str(); h != "" {
		if n, ok := keyLimits[flat(h)]; ok {
			limit(n, h)
		}
	}
	if f := key.get("field").str(); flat(f) == "idempotencykey" {
		limit(bodyKeyLimit, f+" in a body, as Square has it")
	}
	if most < 255 {
		c.report("wire-key-raw", c.place("wire_key"), "leave it out for 32 hex digits, which fit everywhere",
			"raw keys have up to 255 characters, and %s takes %d", where, most)
	}
}

// moneyWords are those of tools that move money, in names and arguments.
var moneyWords = map[string]bool{
	"pay": true, "payment": true, "payments": true, "payout": true, "payouts": true, "charge": true, "charges": true,
	"refund": true, "refunds": true, "transfer": true, "transfers": true, "withdraw": true, "withdrawal": true,
	"invoice": true, "amount": true, "price": true, "currency": true, "debit": true, "credit": true, "money": true, "iban": true,
}

// money says why a tool looks as if it moved money; "" if it does not.
func (c *checked) money() string {
	for _, w := range words(c.name) {
		if moneyWords[w] {
			return fmt.Sprintf("its name has %q in it", w)
		}
	}
	if c.schema == nil {
		return ""
	}
	v := c.schema.view()
	for _, p := range v.properties(v.root) {
		if i := slices.IndexFunc(words(p.name), func(w string) bool { return moneyWords[w] }); i >= 0 {
			return fmt.Sprintf("it has an argument %s", p.name)
		}
	}
	return ""
}

func (c *checked) moneyRules() {
	why := c.money()
	if why == "" {
		return
	}
	p := c.policy
	if p.Capability == justonce.ByKey && p.Fallback == justonce.ByNothing {
		at := c.place("capability")
		if c.node.get("fallback") != nil {
			at = c.place("fallback")
		}
		c.report("money-fallback", at, "declare fallback: reference or list with a lookup, so that the provider can be asked",
			"it seems to move money (%s), and after its window only a person can tell", why)
	}
	if p.RetryAbsent && (p.Capability == justonce.ByList || p.Fallback == justonce.ByList) {
		c.report("money-retry-absent", c.place("retry_absent"), "leave it out, so that a person looks",
			"it seems to move money (%s), and a list that lags would make it move twice", why)
	}
}
