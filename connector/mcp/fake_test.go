package mcpconn_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	mcpconn "github.com/justonce-dev/justonce/connector/mcp"
)

// The test binary is the child process of its own tests: these variables say
// what it does, and where it reports to.
const (
	fakeMode    = "JUSTONCE_FAKE_MODE"
	fakeControl = "JUSTONCE_FAKE_CONTROL"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMode); mode != "" {
		os.Exit(fake(mode))
	}
	os.Exit(m.Run())
}

// control is a child's line to its test: open for as long as the child lives.
type control struct {
	net.Conn
	lines *bufio.Scanner
	pid   int // of the child, at its test's end
}

func dialControl() *control {
	c, err := net.Dial("tcp", os.Getenv(fakeControl))
	if err != nil {
		panic(err)
	}
	s := &control{Conn: c, lines: bufio.NewScanner(c)}
	s.say("%d", os.Getpid())
	return s
}

func (c *control) say(format string, a ...any) { _, _ = fmt.Fprintf(c, format+"\n", a...) }

func (c *control) hear() string {
	c.lines.Scan()
	return c.lines.Text()
}

func fake(mode string) int {
	in := bufio.NewReader(os.Stdin)
	switch mode {
	case "echo":
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return 0
			}
			fmt.Print(line)
		}
	case "exit 3":
		return 3
	case "half":
		fmt.Print("{\"n\":1}\n{\"n\":2")
	case "chatty":
		fmt.Print("Starting up...\n\n{\"n\":1}\n{broken}\n" + strings.Repeat("x", 2000) + "\n{\"n\":2}\n")
	case "flood":
		for range 2000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("e", 10_000))
		}
		fmt.Println(`{"n":1}`)
	case "stubborn", "deaf", "sips", "polite":
		if mode == "polite" {
			_, _ = in.ReadString('\n')
			return 0
		}
		term := make(chan os.Signal, 1)
		if mode == "stubborn" {
			signal.Notify(term, syscall.SIGTERM)
		}
		c := dialControl()
		go func() {
			for range term {
				c.say("asked to end")
			}
		}()
		if mode == "sips" {
			_, _ = in.ReadByte()
			c.say("sip")
		}
		c.hear() // for ever
	case "leaves one behind", "leaves one on stderr":
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), fakeMode+"=stubborn")
		if c.Stderr = os.Stderr; mode == "leaves one behind" {
			c.Stdout, c.Stderr = os.Stdout, nil
		}
		if err := c.Start(); err != nil {
			panic(err)
		}
		_, _ = in.ReadString('\n') // until told
	case "parent":
		_, err := mcpconn.Start(&mcpconn.ProcessOptions{Command: os.Args[:1], Env: []string{fakeMode + "=stubborn"}})
		if err != nil {
			panic(err)
		}
		select {}
	case "mcp", "modern", "mute":
		return fakeServer(mode, in)
	}
	return 0
}

// controlled returns the environment of a child, and its control once it calls.
func controlled(t *testing.T, mode string) (env []string, accept func() *control) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return []string{fakeMode + "=" + mode, fakeControl + "=" + l.Addr().String()}, func() *control {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s := &control{Conn: c, lines: bufio.NewScanner(c)}
		if s.pid, err = strconv.Atoi(s.hear()); err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
