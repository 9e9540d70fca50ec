package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	due := begin(t, s, "due")
	s.Exec(t, due.Ref, "PRAGMA max_page_count = 1") // no page more than there are
	var refused string
	var recorded []string
	for i := range 10_000 {
		key := fmt.Sprint("k", i)
		if _, err := tryBegin(t.Context(), s, key); err != nil {
			if !errors.Is(err, justonce.ErrUnavailable) || !strings.Contains(err.Error(), "free some space") {
				t.Fatalf("Begin on a full disk: %v", err)
			}
			refused = key
			break
		}
		recorded = append(recorded, key)
	}
	if refused == "" {
		t.Fatal("the disk never got full")
	}
	if _, err := s.Get(t.Context(), justonce.Ref{Key: refused}); !errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("Get of what was refused: %v, want ErrNotFound", err)
	}
	// A replay still works.
	if a, err := s.Begin(t.Context(), benchOp("due", s.Now()), justonce.Entry{}); err != nil || a.Fresh {
		t.Errorf("replay on a full disk: %+v, %v", a, err)
	}
	s.Exec(t, due.Ref, "PRAGMA max_page_count = 1000000")
	begin(t, s, refused)
	for _, key := range recorded {
		if _, err := s.Get(t.Context(), justonce.Ref{Key: key}); err != nil {
			t.Fatalf("%s was acknowledged: %v", key, err)
		}
	}
	wantIntact(t, s, int64(len(recorded))+2)
}

// A commit that fails is nobody's success, and the writer goes on.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	due := begin(t, s, "due")
	release := s.Block(t, due.Ref)
	var wg sync.WaitGroup
	var errs [2]error
	wg.Go(func() { _, errs[0] = tryBegin(context.Background(), s, "k") })
	untilQueued(s, 1)
	wg.Go(func() { errs[1] = s.TryExec(due.Ref, "ROLLBACK") })
	untilQueued(s, 2)
	release()
	wg.Wait()
	for _, err := range errs {
		if !errors.Is(err, justonce.ErrUnavailable) {
			t.Errorf("error %v, want ErrUnavailable for all of the group", err)
		}
	}
	if _, err := s.Get(t.Context(), justonce.Ref{Key: "k"}); !errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("Get of what was not acknowledged: %v, want ErrNotFound", err)
	}
	begin(t, s, "k")
	wantIntact(t, s, 2)
}

// wantIntact checks that n operations are counted.
func wantIntact(t *testing.T, s *sqlite.Store, n int64) {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, c := range stats.Count {
		sum += c
	}
	if sum != n {
		t.Errorf("%d operations are counted, want %d", sum, n)
	}
}

// locked begins a write from outside and returns how to end it.
func locked(t *testing.T, path string) (release func()) {
	conn, err := zs.OpenConn(path, zs.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	return func() { conn.Close() }
}

func TestLockedByAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path, &sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	release := locked(t, path)
	_, err := tryBegin(t.Context(), s, "k")
	if !errors.Is(err, justonce.ErrUnavailable) || !strings.Contains(err.Error(), "another process holds the write lock") {
		t.Errorf("Begin: %v, want ErrUnavailable and the reason", err)
	}
	// Leaving is possible while the writer waits for the lock.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := tryBegin(ctx, s, "gone")
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Error("Begin has recorded under another's lock")
	}
	release()
	begin(t, s, "k")
}

// What is there and cannot be read is never taken for absent.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"Data":     "UPDATE op SET data = x'01'",
		"Encoding": "UPDATE op SET data = x'ff01020304050607'",
		"Fixed":    "UPDATE op SET fixed = x'ff'",
		"State":    "UPDATE op SET state = 9",
		"Row":      "DELETE FROM op",
		"Result":   "DELETE FROM entry WHERE id = 2",
		"Stranger": "UPDATE entry SET op = 7",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := open(t, path, nil)
			firstCall(t.Context(), t, s, "k", nil)
			execFile(t, path, damage)
			ref := justonce.Ref{Key: "k"}
			_, err := s.Get(t.Context(), ref)
			wantDamaged(t, "Get", err)
			_, err = s.Begin(t.Context(), benchOp("k", s.Now()), justonce.Entry{})
			wantDamaged(t, "Begin", err)
			_, err = s.History(t.Context(), ref)
			wantDamaged(t, "History", err)
			begin(t, s, "another")
		})
	}
}

func wantDamaged(t *testing.T, call string, err error) {
	t.Helper()
	if !errors.Is(err, justonce.ErrUnavailable) || errors.Is(err, justonce.ErrNotFound) {
		t.Errorf("%s of a damaged operation: %v, want ErrUnavailable", call, err)
	}
}
