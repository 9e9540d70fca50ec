// Package bubble runs tests in synctest bubbles where the race detector
// survives them.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

var (
	mu    sync.Mutex
	open  int // bubbles that run
	procs int // as it was before the first of them
)

// Test is [synctest.Test]. Under the race detector it leaves the program one
// processor while f runs: a bubble's timers share one race context, and two
// threads that fire timers of one bubble at once corrupt it, so that the
// detector crashes later and elsewhere (Go 1.26; go.dev/issue/78156). Races
// are still seen, since the detector goes by what happened before what.
// It may be called by tests that run in parallel.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if underRace {
		alone()
		defer together()
	}
	synctest.Test(t, f)
}

func alone() {
	mu.Lock()
	defer mu.Unlock()
	if open == 0 {
		procs = runtime.GOMAXPROCS(1)
	}
	open++
}

func together() {
	mu.Lock()
	defer mu.Unlock()
	if open--; open == 0 {
		runtime.GOMAXPROCS(procs)
	}
}
