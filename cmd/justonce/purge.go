package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/justonce-dev/justonce"
)

type purgeCmd struct {
	Store     string        `help:"The ledger: ${ledger_names}. Defaults to what justonce.yaml names, or justonce.db." env:"JUSTONCE_STORE,JUSTONCE_LEDGER" placeholder:"STORE"`
	OlderThan time.Duration `help:"Only what ended longer ago, such as 30d." required:"" placeholder:"AGE"`
	Batch     int           `help:"Operations in one commit." default:"1000" placeholder:"N"`
}

func (*purgeCmd) Help() string {
	return `Removes arguments, results and histories of operations that ended long ago. What
remains of each is a tombstone: its key is still never used again, and a duplicate
is told that it was done. What has not ended, or waits for a person, stays whole.
It may run beside gateways, and can be stopped at any time.

Examples:
  justonce purge --older-than 30d
  justonce purge --older-than 90d --store postgres://justonce@db.internal/justonce`
}

func (c *purgeCmd) Run(ctx context.Context, o *output) error {
	switch {
	case c.OlderThan <= 0:
		return &justonce.InvalidError{Field: "--older-than", Detail: "it must be more than nothing, such as 30d"}
	case c.Batch < 1:
		return &justonce.InvalidError{Field: "--batch", Detail: "it must be 1 or more"}
	}
	name, err := namedStore(ctx, c.Store)
	if err != nil {
		return err
	}
	store, err := openExistingStore(ctx, name, deciding)
	if err != nil {
		return err
	}
	defer store.Close()
	before := store.Now().Add(-c.OlderThan)
	purged, err := c.purge(ctx, store, before, o.progress())
	if o.json {
		if jsonErr := o.object(map[string]any{"store": shownStore(name), "ended_before": before.UTC(), "purged": purged, "complete": err == nil}); err == nil {
			err = jsonErr
		}
		return err
	}
	o.printf("%s purged from %s that ended before %s\n", plural(purged, "operation"), shownStore(name), before.Local().Format(time.DateTime))
	return err
}

// purge goes on until none is left, and returns how many it purged also if it
// fails.
func (c *purgeCmd) purge(ctx context.Context, store justonce.Store, before time.Time, progress func(int)) (purged int, err error) {
	for {
		n, err := store.Purge(ctx, before, c.Batch)
		if err != nil {
			return purged, err
		}
		purged += n
		if n < c.Batch {
			return purged, nil
		}
		progress(purged)
	}
}

// progress returns what shows a count to somebody at a terminal. Others get
// nothing.
func (o *output) progress() func(n int) {
	f, ok := o.stderr.(*os.File)
	if !ok || o.json || !isatty.IsTerminal(f.Fd()) {
		return func(int) {}
	}
	var shown time.Time
	return func(n int) {
		if time.Since(shown) > 200*time.Millisecond {
			shown = time.Now()
			fmt.Fprintf(f, "\r%s so far\r", thousands(n))
		}
	}
}
