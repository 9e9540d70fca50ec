package mcpconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/justonce-dev/justonce/internal/jsonrpc"
)

// ProcessOptions say what [Start] starts.
type ProcessOptions struct {
	Command []string // program and arguments
	Env     []string // added to this process's environment
	Dir     string   // defaults to this process's
	// Stderr gets what the child writes there. Its Write must return; what the
	// child writes meanwhile is dropped beyond 64 KiB, and a line says so.
	// Defaults to nowhere.
	Stderr io.Writer
	// Limit bounds a message in either direction, and all that waits for the
	// child to read it, in bytes. Defaults to 64 MiB.
	Limit int
	// Handle gets each message of the child, from one goroutine, in order. The
	// slice is its own. While it does not return, no more is read.
	Handle func(line []byte)
	Logger *slog.Logger // defaults to discarding
}

// ErrNotSent is wrapped by the errors of [Process.Write]: of this message, no
// byte was or will be written.
var ErrNotSent = errors.New("nothing was sent")

// grace is how long a child may take to end at each step of [Process.Close].
const grace = 2 * time.Second

var past = time.Unix(1, 0)

// A Process is a child process that speaks one JSON message a line over its
// standard input and output, as MCP's stdio transport has it. It is safe for
// concurrent use.
//
// The child leads a process group of its own where there are such, which is told
// to end when it does; on Linux the child is killed should this process die
// first. A child that closes its standard input or output is of no use and is
// ended.
type Process struct {
	name   string
	log    *slog.Logger
	cmd    *exec.Cmd
	out    *outbox
	stdout *os.File
	stderr *stderrPump // nil: nowhere

	closing   chan struct{} // closed by Close
	closeOnce sync.Once
	exited    chan struct{} // the child was reaped
	silent    chan struct{} // all it said was handled
	done      chan struct{} // both, and nothing is left
	err       error         // how it ended; set before exited is closed
}

// Start starts a child process. The error has a hint for who wrote the command.
func Start(o *ProcessOptions) (*Process, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, errors.New("the command is empty: give the program that is the MCP server, and its arguments")
	}
	p := &Process{name: o.Command[0], log: o.Logger, closing: make(chan struct{}),
		exited: make(chan struct{}), silent: make(chan struct{}), done: make(chan struct{})}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	limit := o.Limit
	if limit == 0 {
		limit = jsonrpc.DefaultLimit
	}
	p.cmd = exec.Command(o.Command[0], o.Command[1:]...)
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.Dir = o.Dir
	ownGroup(p.cmd)
	pipes, err := p.pipe(o.Stderr)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	started := make(chan error)
	go p.run(started)
	err = <-started
	pipes.childs()
	if err != nil {
		pipes.ours()
		return nil, startError(p.name, o.Dir, err)
	}
	p.out = newOutbox(pipes.stdin, limit)
	go p.out.run()
	go p.read(jsonrpc.NewLineReader(&childOutput{p: p}, limit), o.Handle)
	go p.bury()
	return p, nil
}

// run starts the child and reaps it. What kills the child with its parent on
// Linux is tied to the parent's thread, which must therefore not end before.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = p.cmd.Wait()
	terminateGroup(p.cmd.Process) // what it left behind
	p.err = ended(p.name, err)
	close(p.exited)
}

// read handles what the child says, to its end.
func (p *Process) read(r *jsonrpc.LineReader, handle func([]byte)) {
	defer close(p.silent)
	skipped := 0
	for {
		line, err := r.Read()
		switch {
		case err == nil && json.Valid(line):
			if handle != nil {
				handle(line)
			}
			continue
		case err != nil && !errors.Is(err, jsonrpc.ErrTooLong):
			if skipped > 1 {
				p.log.Warn("more lines of the MCP server were no messages", "server", p.name, "lines", skipped)
			}
			return
		}
		if skipped++; skipped == 1 {
			why := "it is not JSON"
			if err != nil {
				why = err.Error()
			}
			p.log.Warn("skipped a line of the MCP server; it must write nothing but messages to standard output",
				"server", p.name, "why", why)
		}
	}
}

// bury sees to it that the child ends when it is told to, or is of no more use,
// and that nothing is left of it.
func (p *Process) bury() {
	select {
	case <-p.exited:
	case <-p.silent:
	case <-p.out.done:
	case <-p.closing:
	}
	p.out.finish()
	for _, kill := range []func(*os.Process){terminateGroup, killGroup} {
		select {
		case <-p.exited:
		case <-time.After(grace):
			kill(p.cmd.Process)
		}
	}
	<-p.exited
	p.out.stop()
	if p.stdout.SetReadDeadline(past) != nil { // wakes childOutput
		time.AfterFunc(grace, func() { _ = p.stdout.Close() })
	}
	<-p.silent
	_ = p.stdout.Close()
	<-p.out.done
	if p.stderr != nil {
		p.stderr.stop()
	}
	close(p.done)
}

// Done is closed when the child has ended and Handle has seen all that it said.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err tells how the child ended, for people; nil while it has not, and where it
// ended because of Close.
func (p *Process) Err() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	select {
	case <-p.closing:
		return nil
	default:
		return p.err
	}
}

// Close ends the child: it closes its standard input behind what waits there,
// asks the process group to end after 2 s, and kills it after another 2 s. It
// returns when the child was reaped and no goroutine is left; Handle must not
// call it.
func (p *Process) Close() {
	p.closeOnce.Do(func() { close(p.closing) })
	<-p.done
}

func startError(name, dir string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("cannot start %q: there is no such program in PATH: install it, or give its full path", name)
	case errors.Is(err, exec.ErrDot):
		return fmt.Errorf("cannot start %q: it lies in the current directory: write it as ./%s", name, name)
	case errors.Is(err, os.ErrNotExist) && dir != "":
		return fmt.Errorf("cannot start %q in %q: %w: check that both exist", name, dir, pathless(err))
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("cannot start %q: %w: check the path", name, pathless(err))
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("cannot start %q: %w: check that it is executable", name, pathless(err))
	}
	return fmt.Errorf("cannot start %q: %w", name, pathless(err))
}

func pathless(err error) error {
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// ended says in words how a process ended.
func ended(name string, err error) error {
	if err == nil {
		return fmt.Errorf("the MCP server %q ended", name)
	}
	return fmt.Errorf("the MCP server %q ended: %s", name, strings.TrimPrefix(err.Error(), "exec: "))
}
