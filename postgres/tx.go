package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
)

// EnqueueTx records op, which must be pending, in the caller's transaction: it
// is there if and only if tx is committed, together with whatever else tx
// wrote (a transactional outbox). A worker executes it after that, once it looks:
// there is no news of such an operation. [justonce.Runner.Prepare] makes op of a
// call. CreatedAt, UpdatedAt and Due default to now.
//
// An operation that is already there is returned as by Begin. If its
// fingerprint is another, the error is a *justonce.ConflictError.
//
// Until tx ends, others who use the same key or identity wait for it, one
// second at most, and are then refused with justonce.ErrUnavailable: keep
// transactions short. tx must be one on the store's database. At isolation
// levels above read committed a concurrent call can end tx with a
// serialization failure (SQLSTATE 40001). After any error but a conflict tx
// can only be rolled back.
func (s *Store) EnqueueTx(ctx context.Context, tx pgx.Tx, op *justonce.Operation) (*justonce.Arrival, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: enqueue: %w", err)
	}
	if op.State != justonce.Pending {
		return nil, invalid("state", fmt.Sprintf("must be %s to be enqueued, not %q", justonce.Pending, op.State))
	}
	s.date(op)
	if op.Due.IsZero() {
		op.Due = op.CreatedAt
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
	s.date(op)
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
	op.Status = justonce.Status{State: justonce.Running, Fence: 1, Attempts: 1, FirstSent: op.CreatedAt}
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

func (s *Store) date(op *justonce.Operation) {
	if op.CreatedAt.IsZero() {
		op.CreatedAt = s.Now()
	}
	if op.UpdatedAt.IsZero() {
		op.UpdatedAt = op.CreatedAt
	}
}

// beginTx is Begin within tx, and compares fingerprints.
func (s *Store) beginTx(ctx context.Context, tx pgx.Tx, op *justonce.Operation) (*justonce.Arrival, error) {
	entry := justonce.Entry{Kind: justonce.EntryArrived, At: op.CreatedAt, State: op.State, Fence: op.Fence, Body: op.Arguments}
	var r row
	if err := r.encode(op, 1, []justonce.Entry{entry}); err != nil {
		return nil, err
	}
	c := connOf(tx)
	// What commits the operation must be waited for, as ever.
	durable := query{statement: s.st.plain("durable", `SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`)}
	if err := c.exchange(ctx, durable); err != nil {
		return nil, err
	}
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
	case a.Operation.Fingerprint != op.Fingerprint:
		return nil, conflict(a, op)
	}
	return a, nil
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
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	if !json.Valid(result) {
		return invalid("result", "must be JSON")
	}
	now := s.Now()
	op.Status = justonce.Status{State: justonce.Succeeded, Fence: 1, Attempts: 1, FirstSent: op.FirstSent}
	digest := sha256.Sum256(result)
	op.Digest = hex.EncodeToString(digest[:])
	op.UpdatedAt = now
	var r row
	err := r.encode(op, 2, []justonce.Entry{{
		Kind: justonce.EntryAttempt, At: now, Started: op.FirstSent, Fence: 1, State: op.State,
		Outcome: justonce.EventSucceeded, Body: result, IsResult: true,
	}})
	if err != nil {
		return err
	}
	if err := s.replaceIn(ctx, connOf(tx), []*row{&r}); err != nil {
		return err
	}
	op.Version, op.Result = 2, result
	return nil
}

func conflict(a *justonce.Arrival, op *justonce.Operation) error {
	e := &justonce.ConflictError{Operation: a.Operation, MatchedBy: a.MatchedBy}
	if a.Operation.Tool != op.Tool {
		e.Differs = append(e.Differs, "tool")
	}
	if a.Operation.Scope != op.Scope {
		e.Differs = append(e.Differs, "scope")
	}
	if e.Differs == nil {
		e.Differs = []string{"arguments"}
	}
	return e
}
