package justonce

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// RunnerOptions configure a [Runner]. The zero value of each field is its
// documented default.
type RunnerOptions struct {
	Tools []*Tool

	// ResultLimit is the greatest result that is kept whole, in bytes. A
	// greater one still ends its operation; its digest and a note are kept.
	// Defaults to 1 MiB.
	ResultLimit int
	// CacheBytes bounds the memory for replaying results without the ledger. A
	// result is kept from its first replay on, which reads it. Defaults to 8 MiB;
	// negative: no cache. Below 256 KiB nothing fits.
	CacheBytes int
	// Concurrency bounds the attempts and lookups that Work runs, and those of
	// calls that do not wait, at a time. Defaults to 256.
	Concurrency int
	// Poll is how often Work looks for what is due when nothing wakes it, and
	// the longest interval at which a waiting call looks at an operation that
	// another process executes. A store that is a [Notifier] mostly makes both
	// look sooner. Defaults to 500ms.
	Poll time.Duration

	Worker   string         // names this process in histories; defaults to host and pid
	Logger   *slog.Logger   // defaults to discarding
	Observer Observer       // nil funcs are skipped
	Rand     func() float64 // in [0,1), for jitter; defaults to math/rand/v2
}

// A Runner runs calls against a ledger: arrival, attempts, lookups. It is safe
// for concurrent use, also beside other Runners of other processes on the same
// ledger. It is a [Service].
//
// While a call waits, the Runner moves its operation on by itself, recovery
// included. Operations that nobody waits for need [Runner.Work] somewhere.
type Runner struct {
	store    Store
	o        RunnerOptions
	observer *Observer
	log      *slog.Logger

	toolsMu sync.Mutex
	tools   atomic.Pointer[map[string]*registered]

	flights flights
	cache   *cache
	slots   chan struct{} // of attempts that nobody waits for
	wake    chan struct{}
	writes  atomic.Pointer[writeContext]
	news    news
	working atomic.Int32
	awake   awakening
	started time.Time

	// planted takes the place of Transition in tests that plant a bug.
	planted func(Status, Event, Policy, time.Time) (Status, Step, error)

	mu       sync.Mutex
	closed   bool
	closing  chan struct{} // closed with it
	underway sync.WaitGroup
	stop     context.CancelFunc
	base     context.Context // ends when Shutdown gives up waiting
}

var _ Service = (*Runner)(nil)

type registered struct {
	*Tool
	budget *budget
}

// New returns a Runner on store, which stays the caller's to close, after
// [Runner.Shutdown]. The error tells which tool is misdeclared.
func New(store Store, o *RunnerOptions) (*Runner, error) {
	r := &Runner{store: store, started: time.Now(), wake: make(chan struct{}, 1), closing: make(chan struct{})}
	r.news.notifier, _ = store.(Notifier)
	r.news.due = make(chan struct{}, 1)
	if o != nil {
		r.o = *o
	}
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&r.o.ResultLimit, 1<<20)
	def(&r.o.CacheBytes, 8<<20)
	def(&r.o.Concurrency, 256)
	if r.o.Poll == 0 {
		r.o.Poll = 500 * time.Millisecond
	}
	if r.o.Worker == "" {
		host, _ := os.Hostname()
		r.o.Worker = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if r.o.Rand == nil {
		r.o.Rand = rand.Float64
	}
	if r.log = r.o.Logger; r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.observer = &r.o.Observer
	r.flights.seed = maphash.MakeSeed()
	r.cache = newCache(r.o.CacheBytes)
	r.slots = make(chan struct{}, r.o.Concurrency)
	r.base, r.stop = context.WithCancel(context.Background())
	r.tools.Store(&map[string]*registered{})
	for _, t := range r.o.Tools {
		if err := r.Register(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Register adds a tool. It fails on a misdeclared tool and on a name that is
// taken.
func (r *Runner) Register(t *Tool) error {
	c, err := t.prepare()
	if err != nil {
		return err
	}
	r.toolsMu.Lock()
	defer r.toolsMu.Unlock()
	old := *r.tools.Load()
	if old[c.Name] != nil {
		return fmt.Errorf("tool %q is registered already", c.Name)
	}
	tools := maps.Clone(old)
	tools[c.Name] = &registered{Tool: c, budget: newBudget()}
	r.tools.Store(&tools)
	return nil
}

func (r *Runner) tool(name string) *registered { return (*r.tools.Load())[name] }

func (r *Runner) toolNames() []string {
	return slices.Sorted(maps.Keys(*r.tools.Load()))
}

// Tools implements [Service].
func (r *Runner) Tools(context.Context) ([]ToolInfo, error) {
	tools := *r.tools.Load()
	var list []ToolInfo
	for _, name := range r.toolNames() {
		list = append(list, tools[name].Info())
	}
	return list, nil
}

// Identify tells which operation a call means and why, without running or
// recording anything. ErrUnknownTool, ErrInvalid.
func (r *Runner) Identify(ctx context.Context, c Call) (*Intent, error) {
	t := r.tool(c.Tool)
	if t == nil {
		return nil, unknownTool(c.Tool)
	}
	return t.identify(ctx, &c)
}

func unknownTool(name string) error {
	return fmt.Errorf("%w: %q", ErrUnknownTool, name)
}

var errShutdown = fmt.Errorf("%w: shutting down", ErrUnavailable)

// transit moves s on by the table. After an error it is as it was.
func (r *Runner) transit(s *Status, e *Event, t *registered, now time.Time) (Step, error) {
	if r.planted != nil {
		return r.transitPlanted(s, e, t, now)
	}
	return transit(s, e, &t.Policy, now)
}

// transitPlanted is apart so that its copies do not take room on every stack.
//
//go:noinline
func (r *Runner) transitPlanted(s *Status, e *Event, t *registered, now time.Time) (step Step, err error) {
	*s, step, err = r.planted(*s, *e, t.Policy, now)
	return step, err
}

// enter begins work that Shutdown waits for.
func (r *Runner) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errShutdown
	}
	r.underway.Add(1)
	return nil
}

// Shutdown refuses new calls and waits until attempts and lookups under way
// have ended and are recorded, or until ctx is done; then it returns ctx's
// error, and what was left is recovered from the ledger by the next process.
// Calls that wait for anything else are told how things stand. Where the store is
// a [Notifier] it also ends the listening that such a call began. Stop Work first.
func (r *Runner) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.underway.Wait()
		close(done)
	}()
	select {
	case <-done:
		r.stop()
		r.news.listened(ctx)
		return nil
	case <-ctx.Done():
		r.stop()
		return fmt.Errorf("attempts are still under way; they will be recovered: %w", ctx.Err())
	}
}

// poke wakes Work.
func (r *Runner) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// unavailable wraps a store's error of writing.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
