package postgres

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migration/*.sql
var migrations embed.FS

// SchemaVersion is the version of the schema that this package writes: the
// number of its migrations.
const SchemaVersion = 2

// oldest is the first version of PostgreSQL that works.
const oldest = 13_00_00

// Migrate brings the ledger in the database that dsn names to [SchemaVersion],
// creating it if need be, and returns the version it had; 0: there was none.
// [Open] does the same; Migrate is for operators who want it to be a step of
// its own, by a role that may create what it needs. Processes that migrate one
// ledger at the same time are safe. o may be nil.
func Migrate(ctx context.Context, dsn string, o *Options) (from int, err error) {
	opts := o.withDefaults()
	opts.MaxConns = 1
	config, err := poolConfig(dsn, &opts)
	if err != nil {
		return 0, unavailable("reading the connection string", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, unavailable("opening the ledger", err)
	}
	defer pool.Close()
	from, err = migrate(ctx, pool, opts.Schema, false)
	if err != nil {
		return from, unavailable("preparing schema "+opts.Schema, err)
	}
	return from, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string, existing bool) (from int, err error) {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Release()
	if err := checkServer(ctx, c.Conn()); err != nil {
		return 0, err
	}
	// Nothing is locked, and no privilege needed, where all is done.
	if from, err = schemaVersion(ctx, c.Conn(), schema); err != nil || from == SchemaVersion {
		return from, err
	}
	if existing && from == 0 {
		return 0, errNoLedger
	}
	for {
		done, err := migrateOnce(ctx, c.Conn(), schema)
		if err != nil || done {
			return from, err
		}
	}
}

// exec is the protocol of queries here: no session keeps anything.
const exec = pgx.QueryExecModeExec

// migrateOnce applies the next migration in a transaction of its own.
func migrateOnce(ctx context.Context, conn *pgx.Conn, schema string) (done bool, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	quoted := pgx.Identifier{schema}.Sanitize()
	// The lock is held until the end of the transaction. Another process may
	// have been faster.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", exec, sum('m', "", schema).lock()); err != nil {
		return false, err
	}
	version, err := schemaVersion(ctx, conn, schema)
	if err != nil || version == SchemaVersion {
		return true, err
	}
	files, err := migrations.ReadDir("migration")
	if err != nil {
		return false, err
	}
	name := files[version].Name()
	script, err := migrations.ReadFile("migration/" + name)
	if err != nil {
		return false, err
	}
	// A migration that cannot have its locks at once fails rather than make
	// others wait behind it.
	before := "SET LOCAL lock_timeout = '3s'; SET LOCAL statement_timeout = 0; "
	if version == 0 {
		before += "CREATE SCHEMA IF NOT EXISTS " + quoted + "; " +
			"CREATE TABLE " + quoted + ".migration (version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now()); "
	}
	before += "SET LOCAL search_path = " + quoted + "; "
	after := fmt.Sprintf("; INSERT INTO %s.migration (version) VALUES (%d)", quoted, version+1)
	for _, sql := range []string{before, string(script), after} {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return false, fmt.Errorf("migration %s: %w", name, err)
		}
	}
	return false, tx.Commit(ctx)
}

// schemaVersion returns the version of the ledger in schema, 0 if there is
// none, or an error if it is newer than this program.
func schemaVersion(ctx context.Context, conn *pgx.Conn, schema string) (version int, err error) {
	quoted := pgx.Identifier{schema}.Sanitize()
	// From the catalog itself: what the session has looked up before may be old.
	var there bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = 'migration')`, exec, schema).Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	if err := conn.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+quoted+".migration", exec).Scan(&version); err != nil {
		return 0, err
	}
	if version > SchemaVersion {
		return version, fmt.Errorf("it has version %d and this program knows up to %d; a newer justonce has migrated it: run that version, or one newer still", version, SchemaVersion)
	}
	return version, nil
}

// checkServer refuses what cannot keep a ledger.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var encoding string
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::integer, current_setting('server_encoding')", exec).Scan(&version, &encoding)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return fmt.Errorf("the server is PostgreSQL %d; version %d or newer is needed", version/10000, oldest/10000)
	case encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s; one with UTF8 is needed", encoding)
	}
	return nil
}
