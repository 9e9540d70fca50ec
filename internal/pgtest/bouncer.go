package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SkipBouncer is Skip for tests that need PgBouncer too.
func SkipBouncer(tb testing.TB) {
	tb.Helper()
	Skip(tb)
	switch {
	case bouncer() != "":
	case os.Getenv(requiredEnv) == "required":
		tb.Fatal("PgBouncer is not installed although counterparts are required")
	default:
		tb.Skip("PgBouncer is not installed")
	}
}

func bouncer() string {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path
	}
	if _, err := os.Stat("/usr/sbin/pgbouncer"); err == nil {
		return "/usr/sbin/pgbouncer"
	}
	return ""
}

// Bounce starts a PgBouncer in transaction mode in front of the server, with
// size server connections, and returns the connection string of a database
// through it. It ends with the test.
func (s *Server) Bounce(tb testing.TB, database string, size int) string {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	conf := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
`, s.Dir, s.Port, port, size)
	conf = strings.Replace(conf, "* = host", "postgres = user=ann host", 1)
	path := filepath.Join(s.Dir, fmt.Sprintf("bouncer-%d.ini", port))
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		tb.Fatal(err)
	}
	cmd := s.Program(bouncer(), "-q", path)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if tb.Failed() {
			tb.Logf("pgbouncer wrote:\n%s", out.String())
		}
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			tb.Fatalf("PgBouncer does not serve: %v", err)
		}
	}
	v := url.Values{"pgbouncer": {"true"}, "sslmode": {"disable"}}
	return fmt.Sprintf("postgres://ann@%s/%s?%s", address, database, v.Encode())
}
