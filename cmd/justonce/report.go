package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce"
)

type reportCmd struct {
	Store string        `help:"The ledger: ${ledger_names}. Defaults to the user's own file if there is one, see 'justonce mcp --where'." env:"JUSTONCE_LEDGER,JUSTONCE_STORE" placeholder:"STORE"`
	URL   string        `name:"url" help:"Ask this gateway instead. Defaults to ${default_url} if there is no ledger." env:"JUSTONCE_URL"`
	Since time.Duration `help:"Intents first seen in this time, such as 24h." default:"7d" placeholder:"AGE"`
}

func (*reportCmd) Help() string {
	return `What calls were made of servers and tools in the mode observe, and what would have
become of the duplicates among them.

Examples:
  justonce mcp --mode observe -- npx -y @acme/tickets-mcp    in the agent's configuration
  justonce report                                            some days later
  justonce report --since 24h --json | jq '.tools[].would'`
}

// reporter is what tells of observed calls.
type reporter interface {
	Report(ctx context.Context, o *justonce.ReportOptions) (*justonce.Report, error)
}

func (c *reportCmd) Run(ctx context.Context, o *output) error {
	svc, done, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	now := time.Now()
	opts := &justonce.ReportOptions{}
	if c.Since > 0 {
		opts.Since = now.Add(-c.Since).UTC()
	}
	rep, err := svc.Report(ctx, opts)
	if err != nil {
		return err
	}
	if o.json {
		return o.object(rep)
	}
	o.report(rep, c.Since)
	return nil
}

// open returns who tells of observed calls: the ledger that is named, else the
// user's own, else a gateway.
func (c *reportCmd) open(ctx context.Context, o *output) (reporter, func(), error) {
	l := &ledger{Store: c.Store, remote: remote{URL: c.URL}}
	if l.Store == "" && l.URL == "" {
		if own, err := userLedger(o.env); err == nil && fileThere(own) {
			l.Store = own
		}
	}
	if l.URL == "" {
		l.URL = defaultURL
	}
	svc, done, err := l.open(ctx, looking)
	if err != nil {
		return nil, nil, err
	}
	return svc.(reporter), done, nil // a Runner or a reaching
}

// Report implements [reporter].
func (r *reaching) Report(ctx context.Context, o *justonce.ReportOptions) (*justonce.Report, error) {
	rep, err := r.client.Report(ctx, o)
	return rep, r.hint(err)
}

// report prints what was observed for a person.
func (o *output) report(rep *justonce.Report, since time.Duration) {
	calls, duplicates, unknown, full := 0, 0, 0, false
	for i := range rep.Tools {
		t := &rep.Tools[i]
		calls += t.Calls
		duplicates += t.Duplicates()
		unknown += t.Unknown
		full = full || t.Full > 0
	}
	period := "All in all"
	if since > 0 {
		period = "In " + spanText(since)
	}
	if calls == 0 {
		o.printf("%s no call was observed.\n\n", period)
		o.printf("To begin, put it in front of an MCP server without holding anything back:\n  justonce mcp --mode observe -- COMMAND\nor write 'mode: observe' to a server in justonce.yaml.\n")
		return
	}
	verb := "were"
	if calls == 1 {
		verb = "was"
	}
	o.printf("%s %s\n\n", period, fmt.Sprintf("%s of %s %s observed; %s.",
		plural(calls, "call"), plural(len(rep.Tools), "tool"), verb, o.paint(bold, duplicateText(duplicates, full))))
	o.reportTable(rep.Tools)
	o.reportExamples(rep.Tools)
	o.printf("\n")
	if unknown > 0 {
		o.printf("Of %s nobody learnt how they ended. With 'mode: enforce' an equal call does not\nrepeat them blindly: they are looked up where the tool says how, or a person decides.\n", plural(unknown, "call"))
	}
	if duplicates > 0 {
		o.printf("To hold duplicates back from now on, leave out --mode observe, or write 'mode: enforce'.\n")
		return
	}
	o.printf("Lost answers are rare: go on observing, or protect the tools now with 'mode: enforce'.\n")
}

