//go:build unix

package pgtest_test

import (
	"strings"
	"testing"

	"github.com/justonce-dev/justonce/internal/pgtest"
)

// Two servers take turns as the primary; whatever was committed stays.
func TestStandby(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts and kills servers")
	}
	pgtest.Skip(t)
	primary, err := pgtest.Start(append(pgtest.Synchronous(), "fsync=off")...)
	if err != nil {
		t.Fatal(err)
	}
	stop := func(s *pgtest.Server) {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { stop(primary) })
	query := func(s *pgtest.Server, statement, want string) {
		t.Helper()
		if got, err := s.Query("postgres", statement); err != nil || got != want {
			t.Fatalf("%s: %q, %v, want %q", statement, got, err, want)
		}
	}
	standby, err := primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(standby) })
	if err := primary.AwaitSync(); err != nil {
		t.Fatal(err)
	}
	query(primary, "CREATE TABLE t (n int)", "")
	t.Run("a kill that fails leaves it running", func(t *testing.T) {
		t.Setenv("PATH", "")
		if err := primary.Kill(); err == nil {
			t.Fatal("killed, although its processes cannot be listed")
		}
		query(primary, "SELECT 1", "1")
	})
	for n := range 3 {
		query(primary, "INSERT INTO t VALUES (1)", "")
		if err := primary.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := primary.Query("postgres", "SELECT 1"); err == nil || !strings.Contains(err.Error(), "onnection") {
			t.Fatalf("a killed server: %v", err)
		}
		if err := standby.Promote(); err != nil {
			t.Fatal(err)
		}
		primary, standby = standby, primary
		query(primary, "SELECT count(*) = "+string('1'+rune(n))+" FROM t", "t")
		if err := standby.Follow(primary); err != nil {
			t.Fatal(err)
		}
		if err := primary.AwaitSync(); err != nil {
			t.Fatal(err)
		}
		query(standby, "SELECT pg_is_in_recovery()", "t")
	}
}
