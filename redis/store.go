// Package redis keeps a ledger in Redis, version 7 or newer, or in Valkey, for
// any number of processes on any number of machines.
//
// A server that may forget is refused: without appendonly yes and appendfsync
// always, or where keys may be evicted, an operation that was acknowledged can
// be gone after a crash, and its effect then happens twice. Who can live with
// that says so by name, see [Loss].
//
// What was acknowledged survives a crash of any process and of the server. A
// failover is another matter: replication is asynchronous, and a replica that
// is promoted lacks the last writes unless MinReplicas lets them be waited for.
// Even then Redis does not promise that the best replica is the one promoted.
// Where a failover must lose nothing, use PostgreSQL.
//
// The whole ledger lies in memory. All of its keys share one hash tag, since
// the uniqueness of keys, identities and references, the order of what is due
// and the lists span operations, and only what lies in one slot can change in
// one step. In a cluster a ledger is therefore on one node; several ledgers
// with different prefixes share the load.
package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/recent"
	"github.com/justonce-dev/justonce/internal/remoteclock"
)

// Defaults of [Options].
const (
	DefaultPrefix  = "justonce"
	DefaultTimeout = 5 * time.Second
)

// Options configure a [Store]. The zero value of a field is its default.
type Options struct {
	// Prefix begins the names of all keys, as {Prefix}:. Each prefix is a ledger
	// of its own. Defaults to [DefaultPrefix].
	Prefix string
	// AcceptLoss names the ways in which the server may forget what it has
	// acknowledged. An operation that is forgotten has its effect again when its
	// call is repeated. Defaults to none: a server that may forget is refused.
	AcceptLoss []Loss
	// MinReplicas is how many replicas must have a write, in memory, before it is
	// acknowledged. A write that they did not take in time is reported as
	// justonce.ErrUnavailable, although the primary has it. Defaults to 0.
	MinReplicas int
	// Timeout bounds a call, or each step of Claim, List and Purge, whose number
	// depends on what is there. After it a write is reported as
	// justonce.ErrUnavailable, and may have happened. Defaults to
	// [DefaultTimeout].
	Timeout time.Duration
	// Existing makes Open and New fail where there is no ledger yet, rather than
	// create one.
	Existing bool
	// ReadOnly is for who only looks: as Existing, and what writes is refused with
	// justonce.ErrUnavailable. A server that may forget will do, since reading
	// rests on no promise; AcceptLoss and MinReplicas have no meaning.
	ReadOnly bool
	// NoWakeUps leaves news between processes to polling: nothing is published
	// and [Store.Listen] only waits.
	NoWakeUps bool
	// Now is the ledger's clock, for tests: all processes must share it.
	// Defaults to the server's.
	Now func() time.Time
	// Logger hears of what the store mends by itself. Defaults to none.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Store is a [justonce.Store] in Redis. It is safe for concurrent use.
//
// An error that is justonce.ErrUnavailable means that nothing was acknowledged:
// a write may have happened where the connection was lost before its answer.
// The store connects again by itself and sends no write twice. A write waits
// for its answer even if its context ends, Timeout at most, so that its caller
// learns what became of it.
//
// Every few seconds the store asks again whether the server may forget. While it
// may, or if the ledger is gone or replaced, it refuses to write.
type Store struct {
	o        Options
	client   rueidis.Client
	owned    bool
	at       string // in front of the names of all keys
	mark     string // what the marker holds
	clock    remoteclock.Clock
	seen     *recent.Filter // keys
	begins   gatherer
	updates  gatherer
	notifier *notifier             // nil: no wake-ups
	unsafe   atomic.Pointer[error] // why nothing may be written

	stop       context.CancelFunc
	background sync.WaitGroup
	closeOnce  sync.Once

	mu       sync.RWMutex // between enter and Close
	closed   bool
	underway sync.WaitGroup
}

var (
	_ justonce.Store   = (*Store)(nil)
	_ justonce.Guesser = (*Store)(nil)
)

// Open opens the ledger on the server that url names, such as
//
//	redis://user:password@host:6379/0
//	rediss://host?prefix=payments&accept_loss=second
//	unix:///run/redis.sock?db=1
//	redis://sentinel:26379?addr=other:26379&master_set=main
//
// or valkey:// and valkeys://. The parameters prefix, accept_loss (separated by
// commas) and min_replicas take the place of the options; dial_timeout and
// write_timeout are durations. The ledger is created if need be. The caller
// closes the store. o may be nil.
func Open(ctx context.Context, url string, o *Options) (*Store, error) {
	opts := o.withDefaults()
	option, err := clientOption(url, &opts)
	if err != nil {
		return nil, unavailable("reading the URL", err)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, unavailable("connecting", err)
	}
	s, err := open(ctx, client, opts, true)
	if err != nil {
		client.Close()
		return nil, err
	}
	return s, nil
}

// New opens the ledger on the server of client, which stays the caller's. It
// must not send reads to replicas. The caller closes the store, and the client
// after it. o may be nil.
func New(ctx context.Context, client rueidis.Client, o *Options) (*Store, error) {
	return open(ctx, client, o.withDefaults(), false)
}

func open(ctx context.Context, client rueidis.Client, o Options, owned bool) (*Store, error) {
	if err := o.check(); err != nil {
		return nil, unavailable("opening the ledger", err)
	}
	s := &Store{o: o, client: client, owned: owned, at: "{" + o.Prefix + "}:", seen: recent.New()}
	s.begins = gatherer{store: s, script: scriptBegin}
	s.updates = gatherer{store: s, script: scriptUpdate}
	ctx, cancel := context.WithTimeout(ctx, max(2*o.Timeout, 10*time.Second))
	defer cancel()
	if err := s.checkServer(ctx); err != nil {
		return nil, unavailable("opening the ledger", err)
	}
	if err := s.claimPrefix(ctx); err != nil {
		return nil, unavailable("opening the ledger", err)
	}
	for range 3 { // the first is slow
		if err := s.setClock(ctx); err != nil {
			return nil, unavailable("reading the server's clock", err)
		}
	}
	s.start()
	return s, nil
}

func (s *Store) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.background.Go(func() { s.watch(ctx) })
	if !s.o.NoWakeUps {
		s.notifier = newNotifier(s)
		s.background.Go(func() { s.notifier.run(ctx) })
	}
}

// Now returns the server's time without asking it: measured every few seconds,
// and carried on by this process's monotonic clock. It is off by at most the
// round trip of the last measurement and what the clocks have drifted apart
// since, some milliseconds in all. What a claim may take is decided by the
// server.
func (s *Store) Now() time.Time {
	if s.o.Now != nil {
		return s.o.Now()
	}
	return s.clock.Now()
}

// Close waits for the calls under way and releases what [Open] took. Later
// calls return justonce.ErrUnavailable.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.underway.Wait()
		s.stop()
		s.background.Wait()
		if s.owned {
			s.client.Close()
		}
	})
	return nil
}

// enter begins a call, which must end with s.underway.Done.
func (s *Store) enter(ctx context.Context, call string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("redis: %s: %w", call, context.Cause(ctx)) // nothing was begun
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return unavailable(call, errClosed)
	}
	s.underway.Add(1)
	return nil
}

func (s *Store) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}
