package redis

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/news"
)

const (
	// notifyEvery is how long news gathers before it is sent.
	notifyEvery = 20 * time.Millisecond
	mostNews    = 4096     // refs that wait to be sent
	mostPayload = 32 << 10 // bytes
)

// A notifier tells other processes which operations have changed, from time to
// time and for many at once.
type notifier struct {
	store   *Store
	channel string
	sender  string // in front of each payload, by which a store knows its own
	wake    chan struct{}

	mu   sync.Mutex
	list []justonce.Ref
}

func newNotifier(s *Store) *notifier {
	// Channels know nothing of databases.
	return &notifier{store: s, channel: s.at + "news:" + s.id(), sender: rand.Text()[:12], wake: make(chan struct{}, 1)}
}

// add takes news, or drops it if too much waits: whoever waits for it will
// look for himself.
func (n *notifier) add(ref justonce.Ref) {
	n.mu.Lock()
	if len(n.list) < mostNews {
		n.list = append(n.list, ref)
	}
	first := len(n.list) == 1
	n.mu.Unlock()
	if first {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// lastNews is for how long Close tries to send what is left.
const lastNews = time.Second

// run sends news until ctx ends, and then what is left: a process may end just
// after it made something pending.
func (n *notifier) run(ctx context.Context) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastNews)
		defer cancel()
		n.flush(ctx)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(notifyEvery):
		}
		n.flush(ctx)
	}
}

func (n *notifier) flush(ctx context.Context) {
	n.mu.Lock()
	list := n.list
	n.list = nil
	n.mu.Unlock()
	if err := n.send(ctx, list); err != nil && ctx.Err() == nil {
		n.store.o.Logger.Warn("ledger: telling others of changes", "error", err)
	}
}

func (n *notifier) send(ctx context.Context, list []justonce.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, n.store.o.Timeout)
	defer cancel()
	for _, payload := range news.Pack(n.sender, list, mostPayload) {
		if err := n.store.client.Do(ctx, n.store.client.B().Publish().Channel(n.channel).Message(payload).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

// news tells others of a change that somebody may wait for.
func (s *Store) news(ref justonce.Ref, state justonce.State) {
	if s.notifier != nil && (state == justonce.Pending || state == justonce.Review || state.Ended()) {
		s.notifier.add(ref)
	}
}
