// Package sqlite keeps a ledger in one SQLite file.
//
// The file is in WAL mode with synchronous=FULL: what was acknowledged
// survives a crash of the program and of the machine. One goroutine writes;
// what waits for it shares one transaction and one fsync (group commit).
// Several processes on one machine may use the file at the same time. It must
// be on a local disk. An application that keeps its own tables in it can write
// them and the ledger in one transaction, see [Store.InTx].
package sqlite

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
)

// DefaultBusyTimeout is the default of [Options.BusyTimeout].
const DefaultBusyTimeout = 5 * time.Second

// Options configure a [Store]. The zero value of a field is its default.
type Options struct {
	// Now is the ledger's clock. Defaults to time.Now. Processes that share a
	// file must share a clock.
	Now func() time.Time
	// Logger hears of what the store mends by itself. Defaults to none.
	Logger *slog.Logger
	// ReadConns is the number of connections for reading single operations;
	// one more serves lists and other long reads. Defaults to 2.
	ReadConns int
	// BusyTimeout is how long a write waits while other processes hold the
	// lock. Defaults to [DefaultBusyTimeout].
	BusyTimeout time.Duration
}

// A Store is a [justonce.Store] in one SQLite file. It is safe for concurrent
// use.
//
// An error that is justonce.ErrUnavailable means that nothing was
// acknowledged; the store recovers by itself as soon as its cause is gone (a
// full disk, a lock held by another process). A call whose context ends before
// its transaction has begun is withdrawn; later it waits for the end of the
// transaction and reports what became of it.
type Store struct {
	now     func() time.Time
	log     *slog.Logger
	readers *readers
	queue   *queue
	places  places
	seen    *seen
	hash    hasher
	long    chan *sqlite.Conn // the connection for long reads
	hasLong bool

	purge struct {
		sync.Mutex
		next int64 // id to go on from
	}

	filled    sync.WaitGroup
	stop      chan struct{} // closed by Close
	closeOnce sync.Once
	closeErr  error
}

var _ justonce.Guesser = (*Store)(nil)
var _ justonce.Store = (*Store)(nil)

// Open opens the ledger in the file at path, which is created or migrated if
// need be. It refuses a file that belongs to another application or to a newer
// justonce, that is on a network filesystem or cannot be written. The caller
// closes the store. o may be nil.
func Open(ctx context.Context, path string, o *Options) (_ *Store, err error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.ReadConns <= 0 {
		opts.ReadConns = 2
	}
	if opts.BusyTimeout <= 0 {
		opts.BusyTimeout = DefaultBusyTimeout
	}
	if err := checkPath(path); err != nil {
		return nil, unavailable("opening the ledger", err)
	}
	// The working directory may change, and the writer may have to reconnect.
	if path, err = filepath.Abs(path); err != nil {
		return nil, unavailable("opening the ledger", err)
	}

	s := &Store{seen: newSeen(), now: opts.Now, log: opts.Logger, long: make(chan *sqlite.Conn, 1), stop: make(chan struct{})}
	s.places.init()
	defer func() {
		if err != nil {
			s.closeReaders()
		}
	}()
	conn, err := connect(path, writerCacheKiB, opts.BusyTimeout)
	if err != nil {
		return nil, unavailable("opening "+path, err)
	}
	if _, err := migrate(ctx, conn, path, opts.BusyTimeout); err != nil {
		conn.Close()
		return nil, unavailable("preparing "+path, err)
	}
	if s.hash, err = readSeed(conn); err != nil {
		conn.Close()
		return nil, unavailable("preparing "+path, err)
	}
	w, err := newWriter(ctx, s, conn, path, opts.BusyTimeout)
	if err != nil {
		conn.Close()
		return nil, unavailable("preparing "+path, err)
	}
	s.queue = newQueue(w)
	if s.readers, err = newReaders(s, path, opts.ReadConns, opts.BusyTimeout); err == nil {
		var long *sqlite.Conn
		if long, err = connect(path, readerCacheKiB, opts.BusyTimeout); err == nil {
			s.long <- long
			s.hasLong = true
		}
	}
	if err != nil {
		conn.Close()
		return nil, unavailable("opening "+path+" for reading", err)
	}
	go s.queue.run()
	s.filled.Go(s.fillSeen)
	return s, nil
}

// Now returns the time by Options.Now.
func (s *Store) Now() time.Time { return s.now() }

// Commits returns how many transactions have been committed since Open. Calls
// that ran at the same time share one.
func (s *Store) Commits() uint64 { return s.queue.commits.Load() }

// Close waits for the calls under way and releases the file. Later calls
// return justonce.ErrUnavailable.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.stop)
		s.filled.Wait()
		s.closeReaders()
		s.closeErr = unavailable("closing", s.queue.close())
	})
	return s.closeErr
}

func (s *Store) closeReaders() {
	if s.readers != nil {
		s.readers.close()
	}
	if s.hasLong {
		(<-s.long).Close() // waits for a read under way
		close(s.long)
	}
}
