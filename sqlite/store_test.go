package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/sqlite"
	"github.com/justonce-dev/justonce/storetest"
)

func TestStore(t *testing.T) { conform(t, func(*sqlite.Store) {}) }

// TestStoreCollisions is the same with a hash that is worth next to nothing.
func TestStoreCollisions(t *testing.T) { conform(t, (*sqlite.Store).Collide) }

func conform(t *testing.T, edit func(*sqlite.Store)) {
	var paths sync.Map // of the stores that are open
	open := func(t *testing.T, path string, now func() time.Time) justonce.Store {
		s, err := sqlite.Open(t.Context(), path, &sqlite.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		edit(s)
		paths.Store(s, path)
		return s
	}
	storetest.Run(t, func(t *testing.T, now func() time.Time) justonce.Store {
		return open(t, filepath.Join(t.TempDir(), "ledger.db"), now)
	}, storetest.Features{
		Reopen: func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store {
			path, _ := paths.Load(s)
			return open(t, path.(string), now)
		},
		Durable: true,
		Shared:  true,
	})
}
