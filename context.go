package justonce

import (
	"context"
	"sync"
	"time"
)

type contextKey int

const (
	keyKey contextKey = iota
	keyRun
	keyAttempt
)

// WithKey returns a context whose calls inherit key where they give none.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey, key)
}

// WithRun returns a context whose calls belong to the agent task runID where
// they name none.
func WithRun(ctx context.Context, runID string) context.Context {
	return context.WithValue(ctx, keyRun, runID)
}

// InheritedKey returns the key that calls in ctx inherit, or "".
func InheritedKey(ctx context.Context) string { return contextString(ctx, keyKey) }

// InheritedRun returns the run that calls in ctx inherit, or "".
func InheritedRun(ctx context.Context) string { return contextString(ctx, keyRun) }

func contextString(ctx context.Context, k contextKey) string {
	s, _ := ctx.Value(k).(string)
	return s
}

// CurrentAttempt returns the attempt that a tool's func is running for, or nil.
// The attempt must not be changed.
func CurrentAttempt(ctx context.Context) *Attempt {
	a, _ := ctx.Value(keyAttempt).(*Attempt)
	return a
}

// WireKey returns the provider's idempotency key of the attempt in ctx, or "".
// It is the same for every attempt at one operation.
func WireKey(ctx context.Context) string {
	if a := CurrentAttempt(ctx); a != nil {
		return a.WireKey
	}
	return ""
}

// An attempting is the context of a tool's func. Calls that the func makes
// belong to the same run, or to this operation where there is none; they do
// not inherit its key, which names another effect.
type attempting struct {
	context.Context
	attempt *Attempt
}

func (c *attempting) Value(key any) any {
	k, ok := key.(contextKey)
	switch {
	case !ok:
		return c.Context.Value(key)
	case k == keyAttempt:
		return c.attempt
	case k == keyKey:
		return ""
	case c.attempt.RunID != "":
		return c.attempt.RunID
	}
	return c.attempt.Key
}

// An attemptContext is an attempting that also ends when the attempt's time is
// up, or the attempt. It has a timer only once somebody waits for that: a func
// that does not look at its context need not pay for one.
type attemptContext struct {
	attempting
	described Attempt
	deadline  time.Time

	mu     sync.Mutex
	ended  bool
	timed  context.Context // nil until it is needed
	cancel context.CancelFunc
}

// newAttemptContext returns the context of an attempt at op, which has d of time
// within ctx. The caller has to end it.
func newAttemptContext(ctx context.Context, op *Operation, d time.Duration) *attemptContext {
	deadline := time.Now().Add(d)
	if within, ok := ctx.Deadline(); ok && within.Before(deadline) {
		deadline = within
	}
	c := &attemptContext{deadline: deadline}
	c.described.describe(op)
	c.attempting = attempting{ctx, &c.described}
	return c
}

func (c *attemptContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *attemptContext) Done() <-chan struct{} { return c.wait().Done() }

func (c *attemptContext) Err() error {
	c.mu.Lock()
	goesOn := c.timed == nil && !c.ended && c.attempting.Err() == nil && time.Now().Before(c.deadline)
	c.mu.Unlock()
	if goesOn {
		return nil
	}
	return c.wait().Err() // which does not change any more
}

// Value also finds what contexts made from c look for to end with it.
func (c *attemptContext) Value(key any) any {
	if _, ok := key.(contextKey); ok {
		return c.attempting.Value(key)
	}
	return c.wait().Value(key)
}

// wait returns what ends when c does.
func (c *attemptContext) wait() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timed != nil:
	case c.ended: // before its time was up
		c.timed, c.cancel = context.WithCancel(&c.attempting)
		c.cancel()
	default:
		c.timed, c.cancel = context.WithDeadline(&c.attempting, c.deadline)
	}
	return c.timed
}

// end says that the attempt is over.
func (c *attemptContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}
