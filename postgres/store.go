// Package postgres keeps a ledger in a PostgreSQL database, version 13 or
// newer, for any number of processes on any number of machines.
//
// The tables live in a schema of their own. What many callers want to write at
// the same moment shares round trips and commits. Leases and windows are
// compared by the database's clock: those of the machines may be wrong.
//
// What was acknowledged survives a crash of any process and of the server. A
// failover to a standby that replicates asynchronously can lose the last
// commits: let commits wait for it (synchronous_standby_names).
package postgres

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
	"github.com/justonce-dev/justonce/internal/recent"
	"github.com/justonce-dev/justonce/internal/remoteclock"
)

// Defaults of [Options].
const (
	DefaultSchema   = "justonce"
	DefaultMaxConns = 8
	DefaultWriters  = 2
	DefaultMaxBatch = 512
	DefaultTimeout  = 15 * time.Second
)

// Options configure a [Store]. The zero value of a field is its default.
type Options struct {
	// Schema is where the tables are; it is created if need be. Each schema is
	// a ledger of its own. Defaults to [DefaultSchema].
	Schema string
	// MaxConns bounds the connections of a store that [Open] returned, but for
	// the one that listens. Defaults to pool_max_conns of the connection
	// string, else to [DefaultMaxConns].
	MaxConns int
	// Writers is how many groups of writes are under way at once. Defaults to
	// [DefaultWriters].
	Writers int
	// MaxBatch bounds how many calls share a transaction. Defaults to
	// [DefaultMaxBatch].
	MaxBatch int
	// Timeout bounds a transaction, waiting for a connection included. After
	// it a write is reported as justonce.ErrUnavailable, and may have happened.
	// Defaults to [DefaultTimeout].
	Timeout time.Duration
	// TransactionPooling must be set where connections lead through PgBouncer in
	// transaction mode, or any other that gives each transaction another session.
	// Nothing then depends on the session; statements are planned each time, and
	// there are no wake-ups. The parameter pgbouncer=true of the connection
	// string sets it too.
	TransactionPooling bool
	// Existing makes Open and New fail where there is no ledger yet, rather than
	// create one.
	Existing bool
	// NoWakeUps leaves news between processes to polling: nothing is notified
	// and [Store.Listen] only waits.
	NoWakeUps bool
	// Now is the ledger's clock, for tests: all processes must share it.
	// Defaults to the database's.
	Now func() time.Time
	// Logger hears of what the store mends by itself. Defaults to none.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Writers <= 0 {
		c.Writers = DefaultWriters
	}
	if c.MaxBatch <= 0 {
		c.MaxBatch = DefaultMaxBatch
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Store is a [justonce.Store] in a PostgreSQL database. It is safe for
// concurrent use.
//
// An error that is justonce.ErrUnavailable means that nothing was
// acknowledged: a write may have happened where the connection was lost during
// its commit. The store connects again by itself. A call whose context ends
// before its transaction has begun is withdrawn; later it waits for the end of
// the transaction and reports what became of it.
type Store struct {
	o        Options
	pool     *pgxpool.Pool
	owned    bool // the pool is ours, and its sessions have our settings
	st       statements
	clock    remoteclock.Clock
	seen     *recent.Filter // keys and identities
	writers  queue
	readers  queue
	notifier *notifier // nil: no wake-ups
	hope     hope
	horizon  horizon
	batches  batches
	commits  atomic.Uint64

	purge struct {
		sync.Mutex
		next mark // where to go on
	}

	stop       context.CancelFunc
	background sync.WaitGroup
	closeOnce  sync.Once
	closed     atomic.Bool
}

var (
	_ justonce.Store    = (*Store)(nil)
	_ justonce.Guesser  = (*Store)(nil)
	_ justonce.Notifier = (*Store)(nil)
)

// Open opens the ledger in the database that dsn names: a URL or keyword/value
// string as libpq takes them, with the pool_ parameters of pgxpool and
// pgbouncer=true besides. The ledger is created or migrated if need be. The
// caller closes the store. o may be nil.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	opts := o.withDefaults()
	config, err := poolConfig(dsn, &opts)
	if err != nil {
		return nil, unavailable("reading the connection string", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, unavailable("opening the ledger", err)
	}
	s, err := open(ctx, pool, opts, true)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// New opens the ledger in the database of pool, which stays the caller's. The
// sessions of pool keep their settings. The caller closes the store, and the
// pool after it. o may be nil.
func New(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Store, error) {
	return open(ctx, pool, o.withDefaults(), false)
}

func open(ctx context.Context, pool *pgxpool.Pool, o Options, owned bool) (*Store, error) {
	s := &Store{o: o, pool: pool, owned: owned, seen: recent.New(), st: newStatements(o.Schema)}
	s.purge.next = firstMark
	s.horizon.from, s.batches.horizon.from = packed.NoTime, packed.NoTime
	ctx, cancel := context.WithTimeout(ctx, max(o.Timeout, time.Minute))
	defer cancel()
	if _, err := migrate(ctx, pool, o.Schema, o.Existing); err != nil {
		return nil, unavailable("preparing schema "+o.Schema, err)
	}
	if o.Now == nil {
		for range 3 { // the first is slow
			if err := s.setClock(ctx); err != nil {
				return nil, unavailable("reading the server's clock", err)
			}
		}
	}
	s.start()
	return s, nil
}

func (s *Store) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.writers = queue{together: 64, limit: s.o.MaxBatch, bytes: 8 << 20}
	s.writers.start(s.o.Writers, s.newWriter)
	s.readers = queue{together: 16, limit: s.o.MaxBatch, bytes: 8 << 20}
	s.readers.start(2, s.newReader)
	if !s.o.NoWakeUps && !s.o.TransactionPooling {
		s.notifier = newNotifier(s)
		s.background.Go(func() { s.notifier.run(ctx) })
	}
	if s.o.Now == nil {
		s.background.Go(func() { s.keepClock(ctx) })
	}
	s.background.Go(func() { s.fillSeen(ctx) })
}

// Now returns the database's time without asking it: measured every few
// seconds, and carried on by this process's monotonic clock. It is off by at
// most the round trip of the last measurement and what the clocks have drifted
// apart since, some milliseconds in all; a step of the database's clock is
// followed within [clockEvery]. What a claim may take is decided inside the
// database.
func (s *Store) Now() time.Time {
	if s.o.Now != nil {
		return s.o.Now()
	}
	return s.clock.Now()
}

// Commits returns how many groups of writes have been committed since Open.
// Calls that ran at the same time share one.
func (s *Store) Commits() uint64 { return s.commits.Load() }

// Close waits for the calls under way and releases what [Open] took. Later
// calls return justonce.ErrUnavailable.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.closed.Store(true)
		s.writers.close()
		s.dropAll()
		s.readers.close()
		s.stop()
		s.background.Wait()
		if s.owned {
			s.pool.Close()
		}
	})
	return nil
}

// acquire returns a connection, which must be released.
func (s *Store) acquire(ctx context.Context) (*conn, error) {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		if s.closed.Load() {
			err = errClosed
		}
		return nil, err
	}
	return &conn{pg: c.Conn().PgConn(), session: s.owned && !s.o.TransactionPooling, release: c.Release}, nil
}

// open is the first thing that every call asks.
func (s *Store) open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if s.closed.Load() {
		return unavailable("asking", errClosed)
	}
	return nil
}
