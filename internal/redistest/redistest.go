// Package redistest runs private Redis servers for tests.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// requiredEnv makes a missing server an error rather than a skipped test.
	requiredEnv = "JUSTONCE_COUNTERPARTS"
	// serverEnv and valkeyEnv name the programs of the servers.
	serverEnv = "JUSTONCE_REDIS_SERVER"
	valkeyEnv = "JUSTONCE_VALKEY_SERVER"
)

// safe are the settings under which a server forgets nothing.
var safe = []string{"appendonly=yes", "appendfsync=always", "save=", "maxmemory=0"}

// A Server is a Redis server in a folder of its own, reached through a unix
// socket there and at a port of the loopback interface.
type Server struct {
	Dir      string
	Port     int
	program  string
	settings []string
	cmd      *exec.Cmd
}

func redisProgram() string { return program(serverEnv, "redis-server", "valkey-server") }

func valkeyProgram() string { return program(valkeyEnv, "valkey-server") }

// program returns the path of the first that is there, or "".
func program(env string, names ...string) string {
	if path := os.Getenv(env); path != "" {
		return path
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Skip skips the test where there can be no server, and fails where there must
// be one.
func Skip(tb testing.TB) {
	tb.Helper()
	switch {
	case redisProgram() != "":
	case os.Getenv(requiredEnv) == "required":
		tb.Fatal("Redis is not installed although counterparts are required")
	default:
		tb.Skip("Redis is not installed")
	}
}

// SkipValkey skips the test where there can be no Valkey. It is no counterpart
// that is required: what speaks to it has been tested with Redis.
func SkipValkey(tb testing.TB) {
	tb.Helper()
	if valkeyProgram() == "" {
		tb.Skip("Valkey is not installed")
	}
}

// Start starts a server in a new folder that forgets nothing, but for what
// settings such as "appendfsync=everysec" say. Stop ends it.
func Start(settings ...string) (*Server, error) {
	return start("Redis", redisProgram(), settings)
}

// StartValkey is Start with a Valkey.
func StartValkey(settings ...string) (*Server, error) {
	return start("Valkey", valkeyProgram(), settings)
}

func start(name, program string, settings []string) (_ *Server, err error) {
	if program == "" {
		return nil, fmt.Errorf("redistest: %s is not installed", name)
	}
	dir, err := os.MkdirTemp(os.Getenv("JUSTONCE_BENCH_DIR"), "justonce-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, program: program, settings: settings}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if s.Port, err = freePort(); err != nil {
		return nil, err
	}
	return s, s.run()
}

// run starts the server and waits until it serves.
func (s *Server) run() error {
	args := []string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir, "--unixsocket", s.socket(),
		"--logfile", filepath.Join(s.Dir, "log"), "--daemonize", "no"}
	for _, setting := range append(append([]string{}, safe...), s.settings...) {
		name, value, _ := strings.Cut(setting, "=")
		args = append(args, "--"+name, value)
	}
	s.cmd = exec.Command(s.program, args...)
	s.cmd.Dir = s.Dir
	if err := s.cmd.Start(); err != nil {
		return err
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		if s.serves() {
			return nil
		}
		if time.Now().After(deadline) {
			s.Kill()
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			return fmt.Errorf("redistest: the server does not serve\n%s", log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// serves reports whether the server has read its file.
func (s *Server) serves() bool {
	c, err := net.Dial("unix", s.socket())
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	b := make([]byte, 100)
	n, _ := c.Read(b)
	return n > 0 && !bytes.Contains(b[:n], []byte("LOADING"))
}

// Kill ends the server as a crash does. Start it again with Restart.
func (s *Server) Kill() error {
	err := s.cmd.Process.Kill()
	s.cmd.Wait()
	return err
}

// Restart starts the server again on what it has on disk.
func (s *Server) Restart() error { return s.run() }

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	err := s.Kill()
	// What it has forked to rewrite its file may outlive it for a moment.
	for range 100 {
		if os.RemoveAll(s.Dir) == nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

func (s *Server) socket() string { return filepath.Join(s.Dir, "socket") }

// URL names the server by its socket, with parameters added.
func (s *Server) URL(params ...string) string {
	return "unix://" + s.socket() + "?" + strings.Join(params, "&")
}

// TCP names the server by its port, with parameters added.
func (s *Server) TCP(params ...string) string {
	return fmt.Sprintf("redis://127.0.0.1:%d?%s", s.Port, strings.Join(params, "&"))
}

// Do runs one command through redis-cli and returns what that prints.
func (s *Server) Do(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cli := strings.Replace(filepath.Base(s.program), "-server", "-cli", 1)
	if path := filepath.Join(filepath.Dir(s.program), cli); fileExists(path) {
		cli = path
	}
	out, err := exec.CommandContext(ctx, cli, append([]string{"-s", s.socket(), "-e"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("redistest: %v: %w\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
