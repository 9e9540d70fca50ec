package postgres

import (
	"context"
	"strconv"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

// beginIn records row in a transaction, or finds what it meets. What it meets
// is locked until the end of the transaction, in the order of the hashes. begin:
// the transaction is still to be begun. The error undone means that somebody
// else was faster: all must be tried again.
func (s *Store) beginIn(ctx context.Context, c *conn, row *row, begin bool) (*justonce.Arrival, error) {
	at, err := s.at()
	if err != nil {
		return nil, err
	}
	met := newRequest(kindRead)
	met.row.tenant, met.row.key, met.row.hash, met.row.ident = row.tenant, row.key, row.hash, row.ident
	var old []archived
	look := query{s.st.plain("lock", `SELECT `+columns+`, `+resultChunk+`, coalesce($3, `+dbNow+`) FROM $schema.op
		WHERE op.hash = $1 OR op.ident = $2 ORDER BY op.hash FOR UPDATE`, oidUUID, oidUUID, oidInt8),
		[][]byte{row.hash[:], identParam(row.ident), at}, func(v [][]byte) error {
			old = append(old, archived{})
			return old[len(old)-1].read(v)
		}}
	queries := []query{look}
	if begin {
		queries = s.begun(c, look)
	}
	if err := c.exchange(ctx, queries...); err != nil {
		return nil, err
	}
	// The key is looked at first.
	for _, by := range []justonce.Match{justonce.MatchKey, justonce.MatchIdentity} {
		for i := range old {
			o := &old[i]
			if o.by(row, by) && !outlived(o.op, o.now) {
				return &justonce.Arrival{Operation: o.op, MatchedBy: by}, same(met, o.op, by)
			}
		}
	}
	for i := range old {
		if err := s.archive(ctx, c, &old[i]); err != nil {
			return nil, err
		}
	}
	var g group
	fresh := false
	params, has := g.fillRecord(oneRow(row), nil)
	err = c.exchange(ctx, query{s.record(false, has), params, func([][]byte) error {
		fresh = true
		return nil
	}})
	if err != nil {
		return nil, err
	}
	if !fresh {
		return nil, errTaken
	}
	return &justonce.Arrival{Fresh: true}, nil
}

func oneRow(r *row) []*row { return []*row{r} }

// An archived operation is one that is met and may have to be archived.
type archived struct {
	op    *justonce.Operation
	id    int64
	hash  hash
	ident *hash
	now   time.Time // the server's
}

func (o *archived) read(v [][]byte) error {
	op, at, err := scan(v)
	if err == nil {
		err = setResult(op, at, v[columnCount])
	}
	if err != nil {
		return err
	}
	o.op, o.id, o.hash = op, at.id, hash(v[colHash])
	if v[colIdent] != nil {
		h := hash(v[colIdent])
		o.ident = &h
	}
	o.now = packed.TimeOf(int64At(v, columnCount+1), packed.NoTime)
	return nil
}

func (o *archived) by(row *row, by justonce.Match) bool {
	if by == justonce.MatchKey {
		return o.hash == row.hash
	}
	return o.ident != nil && row.ident != nil && *o.ident == *row.ident
}

// archive moves an operation out of the way of a new one. The suffix is
// repeated in the rare case that the new key is taken as well.
func (s *Store) archive(ctx context.Context, c *conn, o *archived) error {
	taken := s.st.plain("taken", `SELECT true FROM $schema.op WHERE hash = $1`, oidUUID)
	suffix := "~" + strconv.FormatInt(o.op.CreatedAt.UnixNano(), 10)
	for key := o.op.Key + suffix; ; key += suffix {
		h := keyHash(o.op.Tenant, key)
		there := false
		if err := c.exchange(ctx, query{taken, [][]byte{h[:]}, func([][]byte) error { there = true; return nil }}); err != nil {
			return err
		}
		if there {
			continue
		}
		move := s.st.plain("archive", `UPDATE $schema.op SET hash = $2, key = $3, ident = NULL, version = version + 1 WHERE hash = $1`, oidUUID, oidUUID, oidText)
		watch := s.st.plain("archive watch", `UPDATE $schema.watch SET hash = $2 FROM $schema.op
			WHERE op.hash = $2 AND watch.due = op.watch AND watch.id = op.id`, oidInt8, oidUUID)
		return c.exchange(ctx,
			query{statement: move, params: [][]byte{o.hash[:], h[:], []byte(key)}},
			query{statement: watch, params: [][]byte{int64Param(o.id), h[:]}})
	}
}

func identParam(h *hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}
