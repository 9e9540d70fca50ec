package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestMain is also what a contestant's process runs.
func TestMain(m *testing.M) {
	if name := os.Getenv(processEnv); name != "" {
		if err := serve(context.Background(), name, os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Every contestant whose server is here gives right results, and has one effect
// for each key however often it is called at once.
func TestContestants(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	played := &tournament{Contestants: contestants(), Callers: []int{1, 4}, Time: 100 * time.Millisecond, Rounds: 1, Duplicates: 16, progress: t.Output()}
	if err := played.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range played.Contestants {
		t.Run(c.name, func(t *testing.T) {
			if why := played.Skipped[c.name]; why != "" {
				skip(t, c, why)
			}
			seen := map[string]int{}
			for _, s := range played.Samples {
				if s.Contestant != c.name {
					continue
				}
				seen[s.Workload]++
				if s.Errors > 0 || s.Calls == 0 {
					t.Errorf("%s by %d callers: %d calls, %d failed: %s", s.Workload, s.Callers, s.Calls, s.Errors, s.Error)
				}
				if want := map[string]int{first: s.Calls, replay: 0, burst: 1}[s.Workload]; s.Effects != want {
					t.Errorf("%s by %d callers: %d effects of %d calls, want %d", s.Workload, s.Callers, s.Effects, s.Calls, want)
				}
			}
			if want := map[bool]int{false: 5, true: 2}[c.replays]; seen[first]+seen[replay]+seen[burst] != want {
				t.Errorf("measured %v", seen)
			}
		})
	}
}

// skip skips what lacks its server. With JUSTONCE_COUNTERPARTS=required only
// Restate and Temporal may be missing, which no test of the product needs.
func skip(t *testing.T, c contestant, why string) {
	if !strings.Contains(why, "not installed") || os.Getenv("JUSTONCE_COUNTERPARTS") == "required" && !strings.HasPrefix(c.name, "restate") && !strings.HasPrefix(c.name, "temporal") {
		t.Fatal(why)
	}
	t.Skip(why)
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 501 * time.Millisecond, 0.99: 991 * time.Millisecond} {
		if got := h.quantile(q); (got - want).Abs() > want/64 {
			t.Errorf("quantile %v = %v, want about %v", q, got, want)
		}
	}
	b, err := h.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var again histogram
	if err := again.UnmarshalJSON(b); err != nil || again != h {
		t.Errorf("after JSON it is another one: %v", err)
	}
}

func TestReportReplacesItsSection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	old := "# Benchmarks\n\n" + beginMark + "\nold\n" + endMark + "\n\n## More\n"
	if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	r := &report{tournament: &tournament{Contestants: contestants(), Callers: []int{1}, Rounds: 2, Duplicates: 128, Skipped: map[string]string{"restate": "not here"},
		Samples: []sample{
			{Contestant: "floor-unnest", Workload: first, Callers: 1, Rate: 2000, P50: 500 * time.Microsecond},
			{Contestant: "justonce-pg", Workload: first, Callers: 1, Calls: 10, Effects: 11, Rate: 1500, P50: time.Millisecond, P99: 12 * time.Millisecond},
			{Contestant: "justonce-pg", Workload: burst, Callers: 128, Effects: 1, P50: 3 * time.Millisecond},
		}}}
	for range 2 { // the second time replaces what the first has written
		var out bytes.Buffer
		if err := r.deliver(&out, "", path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := string(b)
		for _, want := range []string{"# Benchmarks\n\n" + beginMark, endMark + "\n\n## More\n", "| justonce-pg | 1,500 (1 effect too many) | 1.0 / 12 | 0 + 0 |", "75 % at 1", "- restate: not here"} {
			if strings.Count(got, want) != 1 {
				t.Errorf("%q is not there once:\n%s", want, got)
			}
		}
		if strings.Contains(got, "\nold\n") {
			t.Error("the old section is still there")
		}
	}
}

// samples are what contestants might have done, as wide as figures get.
func samples(callers []int, names ...string) (all []sample) {
	for _, name := range names {
		for _, c := range callers {
			all = append(all, sample{Contestant: name, Workload: first, Callers: c, Calls: 123_456, Effects: 123_456, Rate: 123_456, P50: 5500 * time.Nanosecond, P99: 23 * time.Microsecond, ClientCPU: 1234 * time.Microsecond, ServerCPU: 12_345 * time.Microsecond})
		}
		all = append(all, sample{Contestant: name, Workload: burst, Callers: 128, Calls: 3, Effects: 1, P50: time.Millisecond, P99: time.Millisecond})
	}
	return all
}

func TestReportFitsATerminal(t *testing.T) {
	for _, callers := range [][]int{{1}, {1, 16, 128}, {1, 16, 128, 256, 1024}} {
		r := &report{Machine: strings.Repeat("a machine ", 20), tournament: &tournament{Contestants: contestants(), Callers: callers, Rounds: 3, Duplicates: 128,
			Skipped: map[string]string{"restate": strings.Repeat("not here ", 20)}, Samples: samples(callers, "floor-unnest", "justonce-pg", "justonce-sqlite-nocache")}}
		var out bytes.Buffer
		r.write(&page{Writer: &out, width: terminalWidth})
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 || strings.HasPrefix(line, "|") {
				t.Errorf("callers %v: %d columns: %s", callers, n, line)
			}
		}
		for _, c := range callers {
			if head := fmt.Sprintf("%d:", c); !strings.Contains(out.String(), head) {
				t.Errorf("callers %v: no column for %d:\n%s", callers, c, out.String())
			}
		}
		if len(callers) == 3 && strings.Count(out.String(), "\nfloor-unnest ") != 2 {
			t.Errorf("three numbers of callers are not beside each other:\n%s", out.String())
		}
	}
}

func TestReportIsOfWhoPlayed(t *testing.T) {
	r := &report{tournament: &tournament{Contestants: contestants(), Callers: []int{1}, Rounds: 1, Time: time.Second, Duplicates: 128,
		Skipped: map[string]string{"restate": "not here", "dbos-pg": "failed in the second round"}, Samples: samples([]int{1}, "justonce-pg", "dbos-pg", "restate-2")}}
	var out bytes.Buffer
	r.write(&page{Writer: &out})
	got := out.String()
	for _, want := range []string{"One round of 1s a cell.", "\n| Restate |", "\n| justonce |", "\n- restate: not here\n", "\n- dbos-pg: failed"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, got)
		}
	}
	for _, other := range []string{"Temporal", "River", "DBOS", "floors", "\n| restate |", "\n| dbos-pg |", "rounds"} {
		if strings.Contains(got, other) {
			t.Errorf("%q is there:\n%s", other, got)
		}
	}
}