func duplicateText(n int, full bool) string {
	s := plural(n, "") + " of them were duplicates"
	switch {
	case n == 0:
		s = "none of them was a duplicate"
	case n == 1:
		s = "1 of them was a duplicate"
	}
	if full {
		s = "at least " + s
	}
	return s
}

// columns of the table beside the tool.
var reportColumns = []struct {
	name   string
	colour string // where it is not zero
	of     func(*justonce.ToolReport) int
}{
	{"CALLS", "", func(t *justonce.ToolReport) int { return t.Calls }},
	{"INTENTS", "", func(t *justonce.ToolReport) int { return t.First }},
	{"REPLAYED", yellow, func(t *justonce.ToolReport) int { return t.Would[justonce.CallReplayed] }},
	{"JOINED", yellow, func(t *justonce.ToolReport) int { return t.Would[justonce.CallJoined] }},
	{"CONFLICTS", red, func(t *justonce.ToolReport) int { return t.Would[justonce.CallConflict] }},
	{"NO ANSWER", violet, func(t *justonce.ToolReport) int { return t.Unknown }},
}

func (o *output) reportTable(tools []justonce.ToolReport) {
	width := len("TOOL")
	for _, t := range tools {
		width = max(width, len(t.Tool))
	}
	head := pad("TOOL", width)
	for _, c := range reportColumns {
		head += "  " + c.name
	}
	o.printf("%s\n", o.paint(dim, head))
	for i := range tools {
		t := &tools[i]
		o.printf("%s", pad(t.Tool, width))
		for _, c := range reportColumns {
			n, colour := c.of(t), c.colour
			text := thousands(n)
			if n == 0 {
				text, colour = "-", dim
			}
			o.printf("  %s%s", strings.Repeat(" ", max(0, len(c.name)-len(text))), o.paint(colour, text))
		}
		o.printf("\n")
	}
}

func (o *output) reportExamples(tools []justonce.ToolReport) {
	first := true
	for _, t := range tools {
		for _, x := range t.Examples {
			if first {
				o.printf("\n%s\n", o.paint(dim, "EXAMPLES"))
			}
			first = false
			o.printf("%s  called at %s and again %s later: %s\n", x.Tool, x.FirstAt.Local().Format(time.DateTime),
				laterText(x.DuplicateAt.Sub(x.FirstAt)), wouldText(&x))
			if x.Arguments != "" {
				o.printf("  %s\n", o.paint(dim, clipText(printable(x.Arguments), 96)))
			}
		}
	}
}

// wouldText says what would have become of a duplicate.
func wouldText(x *justonce.ReportExample) string {
	switch x.Decided {
	case justonce.CallReplayed:
		return "it would have got the first one's answer"
	case justonce.CallJoined:
		return "it would have shared the first one's answer"
	case justonce.CallConflict:
		s := "it would have been refused"
		if len(x.Paths) > 0 {
			s += ", for it differs in " + strings.Join(x.Paths, ", ")
		}
		return printable(s)
	}
	return printable(string(x.Decided))
}

// plural is a number with its noun: 1,204 calls.
func plural(n int, noun string) string {
	s := thousands(n)
	if noun == "" {
		return s
	}
	if n != 1 {
		noun += "s"
	}
	return s + " " + noun
}

// thousands groups the digits of a count: 1,204.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// spanText names a period: 7 days, 24 hours.
func spanText(d time.Duration) string {
	switch {
	case d >= 48*time.Hour && d%(24*time.Hour) == 0:
		return plural(int(d/(24*time.Hour)), "day")
	case d >= time.Hour && d%time.Hour == 0:
		return plural(int(d/time.Hour), "hour")
	case d >= time.Minute && d%time.Minute == 0:
		return plural(int(d/time.Minute), "minute")
	}
	return d.String()
}

// laterText says how much later something was.
func laterText(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return age(d)
}

// clipText cuts s to n characters.
func clipText(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
