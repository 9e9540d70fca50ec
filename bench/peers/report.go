package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A report is what a tournament has shown.
type report struct {
	*tournament
	Machine string
	Modules []string
	Command string
	Date    string
}

// write prints the tables in Markdown.
func (r *report) write(w io.Writer) {
	fmt.Fprintf(w, "Measured with `%s` on %s; %s. Medians of %d rounds of %s a cell, whose order changes from round to round.\n", r.Command, r.Date, r.Machine, r.Rounds, r.Time)
	fmt.Fprintf(w, "Versions: %s.\n", strings.Join(slices.Concat(r.Versions, r.Modules), ", "))
	if len(r.Samples) > 0 {
		r.loops(w, first, "First calls: a new key")
		r.loops(w, replay, "Replays: a key whose call has ended")
		r.bursts(w)
		r.memory(w)
		r.setups(w)
		r.promises(w)
	}
	r.missing(w)
}

// names returns the contestants that have samples of a workload.
func (r *report) names(workload string) (names []string) {
	for _, c := range r.Contestants {
		if r.Skipped[c.name] == "" && slices.ContainsFunc(r.Samples, func(s sample) bool { return s.Contestant == c.name && s.Workload == workload }) {
			names = append(names, c.name)
		}
	}
	return names
}

// of returns a contestant's samples in all rounds.
func (r *report) of(name, workload string, callers int) (of []sample) {
	for _, s := range r.Samples {
		if s.Contestant == name && s.Workload == workload && s.Callers == callers {
			of = append(of, s)
		}
	}
	return of
}

// median returns the median of what value says of samples.
func median[T cmp.Ordered](samples []sample, value func(sample) T) (m T) {
	if len(samples) == 0 {
		return m
	}
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func rate(s sample) float64 { return s.Rate }

// loops writes the table of a workload of callers in a closed loop.
func (r *report) loops(w io.Writer, workload, title string) {
	names := r.names(workload)
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "\n#### %s\n\n", title)
	head := []string{"callers"}
	for _, group := range []string{"%d: a second", "%d: p50 / p99 ms"} {
		for _, c := range r.Callers {
			head = append(head, fmt.Sprintf(group, c))
		}
	}
	most := slices.Max(r.Callers)
	head = append(head, fmt.Sprintf("%d: µs of CPU, client + server", most))
	row(w, head)
	rule(w, len(head))
	for _, name := range names {
		cells := []string{name}
		for _, c := range r.Callers {
			cells = append(cells, r.mark(name, workload, c, thousands(median(r.of(name, workload, c), rate))))
		}
		for _, c := range r.Callers {
			of := r.of(name, workload, c)
			cells = append(cells, ms(median(of, func(s sample) time.Duration { return s.P50 }))+" / "+ms(median(of, func(s sample) time.Duration { return s.P99 })))
		}
		of := r.of(name, workload, most)
		client, server := median(of, func(s sample) time.Duration { return s.ClientCPU }), median(of, func(s sample) time.Duration { return s.ServerCPU })
		cells = append(cells, fmt.Sprintf("%s + %s", thousands(float64(client)/1e3), thousands(float64(server)/1e3)))
		row(w, cells)
	}
	r.ratio(w, workload)
}

// mark adds to a cell that calls failed or ran more often than they should.
func (r *report) mark(name, workload string, callers int, cell string) string {
	errors, more := 0, 0
	for _, s := range r.of(name, workload, callers) {
		errors += s.Errors
		expected := s.Calls
		switch workload {
		case replay:
			expected = 0
		case burst:
			expected = 1
		}
		more += max(0, s.Effects-expected)
	}
	if errors > 0 {
		cell += fmt.Sprintf(" (%d failed)", errors)
	}
	if more > 0 {
		cell += fmt.Sprintf(" (%d effects too many)", more)
	}
	return cell
}

