package postgres

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
)

// A horizon is a time before which nothing is due, as far as is known. Claims
// start there: what has been settled leaves entries in the index of due times,
// and while anybody in the database keeps a transaction open no vacuum can take
// them away. It is only a hint. What comes to lie before it, since somebody
// dated it back, is found with the next full look.
type horizon struct {
	mu       sync.Mutex
	from     int64
	moved    time.Time // when it was last looked for
	fullLook time.Time // when from the beginning
}

const (
	horizonEvery = 5 * time.Second
	fullEvery    = time.Minute
	// horizonSlack is how far a due time may lie in the past when it becomes
	// visible: for writes that were held up, and clocks that were read wrongly.
	horizonSlack = time.Minute
)

// start returns where to look from.
func (h *horizon) start() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.from
}

// include moves the horizon back before a due time that this process writes.
func (h *horizon) include(due int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = min(h.from, due)
}

// include moves the horizon of s back before r, if need be.
func (s *Store) include(r *row) {
	if s.o.Now == nil && r.state < stReview && r.due < s.Now().Add(-horizonSlack/2).UnixNano() {
		s.horizon.include(r.due)
	}
}

// look moves the horizon on, from time to time.
func (s *Store) look(ctx context.Context) {
	if s.o.Now != nil {
		return // a clock of tests stands still, and jumps
	}
	h := &s.horizon
	now := time.Now()
	h.mu.Lock()
	if now.Sub(h.moved) < horizonEvery {
		h.mu.Unlock()
		return
	}
	h.moved = now
	from := h.from
	if now.Sub(h.fullLook) >= fullEvery {
		h.fullLook, from = now, math.MinInt64
	}
	h.from = from // until the answer is there, and for good if it never is
	h.mu.Unlock()

	first := int64(packed.Never)
	st := s.st.plain("horizon", `SELECT due FROM $schema.watch WHERE state < 5 AND due >= $1 ORDER BY due LIMIT 1`, oidInt8)
	err := s.read(ctx, query{st, [][]byte{int64Param(from)}, func(v [][]byte) error { first = int64At(v, 0); return nil }})
	if err != nil {
		return
	}
	next := min(first, s.Now().Add(-horizonSlack).UnixNano())
	h.mu.Lock()
	defer h.mu.Unlock()
	// What was included meanwhile lies before.
	if h.from == from && next > from {
		h.from = next
	}
}
