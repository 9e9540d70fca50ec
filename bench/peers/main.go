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
	"strings"
	"syscall"
	"time"
)

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
		if errors.As(err, new(usageError)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// command does what args say.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	if o.list {
		o.show(newPage(out))
		return nil
	}
	dir := os.Getenv(dirEnv)
	if dir == "" {
		dir = os.TempDir()
	}
	r := &report{tournament: o.tournament, Machine: machine(dir), Command: "cd bench && " + strings.Join(append([]string{"go run ./peers"}, args...), " "), Date: time.Now().Format("2 January 2006")}
	err = o.play(ctx)
	r.Modules = modules(o.tournament)
	if err != nil {
		r.write(newPage(progress)) // what there is
		return err
	}
	return r.deliver(out, o.json, o.markdown)
}

// deliver prints the report and puts it where it was asked for.
func (r *report) deliver(out io.Writer, jsonFile, markdown string) error {
	var section bytes.Buffer
	r.write(&page{Writer: &section})
	var err error
	if p := newPage(out); p.width > 0 && markdown == "" {
		r.write(p)
	} else {
		_, err = out.Write(section.Bytes())
	}
	if jsonFile != "" {
		all, encodeErr := json.MarshalIndent(r, "", "  ")
		err = errors.Join(err, encodeErr, os.WriteFile(jsonFile, all, 0o644))
	}
	if markdown != "" {
		err = errors.Join(err, rewrite(markdown, section.String()))
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
