package postgres_test

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
	"github.com/justonce-dev/justonce/postgres"
)

const childEnv = "JUSTONCE_POSTGRES_TEST_CHILD"

// The test binary runs again as a child process that works on a ledger.
func TestMain(m *testing.M) {
	role, rest, _ := strings.Cut(os.Getenv(childEnv), " ")
	schema, dsn, _ := strings.Cut(rest, " ")
	switch role {
	case "":
		skipExamples()
		code := m.Run()
		stopServer()
		stopBenchServer()
		os.Exit(code)
	case "same-keys":
		childSameKeys(dsn, schema)
	case "load":
		childLoad(dsn, schema)
	}
}

func child(t *testing.T, role, schema string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", childEnv, role, schema, server(t).URL("postgres")))
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

func childOpen(dsn, schema string) *postgres.Store {
	s, err := postgres.Open(context.Background(), dsn, &postgres.Options{Schema: schema})
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
func childSameKeys(dsn, schema string) {
	s := childOpen(dsn, schema)
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
	s := openNew(t, postgres.Options{})
	const processes = 3
	var ins []io.WriteCloser
	var outs []*bufio.Scanner
	for range processes {
		_, in, out := child(t, "same-keys", s.Schema())
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
func childLoad(dsn, schema string) {
	s := childOpen(dsn, schema)
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
	s := openNew(t, postgres.Options{})
	begun, ended := map[string]bool{}, map[string]bool{}
	for range 3 {
		cmd, _, out := child(t, "load", s.Schema())
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
func wantAcknowledged(t *testing.T, s *postgres.Store, begun, ended map[string]bool) {
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

// wantIntegrity checks that the tables agree with each other.
func wantIntegrity(t *testing.T, s *postgres.Store) {
	t.Helper()
	conn := connect(t)
	if _, err := conn.Exec(t.Context(), `SET search_path = "`+s.Schema()+`"`); err != nil {
		t.Fatal(err)
	}
	for what, query := range map[string]string{
		"more or fewer operations than are counted":     `SELECT (SELECT count(*) FROM op) - (SELECT coalesce(sum(n), 0) FROM tally)`,
		"operations without their row in watch":         `SELECT count(*) FROM op LEFT JOIN watch ON watch.due = op.watch AND watch.id = op.id WHERE op.watch IS NOT NULL AND (watch.hash, watch.state, watch.lease) IS DISTINCT FROM (op.hash, op.state, op.lease)`,
		"operations neither in watch nor in a batch":    `SELECT count(*) FROM op WHERE state <> 6 AND watch IS NULL AND NOT (state = 3 AND EXISTS (SELECT FROM batch WHERE op.hash = ANY(hashes) AND due <= greatest(op.lease, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + 2000000000)))`,
		"rows in watch without an operation":            `SELECT count(*) FROM watch LEFT JOIN op ON op.hash = watch.hash AND op.id = watch.id AND op.watch = watch.due WHERE op.id IS NULL`,
		"operations with a place in watch that is over": `SELECT count(*) FROM op WHERE state = 6 AND watch IS NOT NULL`,
	} {
		var n int
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d %s, %v", n, what, err)
		}
	}
}
