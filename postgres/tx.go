package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/outbox"
)

// EnqueueTx records op, which must be pending, in the caller's transaction: it
// is there if and only if tx is committed, together with whatever else tx
// wrote (a transactional outbox). A worker executes it after that, once it looks:
// there is no news of such an operation. [justonce.Runner.Prepare] makes op of a
// call. CreatedAt, UpdatedAt and Due default to now.
//
// An operation that is already there is returned as by Begin. If its
// fingerprint is another, the error is a *justonce.ConflictError, whose Paths may
// name arguments that the tool ignores, too: its rules are not known here.
//
// Until tx ends, calls with the same key or identity wait for it, one second at
// most, and are then refused with justonce.ErrUnavailable; another EnqueueTx or
// DoTx waits as long as its transaction's lock_timeout lets it. Keep
// transactions short. tx must be one on the store's database. At isolation
// levels above read committed a concurrent call can end tx with a
// serialization failure (SQLSTATE 40001). After any error but a conflict tx
// can only be rolled back.
func (s *Store) EnqueueTx(ctx context.Context, tx pgx.Tx, op *justonce.Operation) (*justonce.Arrival, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: enqueue: %w", err)
	}
	if err := outbox.Enqueue(op, s.Now()); err != nil {
		return nil, callError(ctx, "enqueue", err)
	}
	a, err := s.beginTx(ctx, tx, op)
	if err != nil {
		return nil, callError(ctx, "enqueue", err)
	}
	return a, nil
}

// DoTx runs effect and records its result in one transaction, within tx: once
// tx is committed the effect, which writes through the transaction that it is
// given, has happened exactly once for op's key. If tx is rolled back, neither
// has.
//
// A later call with the key gets the first one's operation with its Result, and
// effect does not run; while another transaction with the key is under way it
// waits for that. If op's fingerprint is another than the recorded one, the
// error is a *justonce.ConflictError. What EnqueueTx says of tx holds here too.
//
// If effect fails, what it wrote is undone, nothing is recorded, its error is
// returned as it is, and tx can still be used. What effect does outside the
// database has no part in this.
//
// op names the call (Ref, Tool, Fingerprint, Arguments and what else is known);
// [justonce.Runner.Prepare] makes it. Its Status is set here. CreatedAt and
// UpdatedAt default to now.
func (s *Store) DoTx(ctx context.Context, tx pgx.Tx, op *justonce.Operation,
	effect func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error),
) (*justonce.Arrival, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: do: %w", err)
	}
	inner, err := tx.Begin(ctx) // a savepoint
	if err != nil {
		return nil, callError(ctx, "do", err)
	}
	done := false
	defer func() {
		if !done {
			inner.Rollback(context.WithoutCancel(ctx))
		}
	}()
	outbox.Start(op, s.Now())
	a, err := s.beginTx(ctx, inner, op)
	if err != nil {
		return nil, callError(ctx, "do", err)
	}
	if a.Fresh {
		result, err := effect(ctx, inner)
		if err != nil {
			return nil, err
		}
		if err := s.endTx(ctx, inner, op, result); err != nil {
			return nil, callError(ctx, "do", err)
		}
	}
	if err := inner.Commit(ctx); err != nil {
		return nil, callError(ctx, "do", err)
	}
	done = true
	return a, nil
}

// beginTx is Begin within tx, and compares fingerprints.
func (s *Store) beginTx(ctx context.Context, tx pgx.Tx, op *justonce.Operation) (*justonce.Arrival, error) {
	var r row
	if err := r.encode(op, 1, []justonce.Entry{outbox.Arrived(op)}); err != nil {
		return nil, err
	}
	// What commits the operation must be waited for, as ever. That tx says so
	// itself shows that it has not ended: its connection may be another's by now.
	const durable = `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`
	if _, err := tx.Exec(ctx, durable, pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, err
	}
	c := connOf(tx)
	var a *justonce.Arrival
	err := error(errTaken)
	for try := 0; try < tries && err == errTaken; try++ {
		a, err = s.tryTx(ctx, c, &r)
	}
	switch {
	case err == errTaken:
		return nil, errRestless
	case err != nil:
		return nil, err
	case a.Fresh:
		op.Version = 1
		return a, nil
	}
	return a, outbox.Conflict(a, op, func() ([]justonce.Entry, error) { return s.historyIn(ctx, c, a.Operation.Ref) })
}

// tryTx records r if it is new. Else it looks at what is there, and locks only
// what it has to archive.
func (s *Store) tryTx(ctx context.Context, c *conn, r *row) (*justonce.Arrival, error) {
	var g group
	fresh := false
	params, has := g.fillRecord(oneRow(r), nil)
	err := c.exchange(ctx, query{s.record(false, has), params, func([][]byte) error { fresh = true; return nil }})
	if err != nil || fresh {
		return &justonce.Arrival{Fresh: true}, err
	}
	look := newRequest(kindRead)
	look.row.tenant, look.row.key, look.row.hash, look.row.ident = r.tenant, r.key, r.hash, r.ident
	rd := reader{store: s}
	if err := rd.exchange(ctx, c, []*request{look}); err != nil {
		return nil, err
	}
	switch {
	case look.err != nil:
		return nil, look.err
	case look.found == nil:
		return nil, errTaken
	case !look.outlived:
		return &justonce.Arrival{Operation: look.found, MatchedBy: look.match}, nil
	}
	return s.beginIn(ctx, c, r, false)
}

// endTx records in tx that op, which it began, has succeeded.
func (s *Store) endTx(ctx context.Context, tx pgx.Tx, op *justonce.Operation, result json.RawMessage) error {
	entry, err := outbox.Finish(op, result, s.Now())
	if err != nil {
		return err
	}
	var r row
	if err := r.encode(op, 2, []justonce.Entry{entry}); err != nil {
		return err
	}
	if err := s.replaceIn(ctx, connOf(tx), []*row{&r}); err != nil {
		return err
	}
	op.Version, op.Result = 2, entry.Body
	return nil
}
