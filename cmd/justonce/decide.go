package main

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/justonce-dev/justonce"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// decision is what the deciding commands share.
type decision struct {
	ledger
	Key    string `arg:"" help:"The operation's key."`
	Reason string `help:"Why; it is kept in the history." required:""`
	Actor  string `help:"Who decides. Defaults to user@host." env:"JUSTONCE_ACTOR"`
}

func (d *decision) decide(ctx context.Context, o *output, dec justonce.Decision) error {
	svc, done, err := d.open(ctx, deciding)
	if err != nil {
		return err
	}
	defer done()
	dec.Actor, dec.Reason = actor(d.Actor), d.Reason
	a, err := svc.Decide(ctx, justonce.Ref{Key: d.Key}, dec)
	if err != nil {
		return err
	}
	if err := o.answer(a); err != nil {
		return err
	}
	o.code = exitDone // the decision was carried out, whatever the state is now
	return nil
}

type resolveCmd struct {
	decision
	Verdict   string `arg:"" enum:"happened,retry,cancel" help:"happened: the effect is there. retry: it is not, send it. cancel: it is not, leave it."`
	Reference string `help:"The provider's reference, with happened."`
	Result    string `help:"The JSON that duplicates get, with happened." placeholder:"JSON"`
}

func (*resolveCmd) Help() string {
	return `Look at the provider first: retry sends again, under the same wire key. Where the
provider stored a failure under that key, cancel and redrive instead: that sends
under a new one.

Examples:
  justonce resolve order-123 happened --reference ch_42 --reason "seen in the dashboard"
  justonce resolve order-123 retry --reason "the provider has no such charge"
  justonce resolve order-123 cancel --reason "the customer left"`
}

func (c *resolveCmd) Run(ctx context.Context, o *output) error {
	d := justonce.Decision{Verdict: justonce.Verdict(c.Verdict), Reference: c.Reference}
	if c.Result != "" {
		d.Result = json.RawMessage(c.Result)
	}
	return c.decide(ctx, o, d)
}

type redriveCmd struct{ decision }

func (*redriveCmd) Help() string {
	return `For operations that failed: nothing happened so far. They get a new wire key,
since providers store failures under the old one.

Example:
  justonce redrive order-123 --reason "the provider is back"`
}

func (c *redriveCmd) Run(ctx context.Context, o *output) error {
	return c.decide(ctx, o, justonce.Decision{Verdict: justonce.Redrive})
}

type cancelCmd struct{ decision }

func (*cancelCmd) Help() string {
	return `Only what was not sent can be cancelled; an operation in review is resolved.

Example:
  justonce cancel order-123 --reason "ordered by mistake"`
}

func (c *cancelCmd) Run(ctx context.Context, o *output) error {
	return c.decide(ctx, o, justonce.Decision{Verdict: justonce.Cancel})
}
