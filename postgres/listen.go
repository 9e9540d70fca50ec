package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/news"
)

const (
	// listenCheck is how often a silent connection is asked whether it is alive.
	listenCheck = 30 * time.Second
	// listenAgain is how long to wait before connecting again.
	listenAgain = time.Second
)

// Listen implements [justonce.Notifier]: it calls changed with operations that
// other processes have made pending, ended or put into review, soon after they
// did. It is best effort: news may come late, twice or, while the connection is
// lost, not at all; whoever needs to know must look from time to time. It holds
// one connection of its own, connects again by itself, and returns nil when ctx
// ends. One call for a process is enough. With NoWakeUps or TransactionPooling it
// only waits for the end of ctx. changed is called by one goroutine and should be
// quick.
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
		if s.closed.Load() {
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

// listen listens on one connection until that fails.
func (s *Store) listen(ctx context.Context, changed func(justonce.Ref)) error {
	n := s.notifier
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{n.channel}.Sanitize()); err != nil {
		return err
	}
	// By this lock others know that somebody listens.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1::bigint)", exec, listenLock(s.o.Schema)); err != nil {
		return err
	}
	n.listen(1)
	defer n.listen(-1)
	for {
		wait, cancel := context.WithTimeout(ctx, listenCheck)
		note, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			refs, err := news.Unpack(n.sender, note.Payload)
			if err != nil {
				s.o.Logger.Warn("ledger: listening for changes", "error", err)
			}
			for _, ref := range refs {
				changed(ref)
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) && !conn.IsClosed():
			ping, cancel := context.WithTimeout(ctx, listenCheck)
			err := conn.Ping(ping)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (n *notifier) listen(by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listening += by
}
