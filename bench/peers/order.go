package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

const usageText = `Usage: go run ./peers [flags]

Lets justonce and its peers run the same empty effect once for a key, on one
PostgreSQL, one Redis and one disk, and prints how fast, with what processor
time and memory, and how many effects there were. Each contestant runs in a
process of its own; a turn makes first calls, replays and bursts of duplicates.
Servers that are not installed are left out, with the reason. Temporal is left
out unless -only names it, and is not for publication: its server was put
together for this benchmark, not as its makers deploy it.

A terminal gets aligned tables of the figures alone. Elsewhere, and with -write,
the output is Markdown, with what each contestant is and promises.

`

const examplesText = `
Examples:
  go run ./peers -list
  go run ./peers -write ../docs/benchmarks.md
  go run ./peers -only floor,justonce-pg -callers 1,16,128,1024 -time 3s
  go run ./peers -only dbos,river -rounds 1 -json peers.json
  go run ./peers -only temporal,justonce-pg

Environment:
  JUSTONCE_BENCH_DIR        where all files are kept (default: the temporary folder);
                            must be a real disk
  JUSTONCE_RESTATE_SERVER   Restate's server program
  JUSTONCE_TEMPORAL_SERVER, JUSTONCE_TEMPORAL_SQL_TOOL
                            Temporal's server and its tool for the schema
`

// A usageError says what is wrong with the arguments.
type usageError string

func (e usageError) Error() string { return string(e) }

// An order is what the arguments ask for.
type order struct {
	*tournament
	only, json, markdown string
	list                 bool
}

// parse understands args. Its errors are usageErrors, or flag.ErrHelp.
func parse(args []string, help io.Writer) (*order, error) {
	o := &order{tournament: &tournament{progress: help}}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(help)
	flags.Usage = func() {
		fmt.Fprint(help, usageText)
		flags.PrintDefaults()
		fmt.Fprint(help, examplesText)
	}
	flags.StringVar(&o.only, "only", "", "contestants whose `names` begin with one of these, separated by commas (default: all but temporal)")
	callers := flags.String("callers", "1,16,128", "numbers of simultaneous callers")
	flags.DurationVar(&o.Time, "time", time.Second, "how long a cell is measured")
	flags.IntVar(&o.Rounds, "rounds", 3, "how often all is repeated; medians are printed")
	flags.IntVar(&o.Duplicates, "duplicates", 128, "how many equal calls a burst has")
	flags.BoolVar(&o.list, "list", false, "list the contestants and end")
	flags.StringVar(&o.json, "json", "", "write all samples to this `file`")
	flags.StringVar(&o.markdown, "write", "", "rewrite the section between the marks of this `file`")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil, err
	} else if err != nil {
		return nil, usageError(err.Error())
	}
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "only" && o.only == "" {
			o.only = "," // no name: refused below
		}
	})
	if o.Rounds < 1 || o.Duplicates < 1 || o.Time <= 0 || flags.NArg() > 0 {
		return nil, usageError("nothing to measure; see -help")
	}
	for n := range strings.SplitSeq(*callers, ",") {
		c, err := strconv.Atoi(strings.TrimSpace(n))
		if err != nil || c < 1 {
			return nil, usageError(fmt.Sprintf("-callers: %q is no number of callers", n))
		}
		o.Callers = append(o.Callers, c)
	}
	return o, o.choose()
}

// choose picks the contestants whose names begin with one of those in only.
func (o *order) choose() error {
	all := contestants()
	if o.only == "" {
		o.Contestants = slices.DeleteFunc(all, func(c contestant) bool { return c.aside != "" })
		return nil
	}
	prefixes := strings.Split(o.only, ",")
	for i, p := range prefixes {
		p = strings.TrimSpace(p)
		prefixes[i] = p
		if p == "" || !slices.ContainsFunc(all, named(p)) {
			var names []string
			for _, c := range all {
				names = append(names, c.name)
			}
			return usageError(fmt.Sprintf("-only: no name begins with %q; there are %s", p, strings.Join(names, ", ")))
		}
	}
	chosen := named(prefixes...)
	o.Contestants = slices.DeleteFunc(all, func(c contestant) bool { return !chosen(c) })
	for _, c := range o.Contestants {
		if o.markdown != "" && c.aside != "" {
			return usageError(fmt.Sprintf("-write: %s is not for publication: %s", c.name, c.aside))
		}
	}
	return nil
}

// show lists the contestants of an order, and who is left out.
func (o *order) show(p *page) {
	for _, c := range o.Contestants {
		p.line(fmt.Sprintf("%-24s", c.name), c.setup)
	}
	if o.only != "" {
		return
	}
	for _, c := range contestants() {
		if c.aside != "" {
			p.paragraph("Left out unless -only names it: %s; %s.", c.name, c.aside)
		}
	}
}
