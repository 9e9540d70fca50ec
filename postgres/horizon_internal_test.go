package postgres

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/packed"
)

// LateLook lets s look now for what was committed late.
func (s *Store) LateLook() {
	s.horizon.mu.Lock()
	s.horizon.moved, s.horizon.lateLook = time.Time{}, time.Time{}
	s.horizon.fullLook = time.Now()
	s.horizon.mu.Unlock()
	s.look(context.Background())
}

// HorizonNow returns where claims of s start.
func (s *Store) HorizonNow() time.Time {
	s.horizon.mu.Lock()
	defer s.horizon.mu.Unlock()
	return packed.TimeOf(s.horizon.from, packed.NoTime)
}

// A look starts at the horizon, some time back or at the beginning, each kind
// at its pace.
func TestHorizonLooks(t *testing.T) {
	const none, near, late, full = "none", "near", "late", "full"
	begin := time.Unix(1_800_000_000, 0)
	h := &horizon{from: math.MinInt64}
	for _, step := range []struct {
		at    time.Duration
		tools []string
		took  time.Duration
		want  string
	}{
		{at: 0, tools: []string{"charge"}, want: full},
		{at: horizonEvery - 1, tools: []string{"charge"}, want: none},
		{at: horizonEvery, tools: []string{"charge"}, want: near},
		{at: horizonEvery, tools: []string{"charge", "refund"}, want: full},
		{at: horizonEvery + lateEvery - 1, tools: []string{"refund"}, want: near},
		{at: 2*horizonEvery + lateEvery, tools: []string{"charge"}, want: late},
		{at: horizonEvery + fullEvery, want: full, took: time.Second},
		{at: 2 * fullEvery, tools: []string{"charge"}, want: late},
		{at: 2*fullEvery + lateEvery, want: late},
		{at: 2*fullEvery + 2*lateEvery, want: late},
		{at: horizonEvery + fullEvery + lookShare*time.Second, want: full},
	} {
		now := begin.Add(step.at)
		from := h.from
		l, ok := h.next(now, now, step.tools)
		got, start := none, l.start
		switch {
		case !ok:
		case l.rest == &h.fullRest:
			got, start = full, math.MinInt64
		case l.rest == &h.lateRest:
			got, start = late, min(from, now.Add(-lateBack).UnixNano())
		default:
			got, start = near, from
		}
		if got != step.want || l.start != start {
			t.Fatalf("after %v, for %v: %s look from %v, want %s from %v", step.at, step.tools, got, time.Unix(0, l.start), step.want, time.Unix(0, start))
		}
		if ok {
			if want := now.Add(-horizonSlack).UnixNano(); l.end != want {
				t.Errorf("after %v: the look ends at %v, want %v", step.at, time.Unix(0, l.end), time.Unix(0, want))
			}
			h.from = l.end
			if l.rest != nil {
				*l.rest = lookShare * step.took
			}
		}
	}
	h.include(begin.UnixNano())
	if h.start() != begin.UnixNano() {
		t.Errorf("the horizon lies at %v, want what was included", time.Unix(0, h.from))
	}
}
