// Package storetest is the specification of a [justonce.Store] in executable
// form. A store is one if it passes:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, now func() time.Time) justonce.Store {
//			s, err := mystore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger"), &mystore.Options{Now: now})
//			if err != nil {
//				t.Fatal(err)
//			}
//			return s
//		}, storetest.Features{})
//	}
//
// The tests are named after the methods, so that -run TestStore/Begin runs one
// family. Random histories print their seed when they fail; the environment
// variable STORETEST_SEED replays one, and STORETEST_ROUNDS (default 1)
// multiplies their number.
//
// # Fine print
//
// Where the comment of [justonce.Store] can be read in two ways the suite holds
// stores to one:
//
//   - Archiving and purging are writes: they raise Version, but leave UpdatedAt.
//     An operation ended when it was last updated, by UpdatedAt.
//   - If the operation met by key may be archived and the one met by identity
//     may not, the latter is returned and nothing changes.
//   - Update of an operation that is not there is ErrStale.
//   - An entry with IsResult and no body is no result; of two results the last
//     counts. An empty body may come back as nil.
//   - Any other operation that holds a reference keeps an exclusive one from it:
//     be it exclusive itself, archived, a tombstone, or none of these.
//   - What advance refuses counts towards the limit of Claim.
//   - The empty tenant is a tenant; List never goes beyond one.
//   - A tombstone has an empty history. It can be updated and archived like any
//     other operation, and is counted by Stats.
//   - Notes, messages and evidence may hold any valid UTF-8, NUL included.
//   - A call whose context is done may succeed or fail, but its effect is
//     recorded wholly or not at all, and wholly if it returned nil.
package storetest

import (
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// An Opener returns a store with an empty ledger of its own, whose clock is
// now, or calls t.Fatal. It is called by parallel tests. The store is closed
// by the suite; the opener may clean up after that with t.Cleanup.
type Opener func(t *testing.T, now func() time.Time) justonce.Store

// Features tell what a store can do beyond the interface. The zero value asks
// for the interface alone.
type Features struct {
	// Reopen opens the ledger of s, which the Opener or Reopen returned, once
	// more. Durable, Shared and News need it.
	Reopen func(t *testing.T, s justonce.Store, now func() time.Time) justonce.Store

	// Durable: all that was acknowledged is there when the ledger is reopened
	// after Close.
	Durable bool

	// Shared: several stores that are open on one ledger at the same time, as
	// in several processes, behave as one.
	Shared bool

	// News: Listen hears soon of what another store that is open on the ledger has
	// made pending, ended or put into review, and has told before its Close returns.
	// The store is a [justonce.Notifier]. Needs Reopen.
	News bool

	// CutNews cuts the connection on which s listens, and returns when it is gone.
	// Listen, called again if it fails, hears of what is changed later. Optional.
	CutNews func(t *testing.T, s justonce.Store)
}

// Run tests stores that open returns. Every test has a store of its own, with
// an injected clock, and runs in parallel with the others. Nothing sleeps.
func Run(t *testing.T, open func(t *testing.T, now func() time.Time) justonce.Store, f Features) {
	if (f.Durable || f.Shared || f.News) && f.Reopen == nil {
		t.Fatal("storetest: Durable, Shared and News need Reopen")
	}
	s := &suite{open: open, features: f}
	t.Run("Now", s.now)
	t.Run("Begin", s.begin)
	t.Run("Archive", s.archive)
	t.Run("Get", s.get)
	t.Run("Update", s.update)
	t.Run("Reference", s.reference)
	t.Run("Claim", s.claim)
	t.Run("List", s.list)
	t.Run("History", s.history)
	t.Run("Stats", s.stats)
	t.Run("Purge", s.purge)
	t.Run("Values", s.values)
	t.Run("Context", s.context)
	t.Run("Model", s.model)
	t.Run("Race", s.race)
	t.Run("Listen", s.listen)
	if f.Durable {
		t.Run("Durable", s.durable)
	}
	if f.Shared {
		t.Run("Shared", s.shared)
	}
}

type suite struct {
	open     Opener
	features Features
}

// test runs f in parallel with a fresh ledger.
func (s *suite) test(t *testing.T, name string, f func(l *ledger)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		f(s.ledger(t))
	})
}

func (s *suite) now(t *testing.T) {
	s.test(t, "IsTheInjectedClock", func(l *ledger) {
		for range 3 {
			if got, want := l.Now(), l.clock.now(); !got.Equal(want) {
				l.t.Errorf("Now() = %v, want %v", got, want)
			}
			l.clock.advance(time.Hour + time.Nanosecond)
		}
	})
}
