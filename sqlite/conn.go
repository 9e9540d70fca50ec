package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// oldest is the first SQLite without the WAL-reset bug, by which two
// connections that write and checkpoint at once could corrupt a file.
const oldest = 3_051_003

const (
	writerCacheKiB = 8 << 10
	readerCacheKiB = 1 << 10
)

// checkPath refuses what cannot be a ledger before SQLite touches it.
func checkPath(path string) error {
	switch {
	case path == "" || path == ":memory:":
		return errors.New("a file is needed; the package inmem keeps a ledger in memory")
	case strings.HasPrefix(path, "file:"):
		return fmt.Errorf("%s is a URI; a plain path is needed", path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory; name a file in it", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return checkFilesystem(path)
}

// connect opens one connection with the settings that all share.
func connect(path string, cacheKiB int, busy time.Duration) (_ *sqlite.Conn, err error) {
	// Arguments and results are in it, for its owner alone; what SQLite puts beside
	// it gets the same mode. An error is SQLite's to tell.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
		f.Close()
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	conn.SetBusyTimeout(busy)
	for _, pragma := range []string{
		"synchronous = FULL", // anything less may lose acknowledged commits
		"foreign_keys = OFF",
		"mmap_size = 0", // unsafe with several processes on errors of the disk
		"temp_store = MEMORY",
		"trusted_schema = OFF",
		"wal_autocheckpoint = 0", // the writer sees to it
		fmt.Sprintf("cache_size = -%d", cacheKiB),
	} {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

// queryText returns the first column of the first row.
func queryText(conn *sqlite.Conn, query string) (s string, err error) {
	err = sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error { s = stmt.ColumnText(0); return nil },
	})
	return s, err
}

// checkVersion refuses an SQLite that may corrupt the file.
func checkVersion(conn *sqlite.Conn) error {
	version, err := queryText(conn, "SELECT sqlite_version()")
	if err != nil {
		return err
	}
	return checkNumber(version)
}

func checkNumber(version string) error {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return fmt.Errorf("SQLite version %q: %w", version, err)
	}
	if major*1_000_000+minor*1000+patch < oldest {
		return fmt.Errorf("SQLite %s can corrupt files that are written and checkpointed at once; build with modernc.org/sqlite v1.47.0 or later (SQLite 3.51.3)", version)
	}
	return nil
}

func isBusy(err error) bool {
	return err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy
}

// isStale reports whether the connection still reads what others have since
// written over. Waiting does not help.
func isStale(err error) bool { return err != nil && sqlite.ErrCode(err) == sqlite.ResultBusySnapshot }

// a preparer prepares statements; the first error sticks.
type preparer struct {
	conn *sqlite.Conn
	mark string // ends each text
	err  error
}

func (p *preparer) prepare(query string) *sqlite.Stmt {
	if p.err != nil {
		return nil
	}
	var stmt *sqlite.Stmt
	stmt, p.err = p.conn.Prepare(query + p.mark)
	return stmt
}

// run executes a statement that returns no rows that matter.
func run(stmt *sqlite.Stmt) error {
	_, err := stmt.Step()
	if err2 := stmt.Reset(); err == nil {
		err = err2
	}
	return err
}
