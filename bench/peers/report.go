package main

import (
	"cmp"
	"fmt"
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

// write puts all that a page has room for on it: a terminal gets the figures,
// Markdown also what they are of.
func (r *report) write(p *page) {
	p.paragraph("Measured with `%s` on %s; %s. %s", r.Command, r.Date, r.Machine, r.rounds())
	if versions := slices.Concat(r.Versions, r.Modules); len(versions) > 0 {
		p.paragraph("Versions: %s.", strings.Join(versions, ", "))
	}
	if len(r.Samples) > 0 {
		r.loops(p, first, "First calls: a new key")
		r.loops(p, replay, "Replays: a key whose call has ended")
		r.bursts(p)
		r.memory(p)
		if p.width == 0 {
			r.setups(p)
			r.promises(p)
		}
	}
	r.missing(p)
}

func (r *report) rounds() string {
	if r.Rounds == 1 {
		return fmt.Sprintf("One round of %s a cell.", r.Time)
	}
	return fmt.Sprintf("Medians of %d rounds of %s a cell, whose order changes from round to round.", r.Rounds, r.Time)
}

// names returns the contestants that have samples of a workload.
func (r *report) names(workload string) (names []string) {
	for _, c := range r.players() {
		if slices.ContainsFunc(r.Samples, func(s sample) bool { return s.Contestant == c.name && s.Workload == workload }) {
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
func (r *report) loops(p *page, workload, title string) {
	names := r.names(workload)
	if len(names) == 0 {
		return
	}
	head := []string{"callers"}
	for _, group := range []string{"%d:\na second", "%d:\np50 / p99 ms"} {
		for _, c := range r.Callers {
			head = append(head, fmt.Sprintf(group, c))
		}
	}
	most := slices.Max(r.Callers)
	head = append(head, fmt.Sprintf("%d: µs of CPU,\nclient + server", most))
	var rows [][]string
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
		rows = append(rows, append(cells, fmt.Sprintf("%s + %s", thousands(float64(client)/1e3), thousands(float64(server)/1e3))))
	}
	p.heading("%s", title)
	p.table(head, rows)
	r.ratio(p, workload)
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
		effects := "effects"
		if more == 1 {
			effects = "effect"
		}
		cell += fmt.Sprintf(" (%d %s too many)", more, effects)
	}
	return cell
}

// ratio compares justonce on PostgreSQL with the better floor.
func (r *report) ratio(p *page, workload string) {
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
		p.paragraph("`%s` against the better floor: %s.", ours, strings.Join(shares, ", "))
	}
}

func (r *report) bursts(p *page) {
	var rows [][]string
	for _, name := range r.names(burst) {
		of := r.of(name, burst, r.Duplicates)
		effects := slices.MaxFunc(of, func(a, b sample) int { return a.Effects - b.Effects }).Effects
		worst := slices.MaxFunc(of, func(a, b sample) int { return int(a.P99 - b.P99) }).P99
		rows = append(rows, []string{name, r.mark(name, burst, r.Duplicates, ms(median(of, func(s sample) time.Duration { return s.P50 }))), ms(worst), fmt.Sprint(effects)})
	}
	if len(rows) == 0 {
		return
	}
	p.heading("%d equal calls of a new key at the same moment", r.Duplicates)
	p.table([]string{"", "until all have the result,\nmedian ms", "worst ms", "effects"}, rows)
}

func (r *report) memory(p *page) {
	var rows [][]string
	for _, f := range r.Footprints {
		if r.Skipped[f.Contestant] == "" {
			rows = append(rows, []string{f.Contestant, mib(f.Client), mib(f.ServerPSS), mib(f.ServerRSS)})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.heading("Memory after all calls, MiB")
	p.table([]string{"", "client, PSS", "server, PSS", "server, RSS"}, rows)
}

func (r *report) setups(p *page) {
	var rows [][]string
	for _, c := range r.players() {
		rows = append(rows, []string{c.name, c.setup})
	}
	p.heading("What each is")
	p.table([]string{"", "set up as"}, rows)
}

func (r *report) promises(p *page) {
	var rows [][]string
	for _, of := range promises {
		if slices.ContainsFunc(r.players(), named(of.of)) {
			rows = append(rows, []string{of.name, of.crash, of.unknown, of.meanwhile, of.later, of.arguments})
		}
	}
	p.heading("What each promises")
	p.paragraph("Speed compares only what does the same work, and these do not:")
	p.table([]string{"", "process dies between the effect and its record", "outcome unknown (timeout, lost answer)", "a duplicate meanwhile", "a duplicate later", "other arguments under the key"}, rows)
}

func (r *report) missing(p *page) {
	if len(r.Skipped) == 0 {
		return
	}
	p.paragraph("Not measured:")
	p.block()
	for _, c := range r.Contestants {
		if why := r.Skipped[c.name]; why != "" {
			first, _, _ := strings.Cut(why, "\n")
			p.line("- ", c.name+": "+first)
		}
	}
}

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
