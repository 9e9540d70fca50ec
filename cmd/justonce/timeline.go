package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/justonce-dev/justonce"
)

const (
	// lineWidth is what a line of a history fits into where it can be broken.
	lineWidth    = 100
	detailIndent = "                           " // under the kind
)

// history prints what became of an operation that arrived at start, under the
// days on which it did.
func (o *output) history(start time.Time, history []justonce.Entry) {
	day := ""
	for i := range history {
		e := &history[i]
		at := e.At.Local()
		if d := at.Format(time.DateOnly); d != day {
			day = d
			o.printf("  %s\n", o.paint(dim, d))
		}
		before := fmt.Sprintf("  %s  %9s  ", at.Format("15:04:05.000"), "+"+sinceText(e.At.Sub(start)))
		what := fmt.Sprintf("%-9s", printable(string(e.Kind)))
		if e.Outcome != "" && e.Kind != justonce.EntryArrived {
			what += " " + printable(string(e.Outcome))
		}
		state, fence, by := printable(string(e.State)), "", ""
		if e.Fence > 0 && e.Kind != justonce.EntryDecision {
			fence = fmt.Sprintf(" fence %d", e.Fence)
		}
		if e.Actor != "" {
			by = "  by " + printable(e.Actor)
		}
		o.printf("%s%s%s → %s%s", o.paint(dim, before), what, o.paint(dim, fence), o.paint(stateColour(e.State), state), by)
		used := utf8.RuneCountInString(before + what + fence + " → " + state + by)
		o.detail(entryDetail(e), lineWidth-used)
	}
}

// sinceText is how long after its arrival something befell an operation.
func sinceText(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// entryDetail is what else an entry says.
func entryDetail(e *justonce.Entry) string {
	if e.Kind == justonce.EntryArrived {
		return printable(string(e.Body))
	}
	var all []string
	add := func(s string) {
		if s != "" {
			all = append(all, s)
		}
	}
	add(e.Note)
	add(e.Reference)
	if e.Failure != nil {
		add(failureText(e.Failure))
	}
	for _, k := range sortedKeys(e.Evidence) {
		if v := e.Evidence[k]; e.Failure == nil || !strings.Contains(e.Failure.Message, v) { // said already
			add(k + "=" + v)
		}
	}
	return printable(strings.Join(all, ", "))
}

// detail ends a line that has room left, with text behind it or, where it does not
// fit, on lines of its own.
func (o *output) detail(text string, room int) {
	switch {
	case text == "":
	case utf8.RuneCountInString(text)+2 <= room:
		o.printf("  %s", o.paint(dim, text))
	default:
		for _, line := range wrapped(text, lineWidth-len(detailIndent)) {
			o.printf("\n%s%s", detailIndent, o.paint(dim, line))
		}
	}
	o.printf("\n")
}

// wrapped breaks text behind spaces and commas into lines of at most width
// characters; what cannot be broken stays whole.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.FieldsFunc(breakable.Replace(text), func(r rune) bool { return r == breakHere }) {
		if line != "" && utf8.RuneCountInString(line)+utf8.RuneCountInString(strings.TrimRight(word, " ")) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += word
	}
	return append(lines, strings.TrimRight(line, " "))
}

// breakHere is a character that printable text does not have.
const breakHere = '\x00'

var breakable = strings.NewReplacer(", ", ", \x00", ",", ",\x00", " ", " \x00")
