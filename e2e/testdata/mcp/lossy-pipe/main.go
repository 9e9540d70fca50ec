// Command lossy-pipe stands in front of an MCP server on stdio and, told to,
// loses the answer to a call of a tool (the work is done, then the server is
// killed and the pipe ends) or kills the server at once.
//
//	lossy-pipe -dir DIR [-grace TIME] -- COMMAND ARGS...
//
// DIR/lose, when it exists, is removed with the next answer to a tools/call,
// which is the one that gets lost. DIR/control-PID holds an address: whoever
// connects to it kills the server, and once nobody listens there the server is
// gone. When the input has ended, the server has the grace to end too, then it is
// killed.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func main() {
	dir := flag.String("dir", "", "`folder` of pid and lose (required)")
	grace := flag.Duration("grace", time.Second, "how long the server may stay when the input has ended")
	flag.Parse()
	if *dir == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "lossy-pipe: give -dir DIR -- COMMAND ARGS...")
		os.Exit(2)
	}
	// Death by SIGPIPE would leave the server behind.
	signal.Ignore(syscall.SIGPIPE)
	if err := run(*dir, *grace, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "lossy-pipe:", err)
		os.Exit(1)
	}
}

func run(dir string, grace time.Duration, args []string) error {
	// The server is to die with the thread that starts it.
	runtime.LockOSThread()
	server := exec.Command(args[0], args[1:]...)
	server.Stderr = os.Stderr
	server.SysProcAttr = dieWithParent()
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	if err := control(filepath.Join(dir, fmt.Sprintf("control-%d", os.Getpid())), server.Process); err != nil {
		return err
	}
	var mu sync.Mutex
	calls := map[string]bool{} // ids of calls that wait for their answer
	go func() {
		lines(os.Stdin, func(line []byte) error {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if json.Unmarshal(line, &m) == nil && m.Method == "tools/call" {
				mu.Lock()
				calls[string(m.ID)] = true
				mu.Unlock()
			}
			_, err := in.Write(line)
			return err
		})
		in.Close()
		// Some servers stay when their input ends.
		time.AfterFunc(grace, func() { server.Process.Kill() })
	}()
	err = lines(out, func(line []byte) error {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(line, &m) == nil && m.Method == "" {
			mu.Lock()
			call := calls[string(m.ID)]
			delete(calls, string(m.ID))
			mu.Unlock()
			if call && os.Remove(filepath.Join(dir, "lose")) == nil {
				server.Process.Kill()
				return errLost
			}
		}
		_, err := os.Stdout.Write(line)
		return err
	})
	if wait := server.Wait(); err == nil {
		err = wait
	}
	return err
}

var errLost = errors.New("answer lost")

// control lets anybody kill the server who connects to the address in file.
func control(file string, server *os.Process) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			server.Kill()
			c.Close()
		}
	}()
	// Renamed into place, so that a reader never sees half an address.
	if err := os.WriteFile(file+".new", []byte(ln.Addr().String()), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// lines hands over each line with its end until r ends or f fails.
func lines(r io.Reader, f func([]byte) error) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := f(line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