func TestContestantsAreChosen(t *testing.T) {
	for only, want := range map[string]string{
		"temporal,redis":  "redis-setnx temporal",
		"floor,restate-2": "floor-unnest floor-unnest-2 floor-pipeline restate-2",
	} {
		o, err := parse([]string{"-only", only}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range o.Contestants {
			names = append(names, c.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("-only %s: %s, want %s", only, got, want)
		}
	}
	all, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Contestants) != len(contestants())-1 || slices.ContainsFunc(all.Contestants, named("temporal")) {
		t.Errorf("without -only there are %d contestants, want all but temporal", len(all.Contestants))
	}
}

func TestCommandRefusesWhatItCannotMeasure(t *testing.T) {
	for want, args := range map[string][]string{
		`"nobody"; there are floor-unnest, `: {"-only", "floor,nobody"},
		`no name begins with ""`:             {"-only", "floor,"},
		"temporal is not for publication":    {"-only", "temporal", "-write", "any"},
		"no number of callers":               {"-callers", "0"},
		"nothing to measure":                 {"-rounds", "0"},
		"nothing to measure; see":            {"more"},
		"not defined":                        {"-nothing"},
	} {
		err := command(t.Context(), args, io.Discard, io.Discard)
		if !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want a usage error with %q", args, err, want)
		}
	}
}
