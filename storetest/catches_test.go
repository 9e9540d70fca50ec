package storetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/storetest"
)

// brokenEnv names the broken store that TestBrokenStore runs the suite with.
const brokenEnv = "STORETEST_BROKEN"

// TestCatches runs the suite, in processes of its own, with stores that are
// broken in one way each, and wants the tests named to fail.
func TestCatches(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range brokenStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, test := range b.caughtBy {
				path := "TestBrokenStore/" + test
				var out []byte
				caught := false
				// Whether goroutines get into each other's way is up to the scheduler.
				for try := 0; try < 20 && !caught; try++ {
					cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+strings.ReplaceAll(path, "/", "$/^")+"$")
					cmd.Env = append(os.Environ(), brokenEnv+"="+name, fmt.Sprint("STORETEST_SEED=", try+1))
					var err error
					out, err = cmd.CombinedOutput()
					caught = err != nil && strings.Contains(string(out), "--- FAIL: "+path+" ")
				}
				if !caught {
					t.Errorf("%s does not catch it:\n%s", test, out)
				}
			}
		})
	}
}

// TestBrokenStore is for TestCatches.
func TestBrokenStore(t *testing.T) {
	b, ok := brokenStores[os.Getenv(brokenEnv)]
	if !ok {
		t.Skip("run by TestCatches")
	}
	open := func(t *testing.T, now func() time.Time) justonce.Store {
		return b.wrap(inmem.New(&inmem.Options{Now: now}))
	}
	reopen := func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store { return s }
	if b.reopen != nil {
		reopen = b.reopen
	}
	storetest.Run(t, open, storetest.Features{Reopen: reopen, Durable: true, Shared: true, News: b.news, CutNews: cutNews})
}

// TestSound runs the suite with a store that is not broken, in the way that
// TestBrokenStore does.
func TestSound(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) justonce.Store {
		return newTelling(inmem.New(&inmem.Options{Now: now}), sound)
	}, storetest.Features{Reopen: reopenTelling, Durable: true, Shared: true, News: true, CutNews: cutNews})
}