// ratio compares justonce on PostgreSQL with the better floor.
func (r *report) ratio(w io.Writer, workload string) {
	ours := "justonce-pg"
	if workload == replay {
		ours = "justonce-pg-nocache"
	}
	var shares []string
	for _, c := range r.Callers {
		floor := max(median(r.of("floor-unnest", workload, c), rate), median(r.of("floor-pipeline", workload, c), rate))
		if own := median(r.of(ours, workload, c), rate); own > 0 && floor > 0 {
			shares = append(shares, fmt.Sprintf("%.0f %% at %d", 100*own/floor, c))
		}
	}
	if len(shares) > 0 {
		fmt.Fprintf(w, "\n`%s` against the better floor: %s.\n", ours, strings.Join(shares, ", "))
	}
}

func (r *report) bursts(w io.Writer) {
	names := r.names(burst)
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(w, "\n#### %d equal calls of a new key at the same moment\n\n", r.Duplicates)
	row(w, []string{"", "until all have the result, median ms", "worst ms", "effects"})
	rule(w, 4)
	for _, name := range names {
		of := r.of(name, burst, r.Duplicates)
		effects := slices.MaxFunc(of, func(a, b sample) int { return a.Effects - b.Effects }).Effects
		worst := slices.MaxFunc(of, func(a, b sample) int { return int(a.P99 - b.P99) }).P99
		row(w, []string{name, r.mark(name, burst, r.Duplicates, ms(median(of, func(s sample) time.Duration { return s.P50 }))), ms(worst), fmt.Sprint(effects)})
	}
}

func (r *report) memory(w io.Writer) {
	fmt.Fprintf(w, "\n#### Memory after all calls, MiB\n\n")
	row(w, []string{"", "client, PSS", "server, PSS", "server, RSS"})
	rule(w, 4)
	for _, f := range r.Footprints {
		if r.Skipped[f.Contestant] == "" {
			row(w, []string{f.Contestant, mib(f.Client), mib(f.ServerPSS), mib(f.ServerRSS)})
		}
	}
}

func (r *report) setups(w io.Writer) {
	fmt.Fprintf(w, "\n#### What each is\n\n")
	row(w, []string{"", "set up as"})
	rule(w, 2)
	for _, c := range r.Contestants {
		if r.Skipped[c.name] == "" {
			row(w, []string{c.name, c.setup})
		}
	}
}

func (r *report) promises(w io.Writer) {
	fmt.Fprintf(w, "\n#### What each promises\n\nSpeed compares only what does the same work, and these do not:\n\n")
	row(w, []string{"", "process dies between the effect and its record", "outcome unknown (timeout, lost answer)", "a duplicate meanwhile", "a duplicate later", "other arguments under the key"})
	rule(w, 6)
	for _, p := range promises {
		if slices.ContainsFunc(r.Contestants, func(c contestant) bool { return r.Skipped[c.name] == "" && strings.HasPrefix(c.name, p.of) }) {
			row(w, []string{p.name, p.crash, p.unknown, p.meanwhile, p.later, p.arguments})
		}
	}
}

func (r *report) missing(w io.Writer) {
	if len(r.Skipped) == 0 {
		return
	}
	fmt.Fprintf(w, "\nNot measured:\n\n")
	for _, c := range r.Contestants {
		if why := r.Skipped[c.name]; why != "" {
			first, _, _ := strings.Cut(why, "\n")
			fmt.Fprintf(w, "- %s: %s\n", c.name, first)
		}
	}
}

func row(w io.Writer, cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

func rule(w io.Writer, n int) { fmt.Fprintln(w, strings.Repeat("|---", n)+"|") }

func ms(d time.Duration) string {
	v := d.Seconds() * 1000
	switch {
	case v >= 100:
		return thousands(v)
	case v >= 10:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

func mib(bytes int64) string {
	if bytes == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", float64(bytes)/(1<<20))
}

// thousands writes a number with three digits that count, or more.
func thousands(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2g", v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
