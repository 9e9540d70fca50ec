package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

var riverContestants = []contestant{
	{name: "river", setup: "a job unique by its arguments, the result as its output, 128 workers; a caller waits for the event of its completion; pool of 32", servers: []string{"postgres"}, open: openRiver(0, false)},
	{name: "river-polls", setup: "the same, fetching every millisecond (default: at most every 100 ms)", servers: []string{"postgres"}, open: openRiver(time.Millisecond, false)},
	{name: "river-tx", setup: "the same, completed with JobCompleteTx, after which the caller is told", servers: []string{"postgres"}, open: openRiver(time.Millisecond, true)},
}

// A charge is a job's arguments.
type charge struct {
	Key       string          `json:"key" river:"unique"`
	Arguments json.RawMessage `json:"arguments"`
}

func (charge) Kind() string { return "charge" }

func (charge) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

type riverCaller struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]

	mu      sync.Mutex
	waiting map[string][]chan json.RawMessage
}

type chargeWorker struct {
	river.WorkerDefaults[charge]
	place  *place
	caller *riverCaller
	tx     bool // complete the job ourselves
}

func (w *chargeWorker) Work(ctx context.Context, job *river.Job[charge]) error {
	if err := river.RecordOutput(ctx, w.place.effect(job.Args.Key)); err != nil || !w.tx {
		return err
	}
	var done *river.Job[charge]
	err := pgx.BeginFunc(ctx, w.caller.pool, func(tx pgx.Tx) (err error) {
		done, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
	if err == nil {
		w.caller.tell(done.Args.Key, done.Output())
	}
	return err
}

func openRiver(polls time.Duration, tx bool) func(context.Context, *place) (caller, error) {
	return func(ctx context.Context, p *place) (caller, error) {
		pool, err := pgxpool.New(ctx, p.Postgres+"&pool_max_conns=32")
		if err != nil {
			return nil, err
		}
		r := &riverCaller{pool: pool, waiting: map[string][]chan json.RawMessage{}}
		if err := r.start(ctx, &chargeWorker{place: p, caller: r, tx: tx}, polls); err != nil {
			pool.Close()
			return nil, err
		}
		return r, nil
	}
}

func (r *riverCaller) start(ctx context.Context, w *chargeWorker, polls time.Duration) error {
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	r.client, err = river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 128}},
		Workers:       workers,
		FetchCooldown: polls, FetchPollInterval: polls, // 0: defaults
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if !w.tx {
		events, _ := r.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 10_000, Kinds: []river.EventKind{river.EventKindJobCompleted}})
		go r.listen(events)
	}
	return r.client.Start(ctx)
}

// listen tells callers of completions until the client stops.
func (r *riverCaller) listen(events <-chan *river.Event) {
	for e := range events {
		var args charge
		if json.Unmarshal(e.Job.EncodedArgs, &args) == nil {
			r.tell(args.Key, e.Job.Output())
		}
	}
}

func (r *riverCaller) tell(key string, result json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting[key] {
		w <- result
	}
	delete(r.waiting, key)
}

// expect returns where the result of key will be told, and what ends that.
func (r *riverCaller) expect(key string) (told chan json.RawMessage, forget func()) {
	told = make(chan json.RawMessage, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[key] = append(r.waiting[key], told)
	return told, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		left := slices.DeleteFunc(r.waiting[key], func(c chan json.RawMessage) bool { return c == told })
		if r.waiting[key] = left; len(left) == 0 {
			delete(r.waiting, key)
		}
	}
}

func (r *riverCaller) Call(ctx context.Context, key string) (json.RawMessage, error) {
	told, forget := r.expect(key)
	defer forget()
	inserted, err := r.client.Insert(ctx, charge{key, arguments}, nil)
	if err != nil {
		return nil, err
	}
	if inserted.Job.State == rivertype.JobStateCompleted {
		return inserted.Job.Output(), nil
	}
	select {
	case result := <-told:
		return result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *riverCaller) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := r.client.StopAndCancel(ctx)
	r.pool.Close()
	return err
}
