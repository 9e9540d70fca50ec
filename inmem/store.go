// Package inmem keeps the ledger in memory. It is the reference model of a
// [justonce.Store]: simple enough to be read in one sitting, and what other
// stores are compared with. Use it in tests and demonstrations; everything in
// it is lost with the process.
package inmem

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/justonce-dev/justonce"
)

// Options configure a Store. The zero value, and nil, mean the defaults.
type Options struct {
	// Now is the ledger's clock. Defaults to time.Now. It must be safe for
	// concurrent use and must not call the store.
	Now func() time.Time

	// Fault, where set, is called at the beginning of every method that takes
	// a context, with the method's name. If it returns an error the method
	// does nothing and fails with it.
	Fault func(method string) error
	// FaultAfter, where set, is called with the method's name after Begin,
	// Update, Claim or Purge took effect. If it returns an error the caller
	// gets that instead of the answer, as when a connection breaks during the
	// commit: everything is recorded and nobody was told.
	//
	// The errors of both also are justonce.ErrUnavailable. Both may be called
	// by many goroutines at once, and may call the store.
	FaultAfter func(method string) error
}

// A Store is a ledger in memory. It is safe for concurrent use. Create it with
// [New].
type Store struct {
	opts Options

	mu         sync.Mutex
	rows       map[justonce.Ref]*row
	identities map[identity]*row
}

// A row is all that is known of one operation.
type row struct {
	op      *justonce.Operation // with Arguments and Result
	entries []justonce.Entry
}

// An identity is unique among the rows that hold it.
type identity struct{ tenant, hash string }

var _ justonce.Store = (*Store)(nil)

// New returns an empty store. opts may be nil.
func New(opts *Options) *Store {
	s := &Store{
		rows:       make(map[justonce.Ref]*row),
		identities: make(map[identity]*row),
	}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	return s
}

// Now returns the time of the clock in Options.
func (s *Store) Now() time.Time { return s.opts.Now() }

// Close does nothing: the store stays usable.
func (s *Store) Close() error { return nil }

// before fails a method that must not begin.
func (s *Store) before(ctx context.Context, method string) error {
	err := ctx.Err()
	if err == nil && s.opts.Fault != nil {
		err = s.opts.Fault(method)
	}
	return unavailable(method, err)
}

// after fails a method that took effect.
func (s *Store) after(method string) error {
	if s.opts.FaultAfter == nil {
		return nil
	}
	return unavailable(method, s.opts.FaultAfter(method))
}

func unavailable(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("inmem: %s: %w: %w", method, justonce.ErrUnavailable, err)
}
