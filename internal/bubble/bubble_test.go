package bubble_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/bubble"
)

// Many timers of one bubble that fire at one instant, some of them looked at
// by those who wait for them: without Test's precaution this crashes the race
// detector of Go 1.26 within a second.
func TestManyTimersAtOnce(t *testing.T) {
	for range 200 {
		bubble.Test(t, func(*testing.T) {
			var fired sync.WaitGroup
			for range 20 {
				fired.Go(func() {
					for range 20 {
						ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
						timer := time.NewTimer(time.Millisecond)
						fired.Add(1)
						time.AfterFunc(time.Millisecond, fired.Done)
						<-ctx.Done()
						select {
						case <-timer.C:
						case <-time.After(time.Second):
							t.Error("a timer did not fire")
						}
						cancel()
					}
				})
			}
			fired.Wait()
		})
	}
}
