package justonce

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/bubble"
)

// An attempt's context ends as one made by context.WithTimeout does, whether or
// not anybody asked for its timer before.
func TestAttemptContext(t *testing.T) {
	type key struct{}
	valued := context.WithValue(context.Background(), key{}, "a value")
	op := &Operation{Ref: Ref{Key: "k"}, RunID: "run"}
	cases := map[string]struct { // in bubbles, where sleeping takes no time
		after func(*attemptContext)
		err   error
	}{
		"goes on":       {func(*attemptContext) {}, nil},
		"time is up":    {func(*attemptContext) { time.Sleep(time.Minute + 1) }, context.DeadlineExceeded},
		"ended":         {func(c *attemptContext) { c.end() }, context.Canceled},
		"ended in time": {func(c *attemptContext) { c.end(); time.Sleep(time.Hour) }, context.Canceled},
	}
	looks := map[string]func(*attemptContext) context.Context{
		"nobody looked":   func(c *attemptContext) context.Context { return c },
		"somebody waited": func(c *attemptContext) context.Context { c.Done(); return c },
		"one made from it": func(c *attemptContext) context.Context {
			ctx, cancel := context.WithCancel(c)
			context.AfterFunc(c, cancel)
			return ctx
		},
		"a value was asked": func(c *attemptContext) context.Context { c.Value(key{}); return c },
	}
	for name, x := range cases {
		for look, made := range looks {
			t.Run(name+", "+look, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					outer, leave := context.WithCancel(valued)
					defer leave()
					c := newAttemptContext(outer, op, time.Minute)
					defer c.end()
					ctx := made(c)
					x.after(c)
					if got := c.Err(); !errors.Is(got, x.err) {
						t.Errorf("its error is %v, want %v", got, x.err)
					}
					select {
					case <-ctx.Done():
						if x.err == nil || !errors.Is(ctx.Err(), x.err) || !errors.Is(context.Cause(ctx), x.err) {
							t.Errorf("it is done: %v, %v", ctx.Err(), context.Cause(ctx))
						}
					default:
						if x.err != nil {
							t.Error("it is not done")
						}
					}
					if ctx.Value(key{}) != "a value" || CurrentAttempt(ctx) != &c.described || InheritedRun(ctx) != "run" || InheritedKey(ctx) != "" {
						t.Error("its values are others")
					}
				})
			})
		}
	}
	outer, leave := context.WithCancelCause(valued)
	c := newAttemptContext(outer, op, time.Minute)
	defer c.end()
	done := c.Done()
	leave(errors.New("the process gives up"))
	<-done
	if c.Err() == nil || newAttemptContext(outer, op, time.Minute).Err() == nil {
		t.Error("it outlasts what it is within")
	}
}
