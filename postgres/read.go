package postgres

import (
	"context"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
)

// The readers look up what many waiting calls ask for in one query.
func (s *Store) newReader() func([]*request) {
	r := &reader{store: s}
	return r.read
}

type reader struct {
	store          *Store
	keys, idents   array
	byKey, byIdent map[hash][]*request
	queries        []query
}

// selectByKeys finds operations with their results.
func (s *Store) selectByKeys() *statement {
	return s.st.plain("by keys", `SELECT `+columns+`, `+resultChunk+` FROM $schema.op WHERE op.hash = ANY($1)`, oidUUIDs)
}

func (s *Store) selectByIdents() *statement {
	return s.st.plain("by identities", `SELECT `+columns+`, `+resultChunk+` FROM $schema.op WHERE op.ident = ANY($1)`, oidUUIDs)
}

// read answers batch.
func (rd *reader) read(batch []*request) {
	s := rd.store
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	err := s.retry(ctx, func(c *conn) error { return rd.exchange(ctx, c, batch) })
	for _, r := range batch {
		if err != nil {
			r.err = err
		}
		if r.err != nil {
			r.found = nil
		}
	}
}

func (rd *reader) exchange(ctx context.Context, c *conn, batch []*request) error {
	rd.keys.reset(oidUUIDs)
	rd.idents.reset(oidUUIDs)
	rd.byKey, rd.byIdent = make(map[hash][]*request, len(batch)), nil
	for _, r := range batch {
		r.found, r.outlived, r.err = nil, false, nil
		if _, ok := rd.byKey[r.row.hash]; !ok {
			rd.keys.bytes(r.row.hash[:])
		}
		rd.byKey[r.row.hash] = append(rd.byKey[r.row.hash], r)
		if r.row.ident == nil {
			continue
		}
		if rd.byIdent == nil {
			rd.byIdent = make(map[hash][]*request)
		}
		if _, ok := rd.byIdent[*r.row.ident]; !ok {
			rd.idents.hash(r.row.ident)
		}
		rd.byIdent[*r.row.ident] = append(rd.byIdent[*r.row.ident], r)
	}
	rd.queries = append(rd.queries[:0], query{rd.store.selectByKeys(), [][]byte{rd.keys.param()}, func(v [][]byte) error {
		for _, r := range rd.byKey[hash(v[colHash])] {
			rd.store.answer(r, v, justonce.MatchKey)
		}
		return nil
	}})
	if rd.byIdent != nil {
		rd.queries = append(rd.queries, query{rd.store.selectByIdents(), [][]byte{rd.idents.param()}, func(v [][]byte) error {
			for _, r := range rd.byIdent[hash(v[colIdent])] {
				rd.store.answer(r, v, justonce.MatchIdentity)
			}
			return nil
		}})
	}
	return c.exchange(ctx, rd.queries...)
}

// answer gives r the operation in v, unless one that answers was met by key.
func (s *Store) answer(r *request, v [][]byte, by justonce.Match) {
	if r.err != nil || r.found != nil && !r.outlived {
		return
	}
	op, at, err := scan(v)
	if err == nil {
		err = same(r, op, by)
	}
	if err == nil {
		err = setResult(op, at, v[columnCount])
	}
	if err != nil {
		r.err = err
		return
	}
	r.found, r.match, r.outlived = op, by, outlived(op, s.Now())
}

// same refuses an operation that has a hash in common with another, and
// nothing else.
func same(r *request, op *justonce.Operation, by justonce.Match) error {
	if r.row.tenant == op.Tenant && (by == justonce.MatchIdentity || r.row.key == op.Key) {
		return nil
	}
	return damaged(op.Key, fmt.Errorf("it has the hash of %q", r.row.key))
}

// Get implements [justonce.Store].
func (s *Store) Get(ctx context.Context, ref justonce.Ref) (*justonce.Operation, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: get: %w", err)
	}
	r := newRequest(kindRead)
	defer r.release()
	r.row.tenant, r.row.key, r.row.hash = ref.Tenant, ref.Key, keyHash(ref.Tenant, ref.Key)
	if !s.ask(ctx, r) {
		return nil, fmt.Errorf("postgres: get: %w", context.Cause(ctx))
	}
	switch {
	case r.err != nil:
		return nil, callError(ctx, "get", r.err)
	case r.found == nil:
		return nil, fmt.Errorf("postgres: get: %w", justonce.ErrNotFound)
	}
	return r.found, nil
}

// ask lets the readers answer r. It returns false if ctx ended first.
func (s *Store) ask(ctx context.Context, r *request) bool {
	return s.readers.do(ctx, r)
}

// History implements [justonce.Store]. That of a tombstone is empty.
func (s *Store) History(ctx context.Context, ref justonce.Ref) ([]justonce.Entry, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: history: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var entries []justonce.Entry
	err := s.retry(ctx, func(c *conn) (err error) {
		entries, err = s.historyIn(ctx, c, ref)
		return err
	})
	if err != nil {
		return nil, callError(ctx, "history", err)
	}
	return entries, nil
}

// historyIn is History on c.
func (s *Store) historyIn(ctx context.Context, c *conn, ref justonce.Ref) ([]justonce.Entry, error) {
	h := keyHash(ref.Tenant, ref.Key)
	st := s.st.plain("history", `SELECT op.tenant, op.key, op.first, op.log,
		ARRAY(SELECT chunk FROM $schema.entry WHERE entry.op = op.id ORDER BY version) FROM $schema.op WHERE op.hash = $1`, oidUUID)
	found := false
	var entries []justonce.Entry
	err := c.exchange(ctx, query{st, [][]byte{h[:]}, func(v [][]byte) error {
		if string(v[0]) != ref.Tenant || string(v[1]) != ref.Key {
			return nil
		}
		found = true
		var err error
		if entries, err = history(v[2], v[3], v[4]); err != nil {
			err = damaged(ref.Key, err)
		}
		return err
	}})
	if err == nil && !found {
		err = justonce.ErrNotFound
	}
	return entries, err
}

// read runs queries that change nothing.
func (s *Store) read(ctx context.Context, queries ...query) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.retry(ctx, func(c *conn) error { return c.exchange(ctx, queries...) })
}

// history puts chunks into the order of the writes that made them: that of
// arrival, then those of the row and those of the table entry.
func history(first, log, big []byte) ([]justonce.Entry, error) {
	rest, err := byteas(big)
	if err != nil {
		return nil, err
	}
	var h entries.History
	for _, chunks := range append([][]byte{first, log}, rest...) {
		if err := h.Add(chunks); err != nil {
			return nil, err
		}
	}
	return h.Entries()
}
