package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/internal/packed"
)

// Claim implements [justonce.Store]. Operations that have been due equally
// long are picked in the order of their creation. Those that another
// transaction holds at the moment are passed over. advance is given the
// server's time at the moment of the claim.
func (s *Store) Claim(ctx context.Context, due justonce.Due, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) ([]*justonce.Operation, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: claim: %w", err)
	}
	if due.Limit < 1 {
		return nil, invalid("limit", "must be at least 1")
	}
	at, err := s.at()
	if err != nil {
		return nil, err
	}
	if due.Ref == nil {
		switch any, err := s.anyDue(ctx, due, at); {
		case err != nil:
			return nil, callError(ctx, "claim", err)
		case !any:
			return nil, nil
		}
	}
	var c claim
	err = s.transaction(ctx, func(conn *conn) error {
		c = claim{store: s, due: due, advance: advance}
		return c.run(ctx, conn, at)
	})
	if err != nil {
		return nil, callError(ctx, "claim", err)
	}
	s.batches.gone(c.rows...)
	for _, op := range c.claimed {
		s.news(op.Ref, op.State)
	}
	return c.claimed, nil
}

// What is due, with $1 the time or NULL for the server's, and $2 the horizon.
const (
	dueTime  = `(SELECT coalesce($1, ` + dbNow + `))`
	dueWatch = ` watch.state < 5 AND watch.due >= $2 AND watch.due <= ` + dueTime + ` AND watch.lease <= ` + dueTime
)

// anyDue asks whether there is anything to claim, which mostly there is not.
func (s *Store) anyDue(ctx context.Context, due justonce.Due, at []byte) (any bool, err error) {
	st := s.st.plain("any due", `SELECT true FROM $schema.watch WHERE`+dueWatch+` ORDER BY due LIMIT 1`, oidInt8, oidInt8)
	s.look(ctx, due.Tools...)
	s.lookAtBatches(ctx)
	params := [][]byte{at, int64Param(s.horizon.start(due.Tools...))}
	if len(due.Tools) > 0 {
		st = s.st.plain("any due of tools", `SELECT true FROM $schema.watch WHERE`+dueWatch+` AND tool = ANY($3) ORDER BY due LIMIT 1`, oidInt8, oidInt8, oidTexts)
		params = append(params, textsParam(due.Tools))
	}
	batch := false
	err = s.read(ctx, query{st, params, func([][]byte) error { any = true; return nil }}, s.anyBatch(at, &batch))
	if err == nil && batch {
		if err := s.expire(ctx, at); err != nil {
			s.o.Logger.Warn("ledger: looking for what dead processes have left", "error", err)
		}
		any = true
	}
	return any, err
}

// candidates returns the query that locks what may be claimed.
func (s *Store) candidates(due *justonce.Due, at []byte) (*statement, [][]byte) {
	const what = `SELECT ` + columns + `, ` + resultChunk + `, op.first, ` + dueTime + ` FROM `
	const still = ` AND op.state < 5 AND coalesce(op.watch, op.lease) <= ` + dueTime + ` AND op.lease <= ` + dueTime
	const lock = ` FOR UPDATE OF op SKIP LOCKED`
	if due.Ref != nil {
		h := keyHash(due.Ref.Tenant, due.Ref.Key)
		return s.st.plain("claim one", what+`$schema.op WHERE op.hash = $2`+still+lock, oidInt8, oidUUID), [][]byte{at, h[:]}
	}
	const from = what + `$schema.watch JOIN $schema.op ON op.hash = watch.hash WHERE` + dueWatch + still
	const order = ` ORDER BY watch.due, watch.created LIMIT $3` + lock
	params := [][]byte{at, int64Param(s.horizon.start(due.Tools...)), int64Param(int64(due.Limit))}
	if len(due.Tools) == 0 {
		return s.st.plain("claim", from+order, oidInt8, oidInt8, oidInt8), params
	}
	return s.st.plain("claim tools", from+` AND watch.tool = ANY($4)`+order, oidInt8, oidInt8, oidInt8, oidTexts), append(params, textsParam(due.Tools))
}

