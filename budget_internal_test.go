package justonce

import (
	"testing"
	"time"
)

// Tokens are counted alike, whatever was asked and counted before.
func TestBudget(t *testing.T) {
	t.Parallel()
	const fail, succeed = OutcomeUnknown, OutcomeSucceeded
	start := time.Unix(1_700_000_000, 0)
	type step struct {
		after time.Duration
		kind  OutcomeKind
	}
	for name, x := range map[string]struct {
		steps []step
		want  float64
	}{
		"failures":                       {[]step{{0, fail}, {0, fail}}, 48},
		"brought back":                   {[]step{{0, fail}, {0, succeed}}, 50},
		"refilled":                       {[]step{{0, fail}, {0, fail}, {time.Second, fail}}, 48},
		"full, a while ago":              {[]step{{0, succeed}, {5 * time.Second, fail}}, 49},
		"full again, a while ago":        {[]step{{0, fail}, {5 * time.Second, fail}}, 49},
		"full by a success, a while ago": {[]step{{0, fail}, {0, succeed}, {0, succeed}, {5 * time.Second, fail}}, 49},
		"withdrawn counts for nothing":   {[]step{{0, fail}, {0, OutcomeWithdrawn}}, 49},
	} {
		b, now := newBudget(), start
		for _, s := range x.steps {
			now = now.Add(s.after)
			b.sent(func() time.Time { return now }, s.kind)
		}
		if b.tokens != x.want {
			t.Errorf("%s: %v tokens, want %v", name, b.tokens, x.want)
		}
	}
	b, now := newBudget(), start
	for range budgetMax {
		b.sent(func() time.Time { return now }, fail)
	}
	if b.allow(now) || !b.allow(now.Add(time.Second)) {
		t.Error("a spent budget allows one after a second, not before")
	}
}
