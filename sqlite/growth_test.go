package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
)

// TestGrowth tells how speed, memory and opening change with the number of
// operations. It takes minutes and gigabytes: set JUSTONCE_GROWTH to the
// number, and JUSTONCE_BENCH_DIR to a place for the file.
func TestGrowth(t *testing.T) {
	total, _ := strconv.ParseInt(os.Getenv("JUSTONCE_GROWTH"), 10, 64)
	if total == 0 {
		t.Skip("JUSTONCE_GROWTH is not set")
	}
	dir, err := os.MkdirTemp(os.Getenv("JUSTONCE_BENCH_DIR"), "growth")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	const unresolved = 10_000
	have := int64(0)
	for _, target := range []int64{10_000, total / 5, total} {
		s := open(t, path, nil)
		from := have
		fill(target-have, func(n int64) { firstCall(t.Context(), t, s, benchKey(from+n), nil) })
		have = target
		if from == 0 {
			fill(unresolved, func(n int64) { begin(t, s, fmt.Sprint("unresolved-", n)) })
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		s = open(t, path, nil)
		opened := time.Since(start)
		s.Ready()
		ready := time.Since(start)
		first := median(300, func(n int64) { firstCall(t.Context(), t, s, benchKey(-have-n), nil) })
		replay := median(1000, func(n int64) { get(t, s, benchKey(1+(n*7919)%have)) })
		stats := median(5, func(int64) { s.Stats(t.Context()) })
		claim := median(20, func(int64) {
			s.Claim(t.Context(), justonce.Due{Limit: 10}, func(*justonce.Operation, time.Time) ([]justonce.Entry, bool) { return nil, false })
		})
		list := median(20, func(int64) { s.List(t.Context(), justonce.Filter{}) })
		live := median(5, func(int64) { s.List(t.Context(), justonce.Filter{States: []justonce.State{justonce.Pending}}) })
		info, _ := os.Stat(path)
		t.Logf("%d operations, %d MB: open %v, seen %v, first call %v, replay %v, stats %v, claim %v, list %v, list of live %v, resident %s",
			have, info.Size()>>20, opened, ready, first, replay, stats, claim, list, live, resident())
		s.Close()
	}
}

func get(t *testing.T, s *sqlite.Store, key string) {
	if _, err := s.Get(context.Background(), justonce.Ref{Key: key}); err != nil {
		t.Errorf("%s: %v", key, err)
	}
}

func median(n int, f func(int64)) time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		start := time.Now()
		f(int64(i))
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[n/2]
}

// resident returns the memory of this process.
func resident() string {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
