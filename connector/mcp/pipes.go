package mcpconn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// pipes are the two ends of what joins a child to this process.
type pipes struct {
	stdin, stdout, stderr          *os.File // ours
	childIn, childOut, childStderr *os.File
}

func (s *pipes) childs() { closeAll(s.childIn, s.childOut, s.childStderr) }
func (s *pipes) ours()   { closeAll(s.stdin, s.stdout, s.stderr) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// pipe joins the child's standard streams to p. They are files, so that
// exec.Cmd copies nothing and waits for the child alone.
func (p *Process) pipe(stderr io.Writer) (*pipes, error) {
	var s pipes
	var err [3]error
	s.childIn, s.stdin, err[0] = os.Pipe()
	s.stdout, s.childOut, err[1] = os.Pipe()
	if stderr != nil {
		s.stderr, s.childStderr, err[2] = os.Pipe()
	}
	if e := errors.Join(err[:]...); e != nil {
		s.ours()
		s.childs()
		return nil, e
	}
	p.cmd.Stdin, p.cmd.Stdout = s.childIn, s.childOut
	p.stdout = s.stdout
	if stderr != nil {
		p.cmd.Stderr = s.childStderr
		p.stderr = newStderrPump(s.stderr, stderr)
	}
	return &s, nil
}

// stderrLimit is how much of a child's standard error waits to be passed on.
const stderrLimit = 64 << 10

// A stderrPump passes a child's standard error on. It always reads, so that the
// child never waits, and drops what the writer is too slow for.
type stderrPump struct {
	from *os.File
	wg   sync.WaitGroup

	mu      sync.Mutex
	more    *sync.Cond
	buf     []byte
	dropped int
	ended   bool
}

func newStderrPump(from *os.File, to io.Writer) *stderrPump {
	s := &stderrPump{from: from}
	s.more = sync.NewCond(&s.mu)
	s.wg.Go(s.read)
	s.wg.Go(func() { s.write(to) })
	return s
}

// stop ends the pump after what the child has written so far.
func (s *stderrPump) stop() {
	_ = s.from.SetReadDeadline(time.Now().Add(grace / 20)) // somebody else may hold the other end
	s.wg.Wait()
	_ = s.from.Close()
}

func (s *stderrPump) read() {
	part := make([]byte, 16<<10)
	for {
		n, err := s.from.Read(part)
		s.mu.Lock()
		switch {
		case s.dropped == 0 && len(s.buf)+n <= stderrLimit:
			s.buf = append(s.buf, part[:n]...)
		default:
			s.dropped += n // until the writer has caught up
		}
		s.ended = err != nil
		s.more.Signal()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *stderrPump) write(to io.Writer) {
	for {
		s.mu.Lock()
		for len(s.buf) == 0 && !s.ended {
			s.more.Wait()
		}
		b, dropped, ended := s.buf, s.dropped, s.ended
		s.buf, s.dropped = nil, 0
		s.mu.Unlock()
		if dropped > 0 {
			if !bytes.HasSuffix(b, []byte("\n")) {
				b = append(b, '\n')
			}
			b = fmt.Appendf(b, "[%d bytes dropped: too much, too fast]\n", dropped)
		}
		if len(b) > 0 {
			_, _ = to.Write(b) // there is nowhere to tell
		}
		if ended && len(b) == 0 {
			return
		}
	}
}

// childOutput reads a child's standard output to its end. After the child's own
// end, somebody of its process group may still hold the other end.
type childOutput struct {
	p     *Process
	stage int
}

// Read implements [io.Reader]. There is a deadline, which is over, only once
// the child has ended; what is there is read all the same.
func (c *childOutput) Read(b []byte) (int, error) {
	for {
		n, err := c.p.stdout.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		switch c.stage++; c.stage {
		case 1:
		case 2:
			killGroup(c.p.cmd.Process)
		default:
			return 0, io.EOF
		}
		_ = c.p.stdout.SetReadDeadline(time.Now().Add(grace))
	}
}
