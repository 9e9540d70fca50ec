package postgres

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
	// listenersEvery is for how long it is taken as known who listens.
	listenersEvery = 2 * time.Second

	// lastNews is for how long Close tries to send what is left.
	lastNews = time.Second

	mostNews    = 4096 // refs that wait to be sent
	mostPayload = 7500 // bytes; PostgreSQL takes 8000
)

// A notifier tells other processes which operations have changed. It does so
// on a connection of its own, from time to time and for many at once: NOTIFY
// makes the commits that contain it wait for each other. Where nobody listens
// nothing is sent.
type notifier struct {
	store   *Store
	channel string
	sender  string // in front of each payload, by which a store knows its own
	wake    chan struct{}

	mu        sync.Mutex
	list      []justonce.Ref
	listening int       // of this store
	asked     time.Time // when it was last known whether others listen
	others    bool      // they do
}

func newNotifier(s *Store) *notifier {
	return &notifier{store: s, channel: "justonce_" + s.st.tag, sender: rand.Text()[:12], wake: make(chan struct{}, 1)}
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
	if len(list) == 0 {
		return
	}
	if err := n.send(ctx, list); err != nil && ctx.Err() == nil {
		n.store.o.Logger.Warn("ledger: telling others of changes", "error", err)
	}
}

func (n *notifier) send(ctx context.Context, list []justonce.Ref) error {
	s := n.store
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.connected(ctx, func(c *conn) error {
		if others, err := n.heard(ctx, c); err != nil || !others {
			return err
		}
		// That nobody waits for the disk makes it short. News may get lost.
		quick := query{statement: s.st.plain("quick", `SELECT set_config('synchronous_commit', 'off', true)`)}
		tell := s.st.plain("notify", `SELECT pg_notify($1, unnest($2))::text`, oidText, oidTexts)
		return c.exchange(ctx, quick, query{statement: tell, params: [][]byte{[]byte(n.channel), textsParam(news.Pack(n.sender, list, mostPayload))}})
	})
}

// heard reports whether others listen, by the lock that listeners share.
func (n *notifier) heard(ctx context.Context, c *conn) (bool, error) {
	n.mu.Lock()
	known, others := time.Since(n.asked) < listenersEvery, n.others
	n.mu.Unlock()
	if known {
		return others, nil
	}
	key := listenLock(n.store.o.Schema)
	all := int64(0)
	st := n.store.st.plain("listeners", `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND classid::bigint = ($1 >> 32) & 4294967295 AND objid::bigint = $1 & 4294967295`, oidInt8)
	err := c.exchange(ctx, query{st, [][]byte{int64Param(key)}, func(v [][]byte) error { all = int64At(v, 0); return nil }})
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked, n.others = time.Now(), all > int64(n.listening)
	return n.others, nil
}

func listenLock(schema string) int64 { return sum('l', "", schema).lock() }
