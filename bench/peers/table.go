package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// terminalWidth is what aligned tables fit into.
const terminalWidth = 120

// A page is what a report is written on: Markdown, or text for a terminal.
type page struct {
	io.Writer
	width int // of the text in columns; 0: Markdown
	begun bool
}

// newPage returns a page of text where w is a terminal.
func newPage(w io.Writer) *page {
	p := &page{Writer: w}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.width = terminalWidth
		}
	}
	return p
}

// block sets the next block apart from the last one.
func (p *page) block() {
	if p.begun {
		fmt.Fprintln(p)
	}
	p.begun = true
}

func (p *page) heading(format string, a ...any) {
	p.block()
	if p.width == 0 {
		format = "#### " + format
	}
	fmt.Fprintf(p, format+"\n", a...)
}

func (p *page) paragraph(format string, a ...any) {
	p.block()
	p.line("", fmt.Sprintf(format, a...))
}

// line writes text after a label, and its further lines in line with the first.
func (p *page) line(label, text string) {
	indent := utf8.RuneCountInString(label)
	fmt.Fprint(p, label)
	used := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case p.width > 0 && used+1+n > p.width:
			fmt.Fprint(p, "\n", strings.Repeat(" ", indent))
			used = indent
		default:
			fmt.Fprint(p, " ")
			used++
		}
		fmt.Fprint(p, word)
		used += n
	}
	fmt.Fprintln(p)
}

// table writes rows below a head, whose cells may have line breaks for a
// terminal.
func (p *page) table(head []string, rows [][]string) {
	p.block()
	if p.width > 0 {
		p.aligned(head, rows)
		return
	}
	row := func(cells []string) { fmt.Fprintf(p, "| %s |\n", strings.Join(cells, " | ")) }
	flat := make([]string, len(head))
	for i, cell := range head {
		flat[i] = strings.ReplaceAll(cell, "\n", " ")
	}
	row(flat)
	fmt.Fprintln(p, strings.Repeat("|---", len(head))+"|")
	for _, cells := range rows {
		row(cells)
	}
}

// aligned writes a table in columns. Those that do not fit beside the others
// come below them, after the first column again.
func (p *page) aligned(head []string, rows [][]string) {
	lines := append(headLines(head), rows...)
	widths := make([]int, len(head))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	const gap = 2
	for from := 1; from < len(head); {
		to, used := from, widths[0]
		for to < len(head) && (to == from || used+gap+widths[to] <= p.width) {
			used += gap + widths[to]
			to++
		}
		if from > 1 {
			fmt.Fprintln(p)
		}
		for _, cells := range lines {
			line := fmt.Sprintf("%-*s", widths[0], cells[0])
			for i := from; i < to; i++ {
				line += fmt.Sprintf("%*s", gap+widths[i], cells[i])
			}
			fmt.Fprintln(p, strings.TrimRight(line, " "))
		}
		from = to
	}
}

// headLines breaks the cells of a head into lines, which end together.
func headLines(head []string) [][]string {
	height := 0
	for _, cell := range head {
		height = max(height, strings.Count(cell, "\n")+1)
	}
	lines := make([][]string, height)
	for _, cell := range head {
		parts := strings.Split(cell, "\n")
		for i := range lines {
			part := ""
			if n := i - (height - len(parts)); n >= 0 {
				part = parts[n]
			}
			lines[i] = append(lines[i], part)
		}
	}
	return lines
}
