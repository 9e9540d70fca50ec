package justonce

import (
	"sync"
	"time"
)

// A budget keeps a tool's outage from being amplified by retries: each send
// that failed takes a token, each that succeeded brings one back, time brings
// them back slowly, and without a token nothing is sent again. First sends are
// never held back. Counted per tool and process.
type budget struct {
	mu     sync.Mutex
	tokens float64
	at     time.Time // of the last refill
}

const (
	budgetMax       = 50
	budgetPerSecond = 1
)

func newBudget() *budget { return &budget{tokens: budgetMax} }

func (b *budget) add(now time.Time, n float64) {
	if !b.at.IsZero() && now.After(b.at) {
		b.tokens = min(b.tokens+now.Sub(b.at).Seconds()*budgetPerSecond, budgetMax)
	}
	b.at = now
	b.tokens = max(0, min(b.tokens+n, budgetMax))
}

// sent counts a send.
func (b *budget) sent(now func() time.Time, k OutcomeKind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch k {
	case OutcomeUnknown, OutcomeNotExecuted:
		b.add(now(), -1)
	case OutcomeWithdrawn: // says nothing of the provider
	default:
		if b.tokens == budgetMax {
			return // nothing changes, as nearly always
		}
		b.add(now(), 1)
	}
}

// allow reports whether something may be sent again at now.
func (b *budget) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(now, 0)
	return b.tokens >= 1
}
