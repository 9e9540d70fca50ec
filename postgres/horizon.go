package postgres

import (
	"context"
	"math"
	"sync"
	"time"
)

// A horizon is a time before which nothing is due, as far as is known. Claims
// start there: what has been settled leaves entries in the index of due times,
// and while anybody in the database keeps a transaction open no vacuum can take
// them away. It is only a hint. What comes to lie before it, since it was
// committed late or dated back, is found by a later look that starts further
// back.
type horizon struct {
	mu    sync.Mutex
	from  int64
	tools map[string]bool // of which claims have asked; nil: none yet
	any   bool            // a claim has asked for all tools
	known int             // how often tools were added

	moved    time.Time // when it was last looked for
	lateLook time.Time // when from lateBack on
	fullLook time.Time // when from the beginning
	lateRest time.Duration
	fullRest time.Duration
}

const (
	horizonEvery = 500 * time.Millisecond
	lateEvery    = 5 * time.Second
	fullEvery    = time.Minute
	// horizonSlack is how far a due time may lie in the past when it becomes
	// visible and still be met by the next claim: that of a usual commit.
	horizonSlack = time.Second
	// lateBack is the same for the next late look: writes that were held up,
	// and clocks that were read wrongly.
	lateBack = time.Minute
	// lookShare bounds the time that late and full looks take: one rests for so
	// many times as long as it took.
	lookShare = 100
)

// start returns where to look from for what is due of tools; none: of all.
func (h *horizon) start(tools ...string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.know(tools)
	return h.from
}

// know includes tools. Nothing is known of those that are new.
func (h *horizon) know(tools []string) {
	if h.any {
		return
	}
	fresh := len(tools) == 0
	h.any = fresh
	for _, tool := range tools {
		if !h.tools[tool] {
			if h.tools == nil {
				h.tools = make(map[string]bool)
			}
			h.tools[tool], fresh = true, true
		}
	}
	if fresh {
		h.known++
		h.from, h.moved, h.fullLook, h.fullRest = math.MinInt64, time.Time{}, time.Time{}, 0
	}
}

// include moves the horizon back before a due time that this process writes.
func (h *horizon) include(due int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = min(h.from, due)
}

// include moves the horizon of s back before r, if need be.
func (s *Store) include(r *row) {
	if r.state < stReview {
		s.includeDue(&s.horizon, r.due)
	}
}

func (s *Store) includeDue(h *horizon, due int64) {
	if s.o.Now == nil && due < s.Now().Add(-horizonSlack/2).UnixNano() {
		h.include(due)
	}
}

// A look is one search for what is due the longest.
type look struct {
	start, end int64 // end is exclusive
	was        int64 // the horizon before it
	known      int
	tools      []string       // nil: all
	rest       *time.Duration // to be set; nil: none
}

// look moves the horizon for claims of tools on, from time to time.
func (s *Store) look(ctx context.Context, tools ...string) {
	s.lookFrom(ctx, &s.horizon, "horizon", `SELECT due FROM $schema.watch WHERE state < 5 AND`, tools)
}

// lookAtBatches does the same for batches.
func (s *Store) lookAtBatches(ctx context.Context) {
	s.lookFrom(ctx, &s.batches.horizon, "horizon of batches", `SELECT due FROM $schema.batch WHERE`, nil)
}

func (s *Store) lookFrom(ctx context.Context, h *horizon, name, from string, tools []string) {
	if s.o.Now != nil {
		return // a clock of tests stands still, and jumps
	}
	begun := time.Now()
	l, ok := h.next(begun, s.Now(), tools)
	if !ok {
		return
	}
	first := l.end
	from += ` due >= $1 AND due < $2`
	const order = ` ORDER BY due LIMIT 1`
	st, params := s.st.plain(name, from+order, oidInt8, oidInt8), [][]byte{int64Param(l.start), int64Param(l.end)}
	if l.tools != nil {
		st, params = s.st.plain(name+" of tools", from+` AND tool = ANY($3)`+order, oidInt8, oidInt8, oidTexts), append(params, textsParam(l.tools))
	}
	err := s.read(ctx, query{st, params, func(v [][]byte) error { first = int64At(v, 0); return nil }})
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.rest != nil {
		*l.rest = lookShare * time.Since(begun)
	}
	switch {
	case err != nil || h.known != l.known:
	case h.from == l.was:
		h.from = first
	default: // what was included meanwhile lies before
		h.from = min(h.from, first)
	}
}

// next returns the look that is due, if one is.
func (h *horizon) next(now, server time.Time, tools []string) (l look, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.know(tools)
	if now.Sub(h.moved) < horizonEvery {
		return look{}, false
	}
	h.moved = now
	l = look{start: h.from, end: server.Add(-horizonSlack).UnixNano(), was: h.from, known: h.known}
	switch {
	case now.Sub(h.fullLook) >= max(fullEvery, h.fullRest):
		h.fullLook, h.lateLook = now, now
		l.start, l.rest = math.MinInt64, &h.fullRest
	case now.Sub(h.lateLook) >= max(lateEvery, h.lateRest):
		h.lateLook = now
		l.start, l.rest = min(h.from, server.Add(-lateBack).UnixNano()), &h.lateRest
	}
	if !h.any {
		for tool := range h.tools {
			l.tools = append(l.tools, tool)
		}
	}
	return l, true
}
