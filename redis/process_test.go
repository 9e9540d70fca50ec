package redis_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/redis"
)

const childEnv = "JUSTONCE_REDIS_TEST_CHILD"

// The test binary runs again as a child process that works on a ledger.
func TestMain(m *testing.M) {
	role, rest, _ := strings.Cut(os.Getenv(childEnv), " ")
	prefix, url, _ := strings.Cut(rest, " ")
	switch role {
	case "":
		code := m.Run()
		stopServer()
		stopBenchServer()
		os.Exit(code)
	case "same-keys":
		childSameKeys(url, prefix)
	case "load":
		childLoad(url, prefix)
	}
}

func child(t *testing.T, role, prefix string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", childEnv, role, prefix, server(t).URL()))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, in, bufio.NewScanner(out)
}

func childOpen(url, prefix string) *redis.Store {
	s, err := redis.Open(context.Background(), url, &redis.Options{Prefix: prefix})
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	return s
}

const sameKeys = 400

// childSameKeys waits for a line on its input and then begins the same keys,
// or other keys with the same identities, as others do, telling which were
// fresh.
func childSameKeys(url, prefix string) {
	s := childOpen(url, prefix)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := c; i < sameKeys; i += 8 {
				name := fmt.Sprint("k", i)
				op := benchOp(name, s.Now())
				if i%2 == 0 {
					op.Identity = "identity of " + name
					op.Key = fmt.Sprint(name, " of ", os.Getpid())
				}
				a, err := s.Begin(context.Background(), op, arrived(op))
				mu.Lock()
				switch {
				case err != nil:
					fmt.Println("error", err)
				case a.Fresh:
					fmt.Println("fresh", name)
				default:
					fmt.Println("met", name)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		fmt.Println("error", err)
	}
}

func TestProcessesBeginTheSame(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	const processes = 3
	var ins []io.WriteCloser
	var outs []*bufio.Scanner
	for range processes {
		_, in, out := child(t, "same-keys", s.Prefix())
		ins, outs = append(ins, in), append(outs, out)
		if !out.Scan() || out.Text() != "ready" {
			t.Fatalf("child says %q", out.Text())
		}
	}
	for _, in := range ins {
		io.WriteString(in, "go\n")
	}
	fresh, answers := map[string]int{}, 0
	for _, out := range outs {
		for out.Scan() {
			what, key, _ := strings.Cut(out.Text(), " ")
			switch answers++; what {
			case "fresh":
				fresh[key]++
			case "error":
				t.Errorf("child: %s", key)
			}
		}
	}
	if answers != processes*sameKeys || len(fresh) != sameKeys {
		t.Errorf("%d answers and %d keys that were fresh, want %d and %d", answers, len(fresh), processes*sameKeys, sameKeys)
	}
	for key, n := range fresh {
		if n != 1 {
			t.Errorf("%s was fresh %d times", key, n)
		}
	}
	wantIntegrity(t, s)
}

// childLoad makes first calls and tells after each commit, until it is killed.
func childLoad(url, prefix string) {
	s := childOpen(url, prefix)
	var mu sync.Mutex
	tell := func(what, key string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, key)
	}
	for c := range 16 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprint(os.Getpid(), "-", c, "-", i)
				op := benchOp(key, s.Now())
				if _, err := s.Begin(context.Background(), op, arrived(op)); err != nil {
					tell("error", err.Error())
					return
				}
				tell("begun", key)
				e := end(op, s.Now())
				if err := s.Update(context.Background(), op, e); err != nil {
					tell("error", err.Error())
					return
				}
				tell("ended", key)
			}
		}()
	}
	select {}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	begun, ended := map[string]bool{}, map[string]bool{}
	for range 3 {
		cmd, _, out := child(t, "load", s.Prefix())
		for n := 0; out.Scan(); n++ {
			switch what, key, _ := strings.Cut(out.Text(), " "); what {
			case "begun":
				begun[key] = true
			case "ended":
				ended[key] = true
			default:
				t.Fatalf("child: %s", out.Text())
			}
			if n == 3000 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait()
		if len(ended) == 0 {
			t.Fatal("nothing was acknowledged")
		}
		wantAcknowledged(t, s, begun, ended)
		wantIntegrity(t, s)
	}
}

// wantAcknowledged checks that what a process was told is recorded.
func wantAcknowledged(t *testing.T, s *redis.Store, begun, ended map[string]bool) {
	t.Helper()
	for key := range begun {
		op, err := s.Get(t.Context(), justonce.Ref{Key: key})
		switch {
		case err != nil:
			t.Fatalf("%s was acknowledged: %v", key, err)
		case ended[key] && (op.State != justonce.Succeeded || string(op.Result) != string(benchResult)):
			t.Fatalf("the end of %s was acknowledged; it is %s with result %q", key, op.State, op.Result)
		}
	}
}
