package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/mattn/go-isatty"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
)

// The exit codes, as --help lists them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitOpen        = 5
	exitReview      = 6
	exitUnavailable = 7
)

var exitCodes = []struct {
	err  error
	code int
}{
	{justonce.ErrNotFound, exitNotFound},
	{justonce.ErrUnknownTool, exitNotFound},
	{justonce.ErrConflict, exitConflict},
	{justonce.ErrNotAllowed, exitConflict},
	{justonce.ErrInvalid, exitUsage},
	{justonce.ErrLedgerGone, exitUnavailable},
	{gateway.ErrNoAnswer, exitOpen}, // also where a later try found the gateway gone
	{justonce.ErrUnavailable, exitUnavailable},
	{context.DeadlineExceeded, exitOpen},
}

func stateCode(s justonce.State) int {
	switch s {
	case justonce.Succeeded:
		return exitDone
	case justonce.Failed:
		return exitFailed
	case justonce.Review:
		return exitReview
	}
	return exitOpen
}

// A hinted error tells the operator what to do.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

func hint(err error, format string, a ...any) error {
	return &hinted{err, fmt.Sprintf(format, a...)}
}

// A usageError exits with 2.
type usageError struct{ error }

func (e *usageError) Unwrap() error        { return e.error }
func (e *usageError) Is(target error) bool { return target == justonce.ErrInvalid }

// output prints for a person or, with --json, for a program.
type output struct {
	*world
	json   bool
	colour bool
	code   int // of a command that did not fail
}

func newOutput(w *world, asJSON bool) *output {
	o := &output{world: w, json: asJSON}
	if f, ok := w.stdout.(*os.File); ok && !asJSON {
		o.colour = isatty.IsTerminal(f.Fd()) && w.env("NO_COLOR") == "" && w.env("TERM") != "dumb"
	}
	return o
}

// printable makes one line of s without control characters: what a provider or
// an agent wrote must not steer the operator's terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func (o *output) printf(format string, a ...any) { fmt.Fprintf(o.stdout, format, a...) }

// object prints v as indented JSON; results stay as recorded.
func (o *output) object(v any) error {
	enc := json.NewEncoder(o.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// paint colours text on a terminal.
func (o *output) paint(colour, text string) string {
	if !o.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "34"
	violet = "35"
)

func stateColour(s justonce.State) string {
	switch s {
	case justonce.Succeeded:
		return green
	case justonce.Failed:
		return red
	case justonce.Review:
		return violet
	case justonce.Unknown:
		return yellow
	}
	return blue
}

// fail prints err and returns its exit code.
func (o *output) fail(err error) int {
	code := exitFailed
	for _, e := range exitCodes {
		if errors.Is(err, e.err) {
			code = e.code
			break
		}
	}
	if errors.Is(err, context.Canceled) {
		if code == exitFailed { // nothing more is to be said
			err = errors.New("interrupted")
		}
		code = 130
	}
	help := ""
	if c := (*justonce.ConflictError)(nil); errors.As(err, &c) && c.Operation != nil {
		help = "it is " + c.Operation.Key + " (justonce show); for a second effect on purpose use another key or identity"
		if c.Operation.KeySource != justonce.KeyGiven && c.MatchedBy == justonce.MatchKey {
			help += ", or --seq 2"
		}
	}
	if errors.Is(err, gateway.ErrNoAnswer) {
		help = "look with 'justonce ls', or make the same call again, with the same key: it has its effect once"
	}
	if errors.Is(err, justonce.ErrUnknownTool) {
		help = "'justonce tools' lists them"
	}
	if p := (*gateway.Problem)(nil); errors.As(err, &p) && errors.Is(err, justonce.ErrUnavailable) {
		if help = p.Hint; errors.Is(err, justonce.ErrLedgerGone) {
			help = p.Advice.Text
		}
	}
	if h := (*hinted)(nil); errors.As(err, &h) {
		help = h.hint
	}
	if o.json {
		v := map[string]any{"error": err.Error(), "exit": code}
		if help != "" {
			v["hint"] = help
		}
		if c := (*justonce.ConflictError)(nil); errors.As(err, &c) {
			v["paths"], v["differs"], v["matched_by"] = c.Paths, c.Differs, c.MatchedBy
			if c.Operation != nil {
				v["key"] = c.Operation.Key
			}
		}
		enc := json.NewEncoder(o.stderr)
		enc.SetEscapeHTML(false)
		enc.Encode(v)
		return code
	}
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	fmt.Fprintf(o.stderr, "justonce: %s\n", strings.Join(lines, "\n"))
	if help != "" {
		fmt.Fprintf(o.stderr, "hint: %s\n", help)
	}
	return code
}
