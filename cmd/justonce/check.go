package main

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/justonce-dev/justonce/catalog"
)

type checkCmd struct {
	File   string `arg:"" optional:"" help:"The catalog." default:"justonce.yaml"`
	Strict bool   `help:"Fail on warnings, too."`
}

func (*checkCmd) Help() string {
	return `Exits with 2 if the file cannot be used, and with --strict also if there are
warnings.

Examples:
  justonce check
  justonce check examples/stripe.yaml --strict
  justonce check --json | jq .findings`
}

// catalogError gives an error of the catalog the right exit code.
func catalogError(err error) error {
	var e *catalog.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return &usageError{hint(err, "'justonce check' lists everything that is wrong with it")}
	}
	return &usageError{hint(err, "--config names the catalog; '' for none")}
}

func (c *checkCmd) Run(_ context.Context, o *output) error {
	findings, err := catalog.CheckFile(c.File, &catalog.Options{Connectors: connectors(nil, newMCPServers())})
	if err != nil {
		return &usageError{hint(err, "name the file: justonce check FILE")}
	}
	usable := !slices.ContainsFunc(findings, func(f catalog.Finding) bool { return f.Severity == catalog.SeverityError })
	if !usable || c.Strict && len(findings) > 0 {
		o.code = exitUsage
	}
	if o.json {
		if findings == nil {
			findings = []catalog.Finding{}
		}
		return o.object(map[string]any{"file": c.File, "usable": usable, "findings": findings})
	}
	for _, f := range findings {
		colour := yellow
		if f.Severity == catalog.SeverityError {
			colour = red
		}
		tool := ""
		if f.Tool != "" {
			tool = f.Tool + ": "
		}
		o.printf("%s: %s %s %s\n", f.Position, o.paint(colour, string(f.Severity)+":"), tool+f.Message, o.paint(dim, "["+f.Rule+"]"))
		if f.Hint != "" {
			o.printf("  %s\n", o.paint(dim, f.Hint))
		}
	}
	switch {
	case !usable:
		o.printf("%s cannot be used\n", c.File)
	case len(findings) == 0:
		o.printf("%s is fine\n", c.File)
	case len(findings) == 1:
		o.printf("%s can be used, with one warning\n", c.File)
	default:
		o.printf("%s can be used, with %d warnings\n", c.File, len(findings))
	}
	return nil
}

type migrateCmd struct {
	Ledger string `arg:"" optional:"" name:"store" help:"The ledger: a SQLite file, or a URL such as postgres://owner@host/database."`
	Store  string `help:"The same as a flag. Defaults to what justonce.yaml names, or justonce.db." env:"JUSTONCE_STORE,JUSTONCE_LEDGER" placeholder:"STORE"`
}

func (*migrateCmd) Help() string {
	return `serve does this by itself; the command is for those who want it to be a step of
its own, in PostgreSQL by a role that may create a schema where the gateway's may
not. It creates the ledger if it is not there, but no database.

Examples:
  justonce migrate /var/lib/justonce/justonce.db
  justonce migrate --store postgres://owner@db.internal/justonce`
}

func (c *migrateCmd) Run(ctx context.Context, o *output) error {
	if c.Ledger != "" && c.Store != "" && c.Ledger != c.Store {
		return &usageError{errors.New("two ledgers are named: give one")}
	}
	name, err := namedStore(ctx, cmp.Or(c.Ledger, c.Store))
	if err != nil {
		return err
	}
	from, to, err := migrateStore(ctx, name)
	if err != nil {
		return err
	}
	shown := shownStore(name)
	if o.json {
		return o.object(map[string]any{"store": shown, "from": from, "to": to})
	}
	switch from {
	case to:
		o.printf("%s has schema %d already\n", shown, from)
	case 0:
		o.printf("%s was created with schema %d\n", shown, to)
	default:
		o.printf("%s went from schema %d to %d\n", shown, from, to)
	}
	return nil
}

type versionCmd struct{}

func (versionCmd) Help() string {
	return `Example:
  justonce version --json | jq -r .version`
}

func (versionCmd) Run(o *output) error {
	if o.json {
		return o.object(map[string]string{"version": version()})
	}
	o.printf("justonce %s\n", version())
	return nil
}

// version is what the Go toolchain stamped.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
