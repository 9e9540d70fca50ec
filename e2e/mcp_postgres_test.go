package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A postgres is a private PostgreSQL server that lasts as long as its test.
type postgres struct {
	url  string
	psql string
}

// startPostgres starts one, or skips where PostgreSQL is not installed. It
// forgets on a crash of the machine, not of a client.
func startPostgres(t testing.TB) *postgres {
	t.Helper()
	bin := postgresPrograms(t)
	// Not t.TempDir, whose parent nobody else may enter.
	dir, err := os.MkdirTemp("", "justonce-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := unprivileged(t, dir)
	data := filepath.Join(dir, "data")
	initdb := append(slices.Clone(as), filepath.Join(bin, "initdb"), "-D", data, "-U", "ann", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd := exec.Command(initdb[0], initdb[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	host, port, _ := net.SplitHostPort(address(t))
	p := &process{t: t, args: append(slices.Clone(as), filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-h", host, "-p", port, "-F")}
	p.run()
	t.Cleanup(func() {
		// Fast shutdown, which leaves no process and no shared memory behind.
		p.cmd.Process.Signal(syscall.SIGINT)
		p.cmd.Wait()
		if t.Failed() {
			t.Logf("postgres wrote:\n%s", p.tail())
		}
	})
	db := &postgres{url: "postgresql://ann@" + net.JoinHostPort(host, port) + "/postgres", psql: filepath.Join(bin, "psql")}
	await(t, 30*time.Second, "postgres to serve", func() bool {
		return exec.Command(filepath.Join(bin, "pg_isready"), "-q", "-h", host, "-p", port).Run() == nil
	})
	return db
}

// postgresPrograms returns the newest installation's folder of programs.
func postgresPrograms(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return postgresVersion(a) - postgresVersion(b) })
	if n := len(found); n > 0 {
		return filepath.Dir(found[n-1])
	}
	path, err := exec.LookPath("initdb")
	if err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	if os.Getenv("JUSTONCE_COUNTERPARTS") == "required" {
		t.Fatal("PostgreSQL is not installed although counterparts are required")
	}
	t.Skip("PostgreSQL is not installed")
	return ""
}

func postgresVersion(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// unprivileged gives dir to another user if we are root, as whom PostgreSQL
// refuses to run, and returns what to put in front of a command.
func unprivileged(t testing.TB, dir string) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return []string{"setpriv", "--reuid", who.Uid, "--regid", who.Gid, "--clear-groups", "--"}
}

// query runs one statement and returns its rows, a line each.
func (db *postgres) query(t testing.TB, statement string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, db.psql, "-X", "-q", "-t", "-A", "-c", statement, db.url).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", statement, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (db *postgres) number(t testing.TB, statement string) int {
	t.Helper()
	n, err := strconv.Atoi(db.query(t, statement))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
