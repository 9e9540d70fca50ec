package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Each contestant runs in processes of its own, so that none pays for
// another's memory or goroutines. They are told what to do, and answer, in
// lines of JSON.

// processEnv names the contestant that this process is for.
const processEnv = "JUSTONCE_PEERS_PROCESS"

// An opened line is a process's first answer.
type opened struct{ Error string }

// serve is the whole of such a process: it ends with its input.
func serve(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	var p place
	if err := requests.Decode(&p); err != nil {
		return err
	}
	c, err := open(ctx, name, &p)
	if err != nil {
		return answers.Encode(opened{err.Error()})
	}
	defer c.Close()
	if err := answers.Encode(opened{}); err != nil {
		return err
	}
	for {
		var l load
		switch err := requests.Decode(&l); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		if err := answers.Encode(run(ctx, &p, c, l)); err != nil {
			return err
		}
	}
}

func open(ctx context.Context, name string, p *place) (caller, error) {
	for _, c := range contestants() {
		if c.name == name {
			return c.open(ctx, p)
		}
	}
	return nil, fmt.Errorf("there is no contestant %q", name)
}

// A process is a contestant's, seen from the one that measures.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

// spawn starts this program again for a contestant and waits until it can make
// calls.
func spawn(ctx context.Context, name string, p *place) (_ *process, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), processEnv+"="+name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is ours to pass on
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &process{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}
	var o opened
	if err := s.ask(p, &o); err != nil {
		s.stop()
		return nil, err
	}
	if o.Error != "" {
		s.stop()
		return nil, fmt.Errorf("%s: %s", name, o.Error)
	}
	return s, nil
}

func (s *process) ask(question, answer any) error {
	if err := s.enc.Encode(question); err != nil {
		return err
	}
	return s.dec.Decode(answer)
}

// run makes the process do l. One that does not come to an end is killed, so
// that the others get their turn.
func (s *process) run(l load) (*tally, error) {
	patience := time.AfterFunc(l.For+2*callTimeout, func() { s.cmd.Process.Kill() })
	t := &tally{}
	err := s.ask(l, t)
	if !patience.Stop() && err != nil {
		err = fmt.Errorf("no end of %d calls after %v", l.Callers, l.For+2*callTimeout)
	}
	return t, err
}

// stop ends the process, which may close what it has opened.
func (s *process) stop() {
	s.in.Close()
	patience := time.AfterFunc(10*time.Second, func() { s.cmd.Process.Kill() })
	defer patience.Stop()
	s.cmd.Wait()
}
