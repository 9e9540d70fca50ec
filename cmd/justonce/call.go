package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/justonce-dev/justonce"
)

// call are the flags that say what is called.
type call struct {
	remote
	Tool      string `arg:"" help:"The tool's name."`
	Arguments string `arg:"" optional:"" help:"Its arguments as a JSON object, or - to read them from standard input." default:"{}"`
	Key       string `help:"The idempotency key. Without one it is derived: the same call again is the same operation."`
	Scope     string `help:"The account, session or user within which derived keys match." env:"JUSTONCE_SCOPE"`
	RunID     string `name:"run" help:"The agent task that the call belongs to." env:"JUSTONCE_RUN"`
	Seq       int    `help:"Tells deliberate equal calls apart." default:"1"`
}

func (c *call) call(o *output) (justonce.Call, error) {
	args := c.Arguments
	if args == "-" {
		b, err := io.ReadAll(io.LimitReader(o.stdin, 16<<20))
		if err != nil {
			return justonce.Call{}, err
		}
		args = string(b)
	}
	return justonce.Call{Tool: c.Tool, Arguments: json.RawMessage(strings.TrimSpace(args)),
		Key: c.Key, Scope: c.Scope, RunID: c.RunID, IntentSeq: c.Seq}, nil
}

type callCmd struct {
	call
	Wait   time.Duration `help:"Wait so long for the end; 0: as with --no-wait." default:"60s"`
	NoWait bool          `help:"Record it and return at once."`
}

// noWait bounds a call that only has to be recorded.
const noWait = time.Minute

func (*callCmd) Help() string {
	return `Examples:
  justonce call payment '{"order_id":"1","amount":9900,"currency":"CNY"}'
  justonce call payment --key shop-1:order-1:pay-v1 - < payment.json
  justonce call ticket '{"case_id":"alert-7","title":"disk full"}' --json | jq .state`
}

func (c *callCmd) Run(ctx context.Context, o *output) error {
	what, err := c.call.call(o)
	if err != nil {
		return err
	}
	svc, err := c.open()
	if err != nil {
		return err
	}
	what.NoWait = c.NoWait || c.Wait <= 0
	if what.NoWait {
		c.Wait = noWait
	}
	patience, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	a, err := svc.Do(patience, what)
	if err != nil {
		return err
	}
	return o.answer(a)
}

type explainCmd struct{ call }

func (*explainCmd) Help() string {
	return `Nothing is recorded or sent.

Examples:
  justonce explain payment '{"order_id":"1","amount":9900,"currency":"CNY"}'
  justonce explain mail - --json < mail.json`
}

func (c *explainCmd) Run(ctx context.Context, o *output) error {
	what, err := c.call.call(o)
	if err != nil {
		return err
	}
	svc, err := c.open()
	if err != nil {
		return err
	}
	x, err := svc.Explain(ctx, what)
	if err != nil {
		return err
	}
	if o.json {
		return o.object(x)
	}
	row := func(name, value string) {
		o.printf("%s %s\n", o.paint(dim, pad(name, 12)), value)
	}
	row("key", o.paint(bold, x.Key))
	row("made", keySources[x.KeySource])
	var parts []string
	for _, p := range x.Parts {
		parts = append(parts, pad(p.Name, 12)+" "+printable(cmp.Or(p.Value, "-")))
	}
	for i, p := range parts {
		name := ""
		if i == 0 {
			name = "from"
		}
		row(name, p)
	}
	if len(x.Ignored) > 0 {
		row("ignored", strings.Join(x.Ignored, ", "))
	}
	row("fingerprint", x.Fingerprint)
	row("of", printable(string(x.Canonical)))
	if x.Meets == "" {
		row("meets", "nothing: this call would be new")
		return nil
	}
	row("meets", o.paint(stateColour(x.State), string(x.State))+"  "+x.Meets+" by its "+string(x.MatchedBy)+", since "+x.Since.Local().Format(time.DateTime))
	if x.Conflict {
		row("but", o.paint(red, "it would be refused: it differs in "+strings.Join(append(x.Differs, x.Paths...), ", ")))
	}
	return nil
}

var keySources = map[justonce.KeySource]string{
	justonce.KeyGiven:     "given with the call",
	justonce.KeyInherited: "inherited from the context",
	justonce.KeyIdentity:  "derived from the tool's declared identity",
	justonce.KeyContent:   "derived from the content of the call",
}

// pad fills s up to n characters.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}
