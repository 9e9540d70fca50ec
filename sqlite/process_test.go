package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const childEnv = "JUSTONCE_SQLITE_TEST_CHILD"

// The test binary runs again as a child process that works on a ledger.
func TestMain(m *testing.M) {
	switch role, path, _ := strings.Cut(os.Getenv(childEnv), "="); role {
	case "":
		os.Exit(m.Run())
	case "same-keys":
		childSameKeys(path)
	case "load":
		childLoad(path)
	case "orders":
		childOrders(path)
	case "inside":
		childInside(path)
	}
}

func child(t *testing.T, role, path string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role+"="+path)
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

func childOpen(path string) *sqlite.Store {
	s, err := sqlite.Open(context.Background(), path, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	return s
}

const sameKeys = 400

// childSameKeys waits for a line on its input and then begins the same keys
// as others do, telling which were fresh.
func childSameKeys(path string) {
	s := childOpen(path)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := c; i < sameKeys; i += 8 {
				op := benchOp(fmt.Sprint("k", i), s.Now())
				a, err := s.Begin(context.Background(), op, justonce.Entry{Kind: justonce.EntryArrived, Body: op.Arguments})
				mu.Lock()
				switch {
				case err != nil:
					fmt.Println("error", err)
				case a.Fresh:
					fmt.Println("fresh", op.Key)
				default:
					fmt.Println("met", op.Key)
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
	path := filepath.Join(t.TempDir(), "ledger.db")
	const processes = 3
	var ins []io.WriteCloser
	var outs []*bufio.Scanner
	for range processes {
		_, in, out := child(t, "same-keys", path)
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
	wantIntegrity(t, path)
}

// childLoad makes first calls and tells after each commit, until it is killed.
func childLoad(path string) {
	s := childOpen(path)
	var mu sync.Mutex
	for c := range 16 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprint(os.Getpid(), "-", c, "-", i)
				op := benchOp(key, s.Now())
				if _, err := s.Begin(context.Background(), op, justonce.Entry{Kind: justonce.EntryArrived, Body: op.Arguments}); err != nil {
					fmt.Println("error", err)
					return
				}
				mu.Lock()
				fmt.Println("begun", key)
				mu.Unlock()
				op.Status = justonce.Status{State: justonce.Succeeded}
				if err := s.Update(context.Background(), op, justonce.Entry{Kind: justonce.EntryAttempt, Body: benchResult, IsResult: true}); err != nil {
					fmt.Println("error", err)
					return
				}
				mu.Lock()
				fmt.Println("ended", key)
				mu.Unlock()
			}
		}()
	}
	select {}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	begun, ended := map[string]bool{}, map[string]bool{}
	for range 3 {
		cmd, _, out := child(t, "load", path)
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
		wantIntegrity(t, path)
		s := open(t, path, nil)
		for key := range begun {
			op, err := s.Get(t.Context(), justonce.Ref{Key: key})
			switch {
			case err != nil:
				t.Fatalf("%s was acknowledged: %v", key, err)
			case ended[key] && (op.State != justonce.Succeeded || string(op.Result) != string(benchResult)):
				t.Fatalf("the end of %s was acknowledged; it is %s with result %q", key, op.State, op.Result)
			}
		}
		s.Close()
	}
}

// wantIntegrity checks the file and that ids have no gaps.
func wantIntegrity(t *testing.T, path string) {
	t.Helper()
	conn, err := zs.OpenConn(path, zs.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for query, want := range map[string]string{
		"PRAGMA integrity_check":                                 "ok",
		"SELECT count(*) = max(id) FROM op":                      "1",
		"SELECT count(*) >= (SELECT count(*) FROM op) FROM slot": "1",
		"SELECT count(*) FROM op LEFT JOIN entry ON entry.id = op.last WHERE op.last <> 0 AND entry.op IS NOT op.id": "0",
	} {
		err := sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{ResultFunc: func(stmt *zs.Stmt) error {
			if got := stmt.ColumnText(0); got != want {
				t.Errorf("%s = %q, want %q", query, got, want)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
}
