package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/internal/redistest"
)

// dirEnv names the folder below which all servers and contestants keep their
// files. Defaults to the system's for temporary files.
const dirEnv = "JUSTONCE_BENCH_DIR"

// restateEnv names Restate's server program.
const restateEnv = "JUSTONCE_RESTATE_SERVER"

// A server is one that a contestant needs.
type server struct {
	version string
	pids    []int
	offer   func(p *place) error // says where it is, with something fresh there
	settle  func(p *place) error // leaves it no work of the past; nil: nothing to do
	clear   func(p *place) error // removes what was fresh; nil: nothing to do
	stop    func() error
}

// servers starts servers. PostgreSQL and Redis are kept until the end.
type servers struct {
	dir      string
	postgres *postgresServer
	redis    *server
}

func newServers() (*servers, error) {
	dir, err := os.MkdirTemp(os.Getenv(dirEnv), "justonce-peers-")
	if err != nil {
		return nil, err
	}
	return &servers{dir: dir}, nil
}

func (s *servers) close() (err error) {
	if s.postgres != nil {
		err = s.postgres.stop()
	}
	if s.redis != nil {
		err = errors.Join(err, s.redis.stop())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// get returns a server, and what to call when the turn is over.
func (s *servers) get(ctx context.Context, name string) (_ *server, release func() error, err error) {
	kept := func() error { return nil }
	switch name {
	case "postgres", "temporal":
		if s.postgres == nil {
			if s.postgres, err = startPostgres(); err != nil {
				return nil, nil, err
			}
		}
		if name == "postgres" {
			return &s.postgres.server, kept, nil
		}
		return own(startTemporal(ctx, s.dir, s.postgres))
	case "redis":
		if s.redis == nil {
			s.redis, err = startRedis()
		}
		return s.redis, kept, err
	case "restate":
		return own(startRestate(ctx, s.dir, 0))
	case "restate-2":
		return own(startRestate(ctx, s.dir, 2))
	}
	return nil, nil, fmt.Errorf("there is no server %q", name)
}

// own is for a server that ends with the turn.
func own(s *server, err error) (*server, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	return s, s.stop, nil
}

// A postgresServer serves also what Temporal keeps.
type postgresServer struct {
	*pgtest.Server
	server
}

// each runs statements in a database.
func (s *postgresServer) each(database string, statements ...string) error {
	for _, statement := range statements {
		if _, err := s.Query(database, statement); err != nil {
			return err
		}
	}
	return nil
}

// startPostgres starts one as durable as it is by default.
func startPostgres() (*postgresServer, error) {
	pg, err := pgtest.Start()
	if err != nil {
		return nil, err
	}
	version, err := pg.Query("postgres", "SHOW server_version")
	if err != nil {
		return nil, errors.Join(err, pg.Stop())
	}
	pid, err := os.ReadFile(filepath.Join(pg.Dir, "data", "postmaster.pid"))
	if err != nil {
		return nil, errors.Join(err, pg.Stop())
	}
	first, _, _ := strings.Cut(string(pid), "\n")
	postmaster, _ := strconv.Atoi(first)
	s := &postgresServer{Server: pg}
	const database = "peers"
	s.server = server{
		version: "PostgreSQL " + version,
		pids:    []int{postmaster},
		offer: func(p *place) error {
			p.Postgres = pg.URL(database)
			return s.each("postgres", "CREATE DATABASE "+database)
		},
		settle: func(*place) error { return s.each(database, "VACUUM ANALYZE", "CHECKPOINT") },
		clear:  func(*place) error { return s.each("postgres", "DROP DATABASE "+database+" WITH (FORCE)", "CHECKPOINT") },
		stop:   pg.Stop,
	}
	return s, nil
}

func startRedis() (*server, error) {
	r, err := redistest.Start()
	if err != nil {
		return nil, err
	}
	info, err := r.Do("INFO", "server")
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	pid, _ := strconv.Atoi(fields["process_id"])
	return &server{
		version: "Redis " + fields["redis_version"],
		pids:    []int{pid},
		offer: func(p *place) error {
			p.Redis = r.URL()
			return nil
		},
		clear: func(*place) error {
			_, err := r.Do("FLUSHALL", "SYNC")
			return err
		},
		stop: r.Stop,
	}, nil
}

// program returns the path in an environment variable, or of the first name
// that is installed.
func program(env string, names ...string) (string, error) {
	if path := os.Getenv(env); path != "" {
		return path, nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed; its path may be given in %s", names[0], env)
}

// startRestate starts one with so many partitions; 0 is its default.
func startRestate(ctx context.Context, dir string, partitions int) (*server, error) {
	path, err := program(restateEnv, "restate-server")
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, err
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "restate-server "), " ")
	var ports [3]string // node, admin, ingress
	for i := range ports {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		_, ports[i], _ = net.SplitHostPort(address)
	}
	base, err := os.MkdirTemp(dir, "restate-")
	if err != nil {
		return nil, err
	}
	env := []string{"RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=error", "RESTATE_LISTEN_MODE=tcp", "RESTATE_BIND_IP=127.0.0.1", "RESTATE_ADVERTISED_HOST=127.0.0.1",
		"RESTATE_BASE_DIR=" + base, "TMPDIR=" + base, "RESTATE_BIND_PORT=" + ports[0], "RESTATE_ADMIN__BIND_PORT=" + ports[1], "RESTATE_INGRESS__BIND_PORT=" + ports[2]}
	if partitions > 0 {
		env = append(env, fmt.Sprintf("RESTATE_DEFAULT_NUM_PARTITIONS=%d", partitions))
	}
	d, err := startDaemon(path, base, env, "--no-logo")
	if err != nil {
		return nil, err
	}
	admin, ingress := "http://127.0.0.1:"+ports[1], "http://127.0.0.1:"+ports[2]
	for _, url := range []string{admin + "/health", ingress + "/restate/health"} {
		if err := healthy(ctx, url); err != nil {
			return nil, errors.Join(err, d.stop())
		}
	}
	return &server{
		version: "Restate " + strings.TrimSpace(version),
		pids:    []int{d.cmd.Process.Pid},
		offer: func(p *place) error {
			p.Restate.Admin, p.Restate.Ingress = admin, ingress
			return nil
		},
		stop: d.stop,
	}, nil
}

// healthy waits until a URL answers 200.
func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(answer.Status)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", url, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A daemon is a server's process, with its files in a folder.
type daemon struct {
	cmd *exec.Cmd
	dir string
}

// startDaemon starts a program whose output goes to the file log in dir. It
// gets no interrupts: stop ends it and removes dir.
func startDaemon(path, dir string, env []string, args ...string) (*daemon, error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &daemon{cmd, dir}, nil
}

func (d *daemon) stop() error {
	err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
	d.cmd.Wait()
	return errors.Join(err, os.RemoveAll(d.dir))
}
