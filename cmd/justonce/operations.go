package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce"
)

// An operationView is an operation as --json prints it, in the words of the
// HTTP surface.
type operationView struct {
	Key         string            `json:"key"`
	Tool        string            `json:"tool"`
	State       justonce.State    `json:"state"`
	Reason      justonce.Reason   `json:"reason,omitempty"`
	Incident    bool              `json:"incident,omitempty"`
	Scope       string            `json:"scope,omitempty"`
	RunID       string            `json:"run_id,omitempty"`
	IntentSeq   int               `json:"intent_seq,omitempty"`
	Result      json.RawMessage   `json:"result,omitempty"`
	Failure     *justonce.Failure `json:"failure,omitempty"`
	Note        string            `json:"note,omitempty"`
	Reference   string            `json:"reference,omitempty"`
	Replayed    bool              `json:"replayed"`
	Joined      bool              `json:"joined"`
	MatchedBy   justonce.Match    `json:"matched_by,omitempty"`
	Attempts    int               `json:"attempts"`
	Fingerprint string            `json:"fingerprint,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Advice      justonce.Advice   `json:"advice"`
	History     []justonce.Entry  `json:"history,omitempty"`
}

func viewOf(a *justonce.Answer) operationView {
	op := a.Operation
	return operationView{
		Key: op.Key, Tool: op.Tool, State: op.State, Reason: op.Reason, Incident: op.Incident,
		Scope: op.Scope, RunID: op.RunID, IntentSeq: op.IntentSeq,
		Result: op.Result, Failure: op.Failure, Note: op.Note, Reference: op.Reference,
		Replayed: a.Replayed, Joined: a.Joined, MatchedBy: a.MatchedBy, Attempts: op.Attempts,
		Fingerprint: op.Fingerprint, CreatedAt: op.CreatedAt, UpdatedAt: op.UpdatedAt, Advice: a.Advice(),
	}
}

// answer prints how a call ended and sets the exit code.
func (o *output) answer(a *justonce.Answer) error {
	op := a.Operation
	o.code = stateCode(op.State)
	if o.json {
		return o.object(viewOf(a))
	}
	how := ""
	switch {
	case a.Replayed && a.MatchedBy == justonce.MatchIdentity:
		how = " (replayed, met by its identity)"
	case a.Replayed:
		how = " (replayed)"
	case a.Joined:
		how = " (joined)"
	}
	o.printf("%s%s", o.paint(stateColour(op.State), string(op.State)), how)
	if op.Key != "" {
		o.printf("  %s", op.Key)
	}
	o.printf("\n")
	if op.Reference != "" {
		o.printf("reference  %s\n", printable(op.Reference))
	}
	if op.Failure != nil {
		o.printf("failure    %s\n", printable(failureText(op.Failure)))
	}
	if len(op.Result) > 0 {
		o.printf("result     %s\n", printable(string(op.Result)))
	}
	o.printf("%s\n", o.paint(dim, a.Advice().Text))
	return nil
}

func failureText(f *justonce.Failure) string {
	if f.Message == "" || f.Message == f.Code {
		return f.Code
	}
	return f.Code + ": " + f.Message
}

type lsCmd struct {
	ledger
	State     []string      `help:"Only these states: pending, running, unknown, review, succeeded, failed." placeholder:"STATE"`
	Tool      string        `help:"Only this tool."`
	Scope     string        `help:"Only this scope."`
	RunID     string        `name:"run" help:"Only this run."`
	Reference string        `help:"Only the one with this provider reference."`
	Since     time.Duration `help:"Only what arrived in this time, such as 24h." placeholder:"AGE"`
	Limit     int           `help:"At most so many." default:"50"`
	Cursor    string        `help:"Go on where the last page ended."`
}

func (*lsCmd) Help() string {
	return `Examples:
  justonce ls --state review            what waits for a person
  justonce ls --state unknown --json    what nobody knows yet, for a program
  justonce ls --tool payment --since 24h`
}

func (c *lsCmd) Run(ctx context.Context, o *output) error {
	svc, done, err := c.open(ctx, looking)
	if err != nil {
		return err
	}
	defer done()
	f := justonce.Filter{Tool: c.Tool, Scope: c.Scope, RunID: c.RunID, Reference: c.Reference, Limit: c.Limit, Cursor: c.Cursor}
	for _, s := range c.State {
		f.States = append(f.States, justonce.State(s))
	}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	page, err := svc.List(ctx, f)
	if err != nil {
		return err
	}
	if o.json {
		views := make([]operationView, 0, len(page.Operations))
		for _, op := range page.Operations {
			views = append(views, viewOf(&justonce.Answer{Operation: op}))
		}
		return o.object(map[string]any{"operations": views, "next": page.Next})
	}
	if len(page.Operations) == 0 {
		o.printf("no operations\n")
		return nil
	}
	tool, key := len("TOOL"), len("KEY")
	for _, op := range page.Operations {
		tool, key = max(tool, len(op.Tool)), max(key, len(op.Key))
	}
	row := func(colour, state, name, age, tries, k, reference string) {
		o.printf("%s  %s  %4s  %5s  %s  %s\n", o.paint(colour, pad(state, 9)), pad(name, tool), age, tries, pad(k, key), reference)
	}
	o.printf("%s\n", o.paint(dim, fmt.Sprintf("STATE      %s  %4s  %5s  %s  REFERENCE", pad("TOOL", tool), "AGE", "TRIES", pad("KEY", key))))
	for _, op := range page.Operations {
		row(stateColour(op.State), string(op.State), op.Tool, age(time.Since(op.CreatedAt)), strconv.Itoa(op.Attempts), op.Key, printable(op.Reference))
	}
	if page.Next != "" {
		o.printf("%s\n", o.paint(dim, "more: --cursor "+page.Next))
	}
	return nil
}

// age says roughly how long ago, in at most four characters.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

type toolsCmd struct {
	remote
}

func (*toolsCmd) Help() string {
	return `Examples:
  justonce tools
  justonce tools --json | jq '.[].input_schema'    what their arguments are`
}

func (c *toolsCmd) Run(ctx context.Context, o *output) error {
	svc, err := c.open()
	if err != nil {
		return err
	}
	tools, err := svc.Tools(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return o.object(tools)
	}
	name := len("TOOL")
	for _, t := range tools {
		name = max(name, len(t.Name))
	}
	o.printf("%s\n", o.paint(dim, pad("TOOL", name)+"  EFFECT        LEVEL  IDENTITY"))
	for _, t := range tools {
		level := ""
		if t.Level > 0 {
			level = fmt.Sprintf("%d %s", t.Level, t.Capability)
		}
		o.printf("%s  %s  %s  %s\n", pad(t.Name, name), pad(string(t.Effect), 12), pad(level, 11), strings.Join(t.Identity, " "))
		if t.Description != "" {
			o.printf("%s  %s\n", pad("", name), o.paint(dim, printable(t.Description)))
		}
	}
	return nil
}

type showCmd struct {
	ledger
	Key  string        `arg:"" help:"The operation's key."`
	Wait time.Duration `help:"Wait so long for its end." placeholder:"TIME"`
}

func (*showCmd) Help() string {
	return `Examples:
  justonce show shop-1:order-123:pay-v1
  justonce show op_4f1c… --wait 30s --json`
}

func (c *showCmd) Run(ctx context.Context, o *output) error {
	svc, done, err := c.open(ctx, looking)
	if err != nil {
		return err
	}
	defer done()
	ref := justonce.Ref{Key: c.Key}
	var a *justonce.Answer
	if c.Wait > 0 {
		patience, cancel := context.WithTimeout(ctx, c.Wait)
		a, err = svc.Wait(patience, ref)
		cancel()
	} else {
		a, err = svc.Get(ctx, ref)
	}
	if err != nil {
		return err
	}
	history, err := svc.History(ctx, ref)
	if err != nil {
		return err
	}
	o.code = stateCode(a.Operation.State)
	if o.json {
		v := viewOf(a)
		v.History = history
		return o.object(v)
	}
	o.timeline(a, history, c.flags())
	return nil
}

// timeline prints an operation with its history. Where are the flags that say where
// it is.
func (o *output) timeline(a *justonce.Answer, history []justonce.Entry, where string) {
	op := a.Operation
	state := string(op.State)
	if op.Reason != "" {
		state += " (" + string(op.Reason) + ")"
	}
	if op.Incident {
		state += " (incident: what was reported contradicts what was recorded)"
	}
	row := func(name, value string) {
		if value != "" {
			o.printf("  %s %s\n", o.paint(dim, fmt.Sprintf("%-12s", name)), printable(value))
		}
	}
	o.printf("%s  %s\n", o.paint(bold, op.Key), o.paint(stateColour(op.State), state))
	row("tool", op.Tool)
	row("scope", op.Scope)
	row("run", op.RunID)
	row("reference", op.Reference)
	row("fingerprint", op.Fingerprint)
	if op.Failure != nil {
		name := "failure"
		if op.State.Open() {
			name = "last failure"
		}
		row(name, failureText(op.Failure))
	}
	row("note", op.Note)
	row("result", string(op.Result))
	o.printf("\n")
	o.history(op.CreatedAt, history)
	if op.State == justonce.Review {
		o.printf("\n%s\n", o.paint(dim, "Look at the provider, then: justonce resolve "+shellWord(op.Key)+" happened|retry|cancel --reason …"+where))
		return
	}
	o.printf("\n%s\n", o.paint(dim, a.Advice().Text))
}

// shellWord quotes s for a command to be copied: keys are what agents make of
// them, ; and $( included.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:/@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// actor is who decides, unless --actor says so.
func actor(flag string) string {
	if flag != "" {
		return flag
	}
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
