package inmem_test

import (
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
	"github.com/justonce-dev/justonce/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) justonce.Store {
		return inmem.New(&inmem.Options{Now: now})
	}, storetest.Features{
		// Several users of one store share its ledger; Close ends nothing.
		Reopen:  func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store { return s },
		Shared:  true,
		Durable: true,
	})
}
