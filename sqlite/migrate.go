package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed migration/*.sql
var migrations embed.FS

// SchemaVersion is the version of the schema that this package writes: the
// number of its migrations.
const SchemaVersion = 1

// applicationID marks a file as a ledger: "just" in ASCII.
const applicationID = 0x6a757374

// Migrate brings the ledger at path to [SchemaVersion], creating it if need
// be, and returns the version it had; 0: there was none. [Open] does the same;
// Migrate is for operators who want it to be a step of its own. Processes that
// migrate one file at the same time are safe.
func Migrate(ctx context.Context, path string) (from int, err error) {
	if err := checkPath(path); err != nil {
		return 0, fmt.Errorf("sqlite: %w", err)
	}
	conn, err := connect(path, writerCacheKiB, DefaultBusyTimeout)
	if err != nil {
		return 0, unavailable("opening "+path, err)
	}
	defer conn.Close()
	from, err = migrate(ctx, conn, path, DefaultBusyTimeout)
	if err != nil {
		return from, unavailable("preparing "+path, err)
	}
	return from, nil
}

func migrate(ctx context.Context, conn *sqlite.Conn, path string, patience time.Duration) (from int, err error) {
	if err := checkVersion(conn); err != nil {
		return 0, err
	}
	if from, err = schemaVersion(conn, path); err != nil {
		return from, err
	}
	// Changing the mode does not always wait for others by itself.
	err = retryBusy(ctx, patience, func() error {
		mode, err := queryText(conn, "PRAGMA journal_mode = WAL")
		if err == nil && !strings.EqualFold(mode, "wal") {
			err = fmt.Errorf("%s cannot use a write-ahead log (journal mode %q): its filesystem lacks shared memory", path, mode)
		}
		return err
	})
	if err != nil {
		return from, err
	}
	for {
		done, err := migrateOnce(conn, path)
		if err != nil || done {
			return from, err
		}
	}
}

// migrateOnce applies the next migration in a transaction of its own.
func migrateOnce(conn *sqlite.Conn, path string) (done bool, err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return false, err
	}
	defer end(&err)
	// Under the lock: another process may have been faster.
	version, err := schemaVersion(conn, path)
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
	for query := string(script); strings.TrimSpace(query) != ""; {
		stmt, rest, err := conn.PrepareTransient(query)
		if err != nil {
			return false, fmt.Errorf("migration %s: %w", name, err)
		}
		query = query[len(query)-rest:]
		_, err = stmt.Step()
		stmt.Finalize()
		if err != nil {
			return false, fmt.Errorf("migration %s: %w", name, err)
		}
	}
	err = sqlitex.ExecuteTransient(conn, fmt.Sprintf("PRAGMA application_id = %d", applicationID), nil)
	if err == nil {
		err = sqlitex.ExecuteTransient(conn, fmt.Sprintf("PRAGMA user_version = %d", version+1), nil)
	}
	return false, err
}

// schemaVersion returns the version of the ledger in the file, 0 if the file
// is empty, or an error if it is not ours or newer than this program. It
// changes nothing.
func schemaVersion(conn *sqlite.Conn, path string) (int, error) {
	var id, version, tables int64
	// One statement, so that no other process can come between.
	err := sqlitex.ExecuteTransient(conn, `SELECT
		(SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`, &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error {
			id, version, tables = stmt.ColumnInt64(0), stmt.ColumnInt64(1), stmt.ColumnInt64(2)
			return nil
		},
	})
	switch {
	case err != nil:
		return 0, err
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return 0, fmt.Errorf("%s belongs to another application (application id %#x, %d tables and indexes); name another file", path, id, tables)
	case version > SchemaVersion:
		return int(version), fmt.Errorf("%s has schema version %d and this program knows up to %d; a newer justonce has migrated it: run that version, or one newer still", path, version, SchemaVersion)
	}
	return int(version), nil
}

var errPatience = errors.New("gave up waiting for the lock")

// retryBusy repeats f while another process is in its way, at most for the
// time of patience. Waits are short and random, so that nobody starves.
func retryBusy(ctx context.Context, patience time.Duration, f func() error) error {
	var start time.Time
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 2*time.Millisecond) {
		err := f()
		if !isBusy(err) || isStale(err) {
			return err
		}
		if start.IsZero() {
			start = time.Now()
		}
		if time.Since(start) > patience {
			return fmt.Errorf("%w after %v: %w", errPatience, patience, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}
