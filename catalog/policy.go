package catalog

import (
	"cmp"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

const day = 24 * time.Hour

// Defaults of tools with an mcp block.
const (
	mcpTimeout = 2 * time.Minute
	mcpLease   = 15 * time.Second
)

// policy reads what the state table needs to know, and bounds it, so that sums
// of spans cannot overflow.
func (b *builder) policy(t *tool, d *decoder) {
	s := &t.spec
	span := func(v *time.Duration, most time.Duration, path ...string) {
		defer func() { *v = min(*v, most) }()
		n := t.node
		for _, name := range path {
			n = n.get(name)
		}
		name := path[len(path)-1]
		switch {
		case n == nil || n.kind == kindNull:
		case *v == 0 && isDuration(n):
			d.findings.add("value", n.at, t.name, "leave it out for the default", "%s: it must be more than nothing", name)
		case *v > most:
			d.findings.add("value", n.at, t.name, "", "%s: it must be %s at most", name, spell(most))
		}
	}
	span(&s.DedupeFor, maxDuration, "dedupe_for")
	span(&s.Window, maxDuration, "window")
	span(&s.Margin, maxDuration, "margin")
	span(&s.Timeout, day, "timeout")
	span(&s.Lease, 7*day, "lease")
	span(&s.Retries.Base, 7*day, "retries", "base")
	span(&s.Retries.Cap, 7*day, "retries", "cap")
	span(&s.Retries.Poll, 7*day, "retries", "poll")
	count := func(v *int, most int, name string) {
		defer func() { *v = max(0, min(*v, most)) }()
		n := t.node.get("retries").get(name)
		if n != nil && n.kind == kindNumber && (*v < 1 || *v > most) {
			d.bad(n, "%s: it must be 1 to %d", name, most)
		}
	}
	count(&s.Retries.MaxAttempts, 1000, "max_attempts")
	count(&s.Retries.MaxUnknowns, 1000, "max_unknowns")
	count(&s.Retries.MaxLookups, 10_000, "max_lookups")

	p := justonce.Policy{
		Capability: s.Capability, Fallback: s.Fallback, RetryAbsent: s.RetryAbsent,
		Window: s.Window, Margin: s.Margin, Timeout: s.Timeout, Lease: s.Lease,
		MaxAttempts: s.Retries.MaxAttempts, MaxUnknowns: s.Retries.MaxUnknowns, MaxLookups: s.Retries.MaxLookups,
		BackoffBase: s.Retries.Base, BackoffCap: s.Retries.Cap, Poll: s.Retries.Poll,
	}
	if t.node.get("mcp") != nil {
		// Calls of MCP tools may take long, and their servers are often processes of
		// the caller's own, that die with it: a short lease, which is renewed, tells
		// soon.
		p.Timeout, p.Lease = cmp.Or(p.Timeout, mcpTimeout), cmp.Or(p.Lease, mcpLease)
	}
	if s.Settle != nil {
		p.Settle = min(*s.Settle, 365*day)
		if p.Settle == 0 {
			p.Settle = -1 // none; zero would be the default
		}
	}
	t.policy = p.WithDefaults()
	if s.Settle != nil && *s.Settle == 0 {
		t.policy.Settle = -1 // for those who apply the defaults once more
	}
}

func isDuration(n *node) bool {
	_, err := parseDuration(n)
	return err == nil
}

// sendSpan is the longest time from the first send of an operation to the end
// of its last, if each attempt lasts as long as it may be thought to and each
// wait is the longest possible. A provider's Retry-After may add to it.
func sendSpan(p justonce.Policy) time.Duration {
	span := time.Duration(p.MaxAttempts) * max(p.Lease, p.Timeout)
	for n := 1; n < p.MaxAttempts; n++ {
		span += p.Backoff(n, 1, 0)
	}
	return span
}

// lookupSpan is the longest time that the lookups after the last send take.
func lookupSpan(p justonce.Policy) time.Duration {
	span := max(p.Settle, 0)
	for n := 1; n <= p.MaxLookups; n++ {
		span += p.Timeout + p.Backoff(n, 1, 0)
	}
	return span
}
