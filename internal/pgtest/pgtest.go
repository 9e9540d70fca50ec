// Package pgtest runs private PostgreSQL servers for tests.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// requiredEnv makes a missing server an error rather than a skipped test.
const requiredEnv = "JUSTONCE_COUNTERPARTS"

// A Server is a PostgreSQL server in a folder of its own, reached through a
// unix socket there and at a port of the loopback interface.
type Server struct {
	Dir      string // with the sockets; readable by all
	Port     int
	programs string
	as       []string // in front of a command, to run it as another user
	data     string
	down     bool // since Kill
}

// Missing says why there can be no server here, or "".
func Missing() string {
	if programs() == "" {
		return "PostgreSQL is not installed"
	}
	return ""
}

// Skip skips the test where there can be no server, and fails where there must
// be one.
func Skip(tb testing.TB) {
	tb.Helper()
	switch why := Missing(); {
	case why == "":
	case os.Getenv(requiredEnv) == "required":
		tb.Fatal(why + " although counterparts are required")
	default:
		tb.Skip(why)
	}
}

// Start starts a server with settings such as "max_connections=200" in a new
// folder. Its durability is what the settings say: on, like PostgreSQL's, by
// default. Stop ends it.
func Start(settings ...string) (_ *Server, err error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(s.Dir)
		}
	}()
	if err := s.run("initdb", "-D", s.data, "-U", "ann", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return nil, err
	}
	if err := s.configure(append([]string{"listen_addresses=127.0.0.1", "max_connections=300", "log_min_messages=fatal"}, settings...)...); err != nil {
		return nil, err
	}
	return s, s.start()
}

// start leaves nothing running when it fails.
func (s *Server) start() error {
	err := s.control("start")
	if err == nil {
		return nil
	}
	if _, none := os.Stat(filepath.Join(s.data, "postmaster.pid")); none != nil {
		return err
	}
	return errors.Join(err, s.control("-m", "immediate", "stop"))
}

// newServer returns a server that has its folder and port, and nothing else.
func newServer() (_ *Server, err error) {
	if why := Missing(); why != "" {
		return nil, fmt.Errorf("pgtest: %s", why)
	}
	// Not a test's own folder, whose parent nobody else may enter.
	dir, err := os.MkdirTemp(os.Getenv("JUSTONCE_BENCH_DIR"), "justonce-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, programs: programs(), data: filepath.Join(dir, "data")}
	if s.as, err = unprivileged(dir); err == nil {
		s.Port, err = freePort()
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// configure adds where the server is, and settings, to those that it has.
func (s *Server) configure(settings ...string) error {
	conf := ""
	for _, setting := range append([]string{fmt.Sprintf("port=%d", s.Port), "unix_socket_directories=" + s.Dir}, settings...) {
		name, value, _ := strings.Cut(setting, "=")
		conf += fmt.Sprintf("%s = '%s'\n", name, value)
	}
	f, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(conf)
	return errors.Join(err, f.Close())
}

// Program returns a command that runs a program as the server's user.
func (s *Server) Program(name string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.programs, name)
	}
	args = append(append(slices.Clone(s.as), name), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.Dir
	return cmd
}

func (s *Server) run(name string, args ...string) error {
	out, err := s.Program(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgtest: %s: %w\n%s", name, err, out)
	}
	return nil
}

// control runs pg_ctl and waits until it is done. The server keeps none of its
// outputs open.
func (s *Server) control(args ...string) error {
	log := filepath.Join(s.Dir, "log")
	err := s.run("pg_ctl", append([]string{"-D", s.data, "-s", "-w", "-t", "60", "-l", log}, args...)...)
	if err != nil {
		wrote, _ := os.ReadFile(log)
		err = fmt.Errorf("%w\nThe server wrote:\n%s", err, wrote[max(0, len(wrote)-4<<10):])
	}
	return err
}

// Crash restarts the server as after a crash: nothing is written out, and all
// connections are lost.
func (s *Server) Crash() error { return s.control("-m", "immediate", "restart") }

// Restart restarts the server in good order. Connections are lost all the same.
func (s *Server) Restart() error { return s.control("-m", "fast", "restart") }

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	defer os.RemoveAll(s.Dir)
	if s.down {
		return nil
	}
	return s.control("-m", "immediate", "stop")
}

// URL returns the connection string of a database, with parameters added.
func (s *Server) URL(database string, params ...string) string {
	v := url.Values{"host": {s.Dir}, "port": {strconv.Itoa(s.Port)}, "user": {"ann"}}
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		v.Set(name, value)
	}
	return "postgres:///" + database + "?" + v.Encode()
}

// Query runs one statement through psql and returns its rows, a line each.
func (s *Server) Query(database, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.programs, "psql"), "-X", "-q", "-t", "-A", "-c", statement, s.URL(database))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pgtest: %s: %w\n%s", statement, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// programs returns the folder of the newest installation, or "".
func programs() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if n := len(found); n > 0 {
		return filepath.Dir(found[n-1])
	}
	path, err := exec.LookPath("initdb")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// unprivileged gives dir to another user if we are root, as whom PostgreSQL
// refuses to run, and returns what to put in front of a command.
func unprivileged(dir string) ([]string, error) {
	if err := os.Chmod(dir, 0o755); err != nil || os.Geteuid() != 0 {
		return nil, err
	}
	who, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	return []string{"setpriv", "--reuid", who.Uid, "--regid", who.Gid, "--clear-groups", "--"}, nil
}

// freePort returns a port that is still free when a server comes back to it: none
// that the system gives to outgoing connections.
func freePort() (int, error) {
	for try := 0; ; try++ {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		if try == 100 {
			return 0, err
		}
	}
}
