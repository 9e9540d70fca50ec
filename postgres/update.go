package postgres

import (
	"context"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
)

// Update implements [justonce.Store].
func (s *Store) Update(ctx context.Context, op *justonce.Operation, entries ...justonce.Entry) error {
	if err := s.open(ctx); err != nil {
		return fmt.Errorf("postgres: update: %w", err)
	}
	r := newRequest(kindReplace)
	defer r.release()
	if err := r.row.encode(op, op.Version+1, entries); err != nil {
		return err
	}
	s.include(&r.row)
	if err := s.update(ctx, r); err != nil {
		return callError(ctx, "update", err)
	}
	op.Version++
	s.news(op.Ref, op.State)
	return nil
}

func (s *Store) update(ctx context.Context, r *request) error {
	if r.row.exclusive {
		err := s.transaction(ctx, func(c *conn) error {
			err := s.updateExclusively(ctx, c, &r.row, true)
			if err == nil {
				err = c.exchange(ctx, s.commit())
			}
			return err
		})
		if err == nil {
			s.batches.gone(&r.row)
		}
		return err
	}
	switch {
	case !s.writers.do(ctx, r):
		return context.Cause(ctx)
	case r.err != nil:
		return r.err
	case !r.ok:
		return justonce.ErrStale
	}
	return nil
}

// updateExclusively replaces row unless another operation holds its reference.
// Until the end of the transaction nobody else may ask for that one.
func (s *Store) updateExclusively(ctx context.Context, c *conn, r *row, begin bool) error {
	name := sum('x', r.tenant, r.tool+"\x00"+string(r.ref[:]))
	lock := query{statement: s.st.plain("lock reference", `SELECT pg_advisory_xact_lock($1)::text`, oidInt8), params: [][]byte{int64Param(name.lock())}}
	current, taken := false, false
	version := query{s.st.plain("is current", `SELECT true FROM $schema.op WHERE hash = $1 AND version = $2 AND created = $3 FOR UPDATE`, oidUUID, oidInt8, oidInt8),
		[][]byte{r.hash[:], int64Param(r.version - 1), int64Param(r.created)}, func([][]byte) error { current = true; return nil }}
	holder := query{s.st.plain("holder", `SELECT true FROM $schema.reference AS x
		JOIN $schema.op ON op.tenant = $1 AND op.created = x.created AND op.id = x.op
		WHERE x.hash = $2 AND op.ref = x.hash AND op.tool = $3 AND op.hash <> $4 LIMIT 1`, oidText, oidUUID, oidText, oidUUID),
		[][]byte{[]byte(r.tenant), r.ref[:], []byte(r.tool), r.hash[:]}, func([][]byte) error { taken = true; return nil }}
	queries := []query{lock, version, holder}
	if begin {
		queries = s.begun(c, queries...)
	}
	if err := c.exchange(ctx, queries...); err != nil {
		return err
	}
	switch {
	case !current:
		return justonce.ErrStale
	case taken:
		return justonce.ErrReferenceTaken
	}
	return s.replaceIn(ctx, c, []*row{r})
}

// replaceIn replaces rows, which the transaction has locked.
func (s *Store) replaceIn(ctx context.Context, c *conn, rows []*row, more ...query) error {
	var g group
	n := 0
	params, has := g.fillReplace(rows)
	err := c.exchange(ctx, append([]query{{s.replace(has), params, func(v [][]byte) error { n = len(replaced(v)); return nil }}}, more...)...)
	if err == nil && n != len(rows) {
		err = fmt.Errorf("%d of %d rows were replaced", n, len(rows))
	}
	return err
}
