//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Synchronous returns the settings of a server whose commits wait for a standby,
// also while there is none. It names them, since '*' counts a base backup that is
// being taken as one.
func Synchronous() []string {
	return []string{
		"synchronous_standby_names=FIRST 1 (walreceiver)",
		"wal_keep_size=512MB", // until a new standby has connected
		"wal_retrieve_retry_interval=50ms",
		"dynamic_shared_memory_type=mmap", // goes with the folder
	}
}

// Standby starts a standby that follows s, in a folder and at a port of its own.
// Stop ends it.
func (s *Server) Standby() (_ *Server, err error) {
	standby, err := newServer()
	if err != nil {
		return nil, err
	}
	if err := standby.Follow(s); err != nil {
		return nil, errors.Join(err, os.RemoveAll(standby.Dir))
	}
	return standby, nil
}

// Follow makes s, which does not run, a new standby of primary. What data it had
// is gone.
func (s *Server) Follow(primary *Server) error {
	if err := os.RemoveAll(s.data); err != nil {
		return err
	}
	if err := s.run("pg_basebackup", "-D", s.data, "-h", primary.Dir, "-p", strconv.Itoa(primary.Port), "-U", "ann", "-R", "-c", "fast", "--no-sync"); err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return err
	}
	if err := s.start(); err != nil {
		return err
	}
	s.down = false
	return nil
}

// AwaitSync returns once a standby has whatever s has acknowledged, and what s
// acknowledges from then on.
func (s *Server) AwaitSync() error {
	written, err := s.Query("postgres", "SELECT pg_current_wal_flush_lsn()")
	if err != nil {
		return err
	}
	const inStep = `SELECT coalesce(bool_or(state = 'streaming' AND sync_state = 'sync' AND flush_lsn >= '%s'), false) FROM pg_stat_replication`
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		switch yes, err := s.Query("postgres", fmt.Sprintf(inStep, written)); {
		case err != nil:
			return err
		case yes == "t":
			return nil
		case time.Now().After(deadline):
			return errors.New("pgtest: no standby is in step within a minute")
		}
	}
}

// Promote makes a standby a primary.
func (s *Server) Promote() error { return s.control("promote") }

// Kill ends all processes of the server by SIGKILL, as the loss of its machine
// does: none of them answers any more once it returns. Follow starts it again.
// Where its processes cannot be listed it goes on.
func (s *Server) Kill() error {
	postmaster, segment, err := s.lockFile()
	if err != nil {
		return err
	}
	// A stopped one starts no others.
	if err := syscall.Kill(postmaster, syscall.SIGSTOP); err != nil {
		return err
	}
	parents, err := processes()
	if err != nil {
		return errors.Join(err, syscall.Kill(postmaster, syscall.SIGCONT))
	}
	var all []int
	for pid, parent := range parents {
		if parent == postmaster {
			all = append(all, pid)
		}
	}
	// The postmaster last: without it those that live give up waiting for a standby,
	// and show others what they have committed.
	all = append(all, postmaster)
	for _, pid := range all {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.down = true
	if err := ended(all); err != nil {
		return err
	}
	// What it cannot remove itself any more, and would be in the way.
	if out, err := exec.Command("ipcrm", "-m", segment).CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: ipcrm: %w\n%s", err, out)
	}
	socket := filepath.Join(s.Dir, fmt.Sprintf(".s.PGSQL.%d", s.Port))
	return errors.Join(os.Remove(socket), os.Remove(socket+".lock"))
}

// lockFile returns the server's first process and its segment of shared memory.
func (s *Server) lockFile() (postmaster int, segment string, err error) {
	b, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return 0, "", err
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return 0, "", fmt.Errorf("pgtest: postmaster.pid has %d lines", len(lines))
	}
	if _, err := fmt.Sscan(lines[6], new(string), &segment); err != nil {
		return 0, "", fmt.Errorf("pgtest: shared memory in postmaster.pid: %w", err)
	}
	postmaster, err = strconv.Atoi(lines[0])
	return postmaster, segment, err
}

// ended waits until none of the processes runs.
func ended(pids []int) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		running, err := processes()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(pids, func(pid int) bool { _, ok := running[pid]; return ok }) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("pgtest: processes outlive SIGKILL by a minute")
		}
	}
}

// processes returns the parent of each process that is no zombie.
func processes() (map[int]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "state=").Output()
	if err != nil {
		return nil, fmt.Errorf("pgtest: ps: %w", err)
	}
	parents := map[int]int{}
	for line := range strings.Lines(string(out)) {
		var pid, parent int
		var state string
		if _, err := fmt.Sscan(line, &pid, &parent, &state); err != nil {
			return nil, fmt.Errorf("pgtest: ps: %w in %q", err, line)
		}
		if !strings.HasPrefix(state, "Z") {
			parents[pid] = parent
		}
	}
	return parents, nil
}
