// Command peers lets justonce and what one would use in its place run the same
// empty effect once for a key, side by side on one machine.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const usageText = `Usage: go run ./peers [flags]

Lets justonce and its peers run the same empty effect once for a key, on one
PostgreSQL, one Redis and one disk, and prints how fast, with what processor
time and memory, and how many effects there were. Each contestant runs in a
process of its own; a turn makes first calls, replays and bursts of duplicates.
Servers that are not installed are left out, with the reason.

`

const examplesText = `
Examples:
  go run ./peers -list
  go run ./peers -write ../docs/benchmarks.md
  go run ./peers -only floor,justonce-pg -callers 1,16,128,1024 -time 3s
  go run ./peers -only dbos,river -rounds 1 -json peers.json

Environment:
  JUSTONCE_BENCH_DIR        where all files are kept (default: the temporary folder);
                            must be a real disk
  JUSTONCE_RESTATE_SERVER   Restate's server program
  JUSTONCE_TEMPORAL_SERVER, JUSTONCE_TEMPORAL_SQL_TOOL
                            Temporal's server and its tool for the schema
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if name := os.Getenv(processEnv); name != "" {
		err = serve(ctx, name, os.Stdin, os.Stdout)
	} else {
		err = command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// command runs a tournament as args say.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	t := &tournament{progress: progress}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() {
		fmt.Fprint(progress, usageText)
		flags.PrintDefaults()
		fmt.Fprint(progress, examplesText)
	}
	only := flags.String("only", "", "contestants whose names begin with one of these, separated by commas (default: all)")
	callers := flags.String("callers", "1,16,128", "numbers of simultaneous callers")
	flags.DurationVar(&t.Time, "time", time.Second, "how long a cell is measured")
	flags.IntVar(&t.Rounds, "rounds", 3, "how often all is repeated; medians are printed")
	flags.IntVar(&t.Duplicates, "duplicates", 128, "how many equal calls a burst has")
	list := flags.Bool("list", false, "list the contestants and end")
	jsonFile := flags.String("json", "", "write all samples to this `file`")
	markdown := flags.String("write", "", "rewrite the section between the marks of this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	t.Contestants = chosen(*only)
	if len(t.Contestants) == 0 || t.Rounds < 1 || t.Duplicates < 1 || t.Time <= 0 || flags.NArg() > 0 {
		return errors.New("nothing to measure; see -help")
	}
	if *list {
		for _, c := range t.Contestants {
			fmt.Fprintf(out, "%-24s %s\n", c.name, c.setup)
		}
		return nil
	}
	for n := range strings.SplitSeq(*callers, ",") {
		c, err := strconv.Atoi(n)
		if err != nil || c < 1 {
			return fmt.Errorf("-callers: %q is no number of callers", n)
		}
		t.Callers = append(t.Callers, c)
	}
	dir := os.Getenv(dirEnv)
	if dir == "" {
		dir = os.TempDir()
	}
	r := &report{tournament: t, Machine: machine(dir), Modules: modules(), Command: "cd bench && " + strings.Join(append([]string{"go run ./peers"}, args...), " "), Date: time.Now().Format("2 January 2006")}
	if err := t.play(ctx); err != nil {
		r.write(progress) // what there is
		return err
	}
	return r.deliver(out, *jsonFile, *markdown)
}

// chosen returns the contestants whose names begin with one of the prefixes.
func chosen(prefixes string) (some []contestant) {
	for _, c := range contestants() {
		for p := range strings.SplitSeq(prefixes, ",") {
			if strings.HasPrefix(c.name, p) {
				some = append(some, c)
				break
			}
		}
	}
	return some
}

// deliver prints the report and puts it where it was asked for.
func (r *report) deliver(out io.Writer, jsonFile, markdown string) error {
	var b bytes.Buffer
	r.write(&b)
	_, err := out.Write(b.Bytes())
	if jsonFile != "" {
		all, encodeErr := json.MarshalIndent(r, "", "  ")
		err = errors.Join(err, encodeErr, os.WriteFile(jsonFile, all, 0o644))
	}
	if markdown != "" {
		err = errors.Join(err, rewrite(markdown, b.String()))
	}
	return err
}

const (
	beginMark = "<!-- peers:begin -->"
	endMark   = "<!-- peers:end -->"
)

// rewrite replaces what stands between the marks in a file, or appends it.
func rewrite(path, section string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(b), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	switch {
	case !begins:
		before, after = before+"\n## Beside its peers\n\n", "\n"
	case !ends:
		return fmt.Errorf("%s has %s but no %s", path, beginMark, endMark)
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n\n"+section+"\n"+endMark+after), 0o644)
}
