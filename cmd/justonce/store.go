package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
	"github.com/justonce-dev/justonce/postgres"
	"github.com/justonce-dev/justonce/redis"
	"github.com/justonce-dev/justonce/sqlite"
)

// defaultStore is the ledger of serve where none is named.
const defaultStore = "justonce.db"

// ledgerNames is what --store takes.
const ledgerNames = "a SQLite file, or a URL such as postgres://user@host/database or redis://host:6379/0"

// storeScheme returns the scheme of a ledger that is named by a URL, and "" for
// that of a SQLite file.
func storeScheme(name string) string {
	scheme, _, ok := strings.Cut(name, "://")
	if !ok {
		return ""
	}
	return scheme
}

// checkStore refuses names that are neither a file's nor a URL that we know.
// What it says repeats nothing that could be a password.
func checkStore(name string) error {
	bad := func(format string, a ...any) error {
		return &usageError{hint(fmt.Errorf(format, a...), "--store wants "+ledgerNames)}
	}
	switch scheme := storeScheme(name); scheme {
	case "":
		if strings.Contains(name, "dbname=") || strings.Contains(name, "host=") {
			return bad("the ledger is named by keywords and values")
		}
		return nil
	case "postgres", "postgresql", "redis", "rediss", "valkey", "valkeys":
		if _, ok := shownURL(name); !ok {
			return bad("the ledger's URL cannot be read; in a password %%, /, ?, # and @ are written %%25, %%2F, %%3F, %%23 and %%40")
		}
		return nil
	default:
		return bad("no ledger is kept in %s://", scheme)
	}
}

// shownStore is name as people and logs may see it: of a URL what says where the
// ledger is, never a user or password.
func shownStore(name string) string {
	if storeScheme(name) == "" {
		return name
	}
	shown, _ := shownURL(name)
	return shown
}

func shownURL(name string) (shown string, ok bool) {
	u, err := url.Parse(name)
	// An @ behind the host says that what looks like one is part of a password.
	if err != nil || strings.Contains(u.EscapedPath()+u.RawQuery+u.Fragment, "@") {
		return storeScheme(name) + "://…", false
	}
	where := url.Values{}
	for name, values := range u.Query() {
		if slices.Contains(whereParameters, name) {
			where[name] = values
		}
	}
	shown = u.Scheme + "://" + u.Host + u.EscapedPath()
	if len(where) > 0 {
		shown += "?" + where.Encode()
	}
	return shown, true
}

// whereParameters are those of a URL that say where a ledger is, and the one
// without which it may not be opened there.
var whereParameters = []string{"host", "port", "addr", "db", "master_set", "prefix", "accept_loss"}

// access is what a ledger is opened for.
type access int

const (
	creating access = iota // to run on it; it is made if need be
	deciding               // to write to one that is there
	looking                // to read one that is there, though it may forget
)

// openStore opens the ledger that name names, creating it if need be. The caller
// closes it.
func openStore(ctx context.Context, name string, log *slog.Logger) (justonce.Store, error) {
	return open(ctx, name, log, creating)
}

// openExistingStore is openStore for commands that look after a ledger: it
// creates none.
func openExistingStore(ctx context.Context, name string, to access) (justonce.Store, error) {
	return open(ctx, name, nil, to)
}

func open(ctx context.Context, name string, log *slog.Logger, to access) (justonce.Store, error) {
	if err := checkStore(name); err != nil {
		return nil, err
	}
	switch storeScheme(name) {
	case "postgres", "postgresql":
		store, err := postgres.Open(ctx, name, &postgres.Options{Logger: log, Existing: to != creating})
		if err != nil {
			return nil, storeError(err, name)
		}
		return store, nil
	case "redis", "rediss", "valkey", "valkeys":
		store, err := redis.Open(ctx, name, &redis.Options{Logger: log, Existing: to != creating, ReadOnly: to == looking})
		if err != nil {
			return nil, storeError(err, name)
		}
		return store, nil
	default:
		if to != creating {
			if err := findFile(name); err != nil {
				return nil, err
			}
		}
		store, err := sqlite.Open(ctx, name, &sqlite.Options{Logger: log})
		if err != nil {
			return nil, storeError(err, name)
		}
		return store, nil
	}
}

// findFile returns an error if there is no ledger at path.
func findFile(path string) error {
	_, err := os.Stat(path)
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no file %s", fullPath(path))
	}
	return hint(fmt.Errorf("%w: %w", justonce.ErrUnavailable, err),
		"--store wants a ledger that is there: the file of 'justonce serve' (justonce.db), what 'justonce mcp --where' prints, or a URL")
}

// namedStore returns the ledger of a command that works on one in a gateway's
// absence: what flag says, else what the catalog here names, else serve's
// default.
func namedStore(ctx context.Context, flag string) (string, error) {
	opts := &catalog.Options{Connectors: connectors(nil, newMCPServers())}
	cat, err := catalog.Parse("no catalog", []byte("tools: {}"), opts)
	config, set := os.LookupEnv("JUSTONCE_CONFIG")
	if !set { // empty it stands for none
		config = "justonce.yaml"
	}
	if flag == "" && fileThere(config) {
		cat, err = catalog.Load(config, opts)
	}
	if err != nil {
		return "", hint(catalogError(err), "it names the ledger; --store does, too")
	}
	name, _ := cat.Setting("store")
	return cat.Secrets().Expand(ctx, cmp.Or(flag, name, defaultStore))
}

// migrateStore brings a ledger to this program's schema and returns the versions
// it had and has; from is 0 where there was none.
func migrateStore(ctx context.Context, name string) (from, to int, err error) {
	if err := checkStore(name); err != nil {
		return 0, 0, err
	}
	switch storeScheme(name) {
	case "postgres", "postgresql":
		from, err = postgres.Migrate(ctx, name, nil)
		to = postgres.SchemaVersion
	case "redis", "rediss", "valkey", "valkeys":
		return 0, 0, &usageError{hint(errors.New("a ledger in Redis has no schema"), "nothing is to be done")}
	default:
		from, err = sqlite.Migrate(ctx, name)
		to = sqlite.SchemaVersion
	}
	if err != nil {
		return from, to, storeError(err, name)
	}
	return from, to, nil
}

// storeError says which ledger could not be opened, and what to do.
func storeError(err error, name string) error {
	var op *net.OpError
	switch {
	case storeScheme(name) == "":
		return hint(err, "--store names the ledger: a file or a URL; it is %s now", name)
	case errors.As(err, &op) && op.Op == "dial":
		return hint(err, "nobody answers for %s: start the server there, or name another ledger with --store", shownStore(name))
	}
	return hint(err, "the ledger is %s; --store names another", shownStore(name))
}

// sandboxJournal is where the sandbox of a ledger keeps its effects: beside a
// file, and for a ledger elsewhere in the working directory.
func sandboxJournal(store string) string {
	if storeScheme(store) != "" {
		return "justonce.sandbox.jsonl"
	}
	return store + ".sandbox.jsonl"
}