// A claim is one try at a Claim.
type claim struct {
	store   *Store
	due     justonce.Due
	advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)

	now     time.Time
	found   []candidate
	rows    []*row
	claimed []*justonce.Operation
}

// A candidate is an operation that the transaction has locked.
type candidate struct {
	op *justonce.Operation
	at place
	// unread: its result was recorded after the query had begun to look, and
	// before it had the lock.
	unread bool
}

// run claims in a transaction. Everything is decided before anything is
// written, so that a panic of advance leaves no half.
func (c *claim) run(ctx context.Context, conn *conn, at []byte) error {
	s := c.store
	st, params := s.candidates(&c.due, at)
	if err := conn.exchange(ctx, s.begun(conn, query{st, params, c.read})...); err != nil {
		return err
	}
	for i := range c.found {
		if err := c.take(ctx, conn, &c.found[i]); err != nil {
			return err
		}
	}
	if len(c.rows) == 0 {
		return conn.exchange(ctx, s.commit())
	}
	return s.replaceIn(ctx, conn, c.rows, s.commit())
}

// read takes a candidate. One that cannot be read is passed over, or none
// behind it would ever be claimed, unless it is the one that was asked for.
func (c *claim) read(v [][]byte) error {
	err := c.readOne(v)
	if err != nil && c.due.Ref == nil {
		c.store.o.Logger.Error("ledger: an operation that is due cannot be read", "error", err)
		return nil
	}
	return err
}

func (c *claim) readOne(v [][]byte) error {
	op, at, err := scan(v)
	if err != nil {
		return err
	}
	k := candidate{op: op, at: at}
	if k.unread = at.result < 0 && v[columnCount] == nil; !k.unread {
		if err := setResult(op, at, v[columnCount]); err != nil {
			return err
		}
	}
	args, err := entries.Arguments(v[columnCount+1])
	if err != nil {
		return damaged(op.Key, err)
	}
	if args != nil {
		op.Arguments = args
	}
	c.now = packed.TimeOf(int64At(v, columnCount+2), packed.NoTime)
	c.found = append(c.found, k)
	return nil
}

// take lets advance change a candidate.
func (c *claim) take(ctx context.Context, conn *conn, k *candidate) error {
	op := k.op
	if !op.IsDue(c.now) || len(c.due.Tools) > 0 && !slices.Contains(c.due.Tools, op.Tool) {
		return nil
	}
	if k.unread {
		if err := c.readResult(ctx, conn, k); err != nil {
			return err
		}
	}
	was := *op
	entries, ok := c.advance(op, c.now)
	if !ok {
		return nil
	}
	// What never changes, whatever advance did.
	op.Ref, op.Fingerprint, op.Identity = was.Ref, was.Fingerprint, was.Identity
	op.Tool, op.Scope, op.RunID = was.Tool, was.Scope, was.RunID
	op.CreatedAt, op.Arguments, op.Result, op.Version = was.CreatedAt, was.Arguments, was.Result, was.Version+1
	r := &row{}
	if err := r.encode(op, op.Version, entries); err != nil {
		return err
	}
	for i := range entries {
		if entries[i].IsResult && len(entries[i].Body) > 0 {
			op.Result = slices.Clone(entries[i].Body)
		}
	}
	c.rows = append(c.rows, r)
	c.claimed = append(c.claimed, op)
	return nil
}

func (c *claim) readResult(ctx context.Context, conn *conn, k *candidate) error {
	st := c.store.st.plain("chunk", `SELECT chunk FROM $schema.entry WHERE op = $1 AND version = $2`, oidInt8, oidInt8)
	err := damaged(k.op.Key, errors.New("its result is missing"))
	queryErr := conn.exchange(ctx, query{st, [][]byte{int64Param(k.at.id), int64Param(-k.at.result)}, func(v [][]byte) error {
		err = setResult(k.op, k.at, v[0])
		return nil
	}})
	if queryErr != nil {
		return queryErr
	}
	return err
}
