package justonce

import "context"

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

// attemptContext prepares ctx for a tool's func. Calls that the func makes
// belong to the same run, or to this operation where there is none; they do
// not inherit its key, which names another effect.
func attemptContext(ctx context.Context, a *Attempt) context.Context {
	return &attempting{ctx, a}
}

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
