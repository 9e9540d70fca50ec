package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// open opens a store that is closed after the test.
func open(tb testing.TB, path string, o *sqlite.Options) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(context.Background(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// execFile runs statements on the file at path.
func execFile(tb testing.TB, path string, queries ...string) {
	tb.Helper()
	conn, err := zs.OpenConn(path, zs.OpenReadWrite, zs.OpenCreate)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	for _, q := range queries {
		if err := sqlitex.ExecuteTransient(conn, q, nil); err != nil {
			tb.Fatalf("%s: %v", q, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }

	open(t, file("newer.db"), nil).Close()
	execFile(t, file("newer.db"), "PRAGMA user_version = 99")
	execFile(t, file("other.db"), "CREATE TABLE customer (id INTEGER)")
	execFile(t, file("id.db"), "PRAGMA application_id = 77")
	if err := os.WriteFile(file("text.db"), []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, want string }{
		{"", "inmem"},
		{":memory:", "inmem"},
		{"file:x.db?mode=ro", "plain path"},
		{dir, "is a directory"},
		{file("no/such/dir.db"), "no such file"},
		{file("fifo"), "not a regular file"},
		{file("newer.db"), "has schema version 99 and this program knows up to 1"},
		{file("other.db"), "belongs to another application"},
		{file("id.db"), "belongs to another application"},
		{file("text.db"), "it is not an SQLite file"},
	} {
		before := content(tt.path)
		s, err := sqlite.Open(t.Context(), tt.path, nil)
		if err == nil {
			s.Close()
			t.Errorf("Open(%q) is no error, want %q", tt.path, tt.want)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%q): %v, want %q", tt.path, err, tt.want)
		}
		if !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("Open(%q): %v is not ErrUnavailable", tt.path, err)
		}
		if content(tt.path) != before {
			t.Errorf("Open(%q) changed the file", tt.path)
		}
	}
}

// content of a regular file.
func content(path string) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, _ := os.ReadFile(path)
	return string(b)
}

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := sqlite.Open(context.Background(), path, nil)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	for _, want := range []int{0, sqlite.SchemaVersion} {
		if got, err := sqlite.Migrate(t.Context(), path); err != nil || got != want {
			t.Errorf("Migrate = %d, %v, want %d", got, err, want)
		}
	}
	open(t, path, nil)
}

func TestOldSQLite(t *testing.T) {
	for version, ok := range map[string]bool{"3.51.3": true, "3.54.1": true, "4.0.0": true, "3.51.2": false, "3.7.0": false, "x": false} {
		if err := sqlite.CheckSQLite(version); (err == nil) != ok {
			t.Errorf("SQLite %s: %v", version, err)
		}
	}
}
