package postgres

import (
	"context"
	"slices"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// The writers run the writes of many waiting calls as one transaction: one
// statement for all that is new and one for all that is replaced, sent and
// committed in one round trip. What waits meanwhile makes the next group.
func (s *Store) newWriter() func([]*request) {
	w := &writer{store: s, keys: make(map[hash]bool)}
	return w.write
}

type writer struct {
	store           *Store
	record, replace group
	fresh, changed  []*request
	rows, others    []*row
	keys            map[hash]bool
}

// write answers batch. An error of one request is its own, wherever the server
// lets it be told apart.
func (w *writer) write(batch []*request) {
	ctx := context.Background()
	err := w.store.transaction(ctx, func(c *conn) error { return w.transact(ctx, c, batch) })
	if err != nil && refused(err) && len(batch) > 1 {
		for i := range batch {
			w.write(batch[i : i+1])
		}
		return
	}
	for _, r := range batch {
		if err != nil {
			r.ok, r.err = false, unavailable("writing", err)
		}
	}
	if err == nil && w.store.commits.Add(1)%foldEvery == 0 {
		w.store.background.Go(w.store.fold)
	}
}

// transact is one try.
func (w *writer) transact(ctx context.Context, c *conn, batch []*request) (err error) {
	w.sort(batch)
	var queries []query
	if len(w.rows) > 0 {
		hopeful := w.store.hope.hopeful()
		var fresh map[hash]bool
		b := gather(w.rows)
		if b != nil {
			w.store.includeDue(&w.store.batches.horizon, b.due)
		}
		params, has := w.record.fillRecord(w.rows, b)
		queries = append(queries, query{statement: w.store.record(hopeful, has), params: params, row: func(v [][]byte) error {
			if fresh == nil {
				fresh = make(map[hash]bool)
			}
			fresh[hash(v[0])] = true
			return nil
		}})
		defer func() {
			for _, r := range w.fresh {
				r.ok = hopeful || fresh[r.row.hash]
			}
			if b != nil && err == nil {
				w.store.batches.begun(w.fresh)
			}
			if hopeful && isUnique(err) {
				w.store.hope.disappoint()
			}
		}()
	}
	if len(w.others) > 0 {
		for _, r := range w.changed {
			r.row.done = false
		}
		w.store.unwatched(w.others)
		params, has := w.replace.fillReplace(w.others)
		queries = append(queries, query{statement: w.store.replace(has), params: params, row: func(v [][]byte) error {
			for _, n := range replaced(v) {
				w.others[n].done = true
			}
			return nil
		}})
		defer func() {
			for _, r := range w.changed {
				r.ok = r.row.done
			}
			if err == nil {
				w.store.batches.gone(slices.DeleteFunc(w.others, func(r *row) bool { return !r.done })...)
			}
		}()
	}
	if len(queries) == 0 {
		return nil
	}
	if over := w.store.batches.take(w.store.Now(), false); over != nil {
		queries = append(queries, w.store.drop(over))
		defer func() {
			if err != nil {
				w.store.batches.back(over)
			}
		}()
	}
	return c.exchange(ctx, w.store.alone(c, queries...)...)
}

// sort tells new operations from changes. Of several new ones with one key or
// identity the first is tried; the others then meet it or come again.
func (w *writer) sort(batch []*request) {
	w.fresh, w.changed, w.rows, w.others = w.fresh[:0], w.changed[:0], w.rows[:0], w.others[:0]
	keys := w.keys
	clear(keys)
	for _, r := range batch {
		switch {
		case r.kind == kindReplace:
			w.changed, w.others = append(w.changed, r), append(w.others, &r.row)
		case !keys[r.row.hash] && (r.row.ident == nil || !keys[*r.row.ident]):
			keys[r.row.hash] = true
			if r.row.ident != nil {
				keys[*r.row.ident] = true
			}
			w.fresh, w.rows = append(w.fresh, r), append(w.rows, &r.row)
		}
	}
}

// tries bounds how often something is tried that had no effect.
const tries = 8

// retry runs f with a connection, again as long as its error proves that
// nothing was done and the same may well succeed.
func (s *Store) retry(ctx context.Context, f func(*conn) error) error {
	for try := 1; ; try++ {
		err := s.connected(ctx, f)
		if err == nil || try == tries || !undone(err) || ctx.Err() != nil {
			return err
		}
		if code := codeOf(err); code == "26000" || code == "0A000" {
			s.pool.Reset() // their prepared statements are no good
		}
	}
}

// connected runs f with a connection.
func (s *Store) connected(ctx context.Context, f func(*conn) error) error {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.release()
	return f(c)
}

// transaction runs f in a transaction, again as long as that is safe. f sends
// BEGIN with its first queries (Store.begun or alone) and, if it succeeds, has
// sent COMMIT with its last; otherwise nothing remains.
func (s *Store) transaction(ctx context.Context, f func(*conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.retry(ctx, func(c *conn) (err error) {
		defer func() {
			if c.pg.TxStatus() == 'I' || c.pg.IsClosed() {
				return
			}
			// The caller's time may be over; the connection is lost if the
			// server does not answer.
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			c.exchange(end, query{statement: s.st.plain("rollback", "ROLLBACK")})
		}()
		return f(c)
	})
}

// news tells other processes of a change that they may wait for.
func (s *Store) news(ref justonce.Ref, state justonce.State) {
	if s.notifier != nil && (state == justonce.Pending || state == justonce.Review || state.Ended()) {
		s.notifier.add(ref)
	}
}
