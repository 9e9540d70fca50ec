package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/news"
)

// listenAgain is how long to wait before connecting again.
const listenAgain = time.Second

// Listen calls changed with operations that other processes have made pending,
// ended or put into review, soon after they did. It is best effort: news may
// come late, twice or, while the connection is lost, not at all; whoever needs
// to know must look from time to time. It holds one connection of its own,
// connects again by itself, and returns nil when ctx ends. One call for a
// process is enough. With NoWakeUps it only waits for the end of ctx. changed is
// called by one goroutine and should be quick.
func (s *Store) Listen(ctx context.Context, changed func(justonce.Ref)) error {
	if s.notifier == nil {
		<-ctx.Done()
		return nil
	}
	for {
		err := s.listen(ctx, changed)
		if ctx.Err() != nil {
			return nil
		}
		if s.isClosed() {
			return unavailable("listening", errClosed)
		}
		s.o.Logger.Warn("ledger: listening for changes; connecting again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
		}
	}
}

// listen listens on one connection until that fails. It shares the connection
// with no answers: the server cuts off a listener that lets too much wait.
func (s *Store) listen(ctx context.Context, changed func(justonce.Ref)) error {
	n := s.notifier
	return s.client.Dedicated(func(c rueidis.DedicatedClient) error {
		return c.Receive(ctx, c.B().Subscribe().Channel(n.channel).Build(), func(m rueidis.PubSubMessage) {
			refs, err := news.Unpack(n.sender, m.Message)
			if err != nil {
				s.o.Logger.Warn("ledger: listening for changes", "error", err)
			}
			for _, ref := range refs {
				changed(ref)
			}
		})
	})
}
