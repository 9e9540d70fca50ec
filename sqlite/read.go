package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
)

// MayHave implements [justonce.Guesser] with the filter of what this process
// has seen. Where others write to the file Begin reads by itself, and MayHave is
// always false.
func (s *Store) MayHave(ref justonce.Ref) bool {
	if !s.seen.ready.Load() || s.seen.others.Load() {
		return false
	}
	return s.seen.maybe(s.hash.key(ref.Tenant, ref.Key))
}

// Get implements [justonce.Store].
func (s *Store) Get(ctx context.Context, ref justonce.Ref) (*justonce.Operation, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: get: %w", err)
	}
	r := newRequest(kindGet)
	r.row.key, r.row.tenant = ref.Key, ref.Tenant
	s.hash.fill(r)
	s.readers.read(r)
	defer r.free()
	switch {
	case r.err != nil:
		return nil, callError(ctx, "get", r.err)
	case r.op == nil:
		return nil, fmt.Errorf("sqlite: get: %w", justonce.ErrNotFound)
	}
	return r.op, nil
}

// callError says which call failed; what is not an answer of the ledger is
// its failure.
func callError(ctx context.Context, call string, err error) error {
	for _, answer := range []error{justonce.ErrNotFound, justonce.ErrStale, justonce.ErrReferenceTaken, justonce.ErrInvalid, justonce.ErrConflict} {
		if errors.Is(err, answer) {
			return fmt.Errorf("sqlite: %s: %w", call, err)
		}
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || sqlite.ErrCode(err) == sqlite.ResultInterrupt) {
		return fmt.Errorf("sqlite: %s: %w", call, context.Cause(ctx))
	}
	return unavailable(call, err)
}

// read runs f in a read transaction on the connection for long reads.
func (s *Store) read(ctx context.Context, f func(*sqlite.Conn) error) (err error) {
	var conn *sqlite.Conn
	select {
	case conn = <-s.long:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if conn == nil {
		return unavailable("reading", errClosed)
	}
	defer func() { s.long <- conn }()
	conn.SetInterrupt(ctx.Done())
	defer conn.SetInterrupt(nil)
	begin, err := conn.Prepare("BEGIN")
	if err == nil {
		err = run(begin)
	}
	if err != nil {
		return err
	}
	defer func() {
		conn.SetInterrupt(nil) // the end must not be interrupted
		end, err2 := conn.Prepare("ROLLBACK")
		if err2 == nil && !conn.AutocommitEnabled() {
			err2 = run(end)
		}
		if err == nil {
			err = err2
		}
	}()
	return f(conn)
}

// History implements [justonce.Store]. That of a tombstone is empty.
func (s *Store) History(ctx context.Context, ref justonce.Ref) ([]justonce.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: history: %w", err)
	}
	var entries []justonce.Entry
	err := s.read(ctx, func(conn *sqlite.Conn) (err error) {
		entries, err = s.historyOn(conn, ref)
		return err
	})
	if err != nil {
		return nil, callError(ctx, "history", err)
	}
	return entries, nil
}

// historyOn is History on conn.
func (s *Store) historyOn(conn *sqlite.Conn, ref justonce.Ref) ([]justonce.Entry, error) {
	stmt, err := conn.Prepare(selectBySlot)
	if err != nil {
		return nil, err
	}
	var scratch []byte
	op, at, err := lookUp(stmt, &scratch, s.hash.key(ref.Tenant, ref.Key), isKey(ref.Tenant, ref.Key))
	switch {
	case err != nil:
		return nil, err
	case op == nil:
		return nil, justonce.ErrNotFound
	}
	return history(conn, at.id, at.last)
}

// history follows the entries of an operation from the newest.
func history(conn *sqlite.Conn, op, last int64) ([]justonce.Entry, error) {
	stmt, err := conn.Prepare("SELECT prev, data, body FROM entry WHERE id = ?1 AND op = ?2")
	if err != nil {
		return nil, err
	}
	var entries []justonce.Entry
	var scratch []byte
	for id := last; id != 0; {
		stmt.BindInt64(1, id)
		stmt.BindInt64(2, op)
		found, err := stmt.Step()
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, damaged(op, fmt.Errorf("its entry %d is missing", id))
		}
		prev := stmt.ColumnInt64(0)
		if prev >= id {
			return nil, damaged(op, fmt.Errorf("its entry %d follows entry %d", id, prev))
		}
		x, err := scanEntry(stmt, 1, &scratch)
		if err != nil {
			return nil, damaged(op, fmt.Errorf("its entry %d: %w", id, err))
		}
		entries = append(entries, x)
		id = prev
		if err := stmt.Reset(); err != nil {
			return nil, err
		}
	}
	slices.Reverse(entries)
	return entries, nil
}
