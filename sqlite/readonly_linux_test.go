package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
)

func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	open(t, path, nil).Close()
	for _, p := range []string{path, dir, filepath.Dir(dir)} {
		if err := os.Chmod(p, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(dir, 0o755)
	defer os.Chmod(filepath.Dir(dir), 0o755)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			syscall.Setfsuid(65534) // root may write anything
		}
		s, err := sqlite.Open(context.Background(), path, nil)
		if err == nil {
			s.Close()
		}
		done <- err
	}()
	err := <-done
	if !errors.Is(err, justonce.ErrUnavailable) || !strings.Contains(err.Error(), "cannot be written") && !strings.Contains(err.Error(), "unable to open") {
		t.Errorf("Open of a file that cannot be written: %v", err)
	}
}
