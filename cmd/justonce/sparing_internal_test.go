package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

func TestSparingIsAHandler(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		b.Reset()
		return newSparing(slog.NewJSONHandler(&b, nil))
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(b.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// A trouble that lasts is told at once, then at growing intervals; another one,
// and one that comes back, at once.
func TestSparing(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	h := newSparing(slog.NewTextHandler(&b, nil))
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	// told returns what came of a record at a time, if anything.
	told := func(h slog.Handler, at time.Duration, level slog.Level, err error) string {
		b.Reset()
		r := slog.NewRecord(start.Add(at), level, "nothing could be claimed", 0)
		r.AddAttrs(slog.Any("error", err))
		if err := h.Handle(t.Context(), r); err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(b.String())
	}
	gone, full := errors.New("gone"), errors.New("full")
	var at []string
	for d := time.Duration(0); d < 4*time.Minute; d += 500 * time.Millisecond {
		if line := told(h, d, slog.LevelError, gone); line != "" {
			_, left, _ := strings.Cut(line, "left_out=")
			at = append(at, fmt.Sprint(d, "/", left))
		}
	}
	if got, want := strings.Join(at, " "), "0s/ 5s/9 15s/19 35s/39 1m15s/79 2m15s/119 3m15s/119"; got != want {
		t.Errorf("told at/left out: %s, want %s", got, want)
	}
	now := 4 * time.Minute
	for what, h := range map[string]slog.Handler{
		"attributes": h.WithAttrs([]slog.Attr{slog.String("tool", "pay")}), "a group": h.WithGroup("g"),
	} {
		if told(h, now, slog.LevelError, gone) == "" || told(h, now, slog.LevelError, gone) != "" {
			t.Errorf("with %s the first, and only that, is to be told", what)
		}
	}
	if told(h, now, slog.LevelError, full) == "" {
		t.Error("another error is not told")
	}
	if told(h, now, slog.LevelWarn, gone) == "" {
		t.Error("another level is not told")
	}
	if told(h, now, slog.LevelError, gone) != "" {
		t.Error("the trouble goes on and is told too soon")
	}
	if line := told(h, now+sparingMost, slog.LevelError, gone); !strings.HasSuffix(line, "left_out=90") {
		t.Errorf("a trouble that comes back: %q, want it to be told at once, with those that were left out before", line)
	}
	for range 2 { // each is news
		b.Reset()
		r := slog.NewRecord(start.Add(now), slog.LevelWarn, "a person must decide", 0)
		r.AddAttrs(slog.String("key", "k"))
		if err := h.Handle(t.Context(), r); err != nil || b.Len() == 0 {
			t.Errorf("an event is left out: %v", err)
		}
	}
	for range 2 {
		if told(h, now, slog.LevelInfo, gone) == "" {
			t.Error("what is no warning is left out")
		}
	}
	for i := range 3 * sparingKnown {
		told(h, now, slog.LevelError, fmt.Errorf("error %d", i))
	}
	if n := len(h.said.warnings); n > sparingKnown {
		t.Errorf("%d warnings are remembered, at most %d may be", n, sparingKnown)
	}
}

// The logs of serve and mcp are sparing.
func TestLogsAreSparing(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		log, err := newLogger(&output{world: &world{stderr: &b}}, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			log.Error("gone", "error", io.EOF)
			log.Info("here")
		}
		if gone, here := strings.Count(b.String(), "gone"), strings.Count(b.String(), "here"); gone != 1 || here != 3 {
			t.Errorf("%s: the error is told %d times and the rest %d times, want 1 and 3", format, gone, here)
		}
	}
}
