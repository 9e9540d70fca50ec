package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
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
// it left out: a ledger that is away is tried twice a second.
type sparing struct {
	slog.Handler
	within string // groups and attributes
	said   *said
}

func newSparing(h slog.Handler) *sparing {
	return &sparing{Handler: h, said: &said{warnings: map[string]*warning{}}}
}

// Handle implements [slog.Handler].
func (s *sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || r.Time.IsZero() {
		return s.Handler.Handle(ctx, r)
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%s%v %s", s.within, r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&key, " %v", a)
		return true
	})
	left, pass := s.said.pass(key.String(), r.Time)
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
	return &sparing{s.Handler.WithAttrs(attrs), fmt.Sprintf("%s%v ", s.within, attrs), s.said}
}

// WithGroup implements [slog.Handler].
func (s *sparing) WithGroup(name string) slog.Handler {
	return &sparing{s.Handler.WithGroup(name), s.within + name + ".", s.said}
}

// said is what was said of late.
type said struct {
	mu       sync.Mutex
	warnings map[string]*warning
}

type warning struct {
	passed, came time.Time // the last one
	wait         time.Duration
	left         int // out since it passed
}

// pass reports whether a warning is to be passed that comes at a time, and how
// many were left out before.
func (s *said) pass(key string, at time.Time) (left int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.warnings[key]
	switch {
	case w == nil || at.Sub(w.came) >= sparingMost:
		s.make(at)
		s.warnings[key] = &warning{passed: at, came: at, wait: sparingFirst}
		return 0, true
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
