package main

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
)

const (
	// sparingFirst is for how long a warning is not repeated, and sparingMost to
	// what that grows. One that did not come for that long is a new one.
	sparingFirst = 5 * time.Second
	sparingMost  = time.Minute
	// sparingKnown bounds the warnings that are remembered.
	sparingKnown = 1024
)

// A sparing handler passes a warning or an error that comes again and again, with
// the same words and attributes, at growing intervals only, and then says how many
// it left out: a ledger that is away is tried twice a second. It spares records
// with an attribute "error" alone; the others tell of events, each of its own.
type sparing struct {
	slog.Handler
	within string // groups and attributes
	said   *said
}

func newSparing(h slog.Handler) *sparing {
	return &sparing{Handler: h, said: &said{seed: maphash.MakeSeed(), warnings: map[uint64]*warning{}}}
}

// Handle implements [slog.Handler].
func (s *sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || r.Time.IsZero() {
		return s.Handler.Handle(ctx, r)
	}
	var key maphash.Hash
	key.SetSeed(s.said.seed)
	fmt.Fprintf(&key, "%s%v %q", s.within, r.Level, r.Message)
	trouble := false
	r.Attrs(func(a slog.Attr) bool {
		trouble = trouble || a.Key == "error"
		fmt.Fprintf(&key, " %s=%q", a.Key, a.Value)
		return true
	})
	if !trouble {
		return s.Handler.Handle(ctx, r)
	}
	left, pass := s.said.pass(key.Sum64(), r.Time)
	if !pass {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", left))
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (s *sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sparing{s.Handler.WithAttrs(attrs), fmt.Sprintf("%s%q ", s.within, attrs), s.said}
}

// WithGroup implements [slog.Handler].
func (s *sparing) WithGroup(name string) slog.Handler {
	return &sparing{s.Handler.WithGroup(name), s.within + name + ".", s.said}
}

// said is what was said of late.
type said struct {
	seed maphash.Seed

	mu       sync.Mutex
	warnings map[uint64]*warning // by the hash of all that they say
}

type warning struct {
	passed, came time.Time // the last one
	wait         time.Duration
	left         int // out since it passed
}

// pass reports whether a warning is to be passed that comes at a time, and how
// many were left out before.
func (s *said) pass(key uint64, at time.Time) (left int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.warnings[key]
	switch {
	case w == nil:
		s.make(at)
		s.warnings[key] = &warning{passed: at, came: at, wait: sparingFirst}
		return 0, true
	case at.Sub(w.came) >= sparingMost: // it comes back
		left = w.left
		*w = warning{passed: at, came: at, wait: sparingFirst}
		return left, true
	case at.Sub(w.passed) < w.wait:
		w.came = at
		w.left++
		return 0, false
	}
	left = w.left
	*w = warning{passed: at, came: at, wait: min(2*w.wait, sparingMost)}
	return left, true
}

// make makes room for one more.
func (s *said) make(at time.Time) {
	if len(s.warnings) < sparingKnown {
		return
	}
	for key, w := range s.warnings {
		if at.Sub(w.came) >= sparingMost {
			delete(s.warnings, key)
		}
	}
	if len(s.warnings) >= sparingKnown {
		clear(s.warnings)
	}
}
