package mcpproxy

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	justonce "github.com/justonce-dev/justonce"
)

// between is a context that is asked for its end after an answer was written and
// before its receipt is kept.
type between struct {
	context.Context
	f func()
}

func (b between) Err() error {
	b.f()
	return nil
}

// Receipts are kept in the order of the bytes: how much is unread tells by its
// place which answers arrived.
func TestReceiptsAreInOrderOfBytes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &Server{}
	r := newRelay(t.Context(), s, &StdioOptions{Out: &out})
	r.acks.stopped = true // keeps all of them
	answer := func(ctx context.Context, line string) {
		d := s.deliver(&justonce.Operation{Ref: justonce.Ref{Key: line}}, nil)
		r.answerTo(ctx, line, []byte(line), d)
	}
	var second sync.WaitGroup
	var done atomic.Bool
	answer(between{t.Context(), func() {
		second.Go(func() {
			answer(t.Context(), "bb")
			done.Store(true)
		})
		for i := 0; i < 1000 && !done.Load(); i++ {
			runtime.Gosched() // ample room to overtake
		}
	}}, "a")
	second.Wait()
	if got := out.String(); got != "a\nbb\n" {
		t.Fatalf("written: %q", got)
	}
	if l := r.acks.list; len(l) != 2 || l[0].id != "a" || l[0].end != 2 || l[1].end != 5 {
		t.Errorf("receipts: %+v", l)
	}
}
