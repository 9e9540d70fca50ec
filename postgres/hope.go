package postgres

import "sync/atomic"

// hope tells whether new operations are recorded hopefully: without looking
// first whether their keys are taken. That fails the whole group if one is, so
// that after each disappointment the next groups look, twice as many as after
// the one before.
type hope struct {
	careful atomic.Int64 // groups that still look
	penalty atomic.Int64
}

const (
	leastPenalty = 100
	mostPenalty  = 100_000
)

func (h *hope) hopeful() bool {
	n := h.careful.Load()
	if n <= 0 {
		return true
	}
	h.careful.Add(-1)
	return false
}

func (h *hope) disappoint() {
	p := min(max(2*h.penalty.Load(), leastPenalty), mostPenalty)
	h.penalty.Store(p)
	h.careful.Store(p)
}
