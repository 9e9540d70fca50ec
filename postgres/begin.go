package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// outlived reports whether op no longer answers for its key and identity.
func outlived(op *justonce.Operation, now time.Time) bool {
	return op.State.Ended() && !op.DedupeUntil.IsZero() && !op.DedupeUntil.After(now)
}

// Begin implements [justonce.Store]. An operation that this process has seen is
// looked up; it does not wait for a commit.
func (s *Store) Begin(ctx context.Context, op *justonce.Operation, arrived justonce.Entry) (*justonce.Arrival, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: begin: %w", err)
	}
	r := newRequest(kindRecord)
	defer r.release()
	if err := r.row.encode(op, 1, []justonce.Entry{arrived}); err != nil {
		return nil, err
	}
	s.include(&r.row)
	a, err := s.begin(ctx, r)
	if err != nil {
		return nil, callError(ctx, "begin", err)
	}
	s.seen.Add(r.row.hash)
	if r.row.ident != nil {
		s.seen.Add(*r.row.ident)
	}
	if a.Fresh {
		op.Version = 1
		s.news(op.Ref, op.State)
	}
	return a, nil
}

var errRestless = errors.New("the operations with its key and identity change too quickly")

// begin goes straight to the writers with what it has never seen; any other
// reads first, so that a replay does not wait for a commit. Either way the
// database decides: a wrong answer of the filter costs a round trip, nothing
// else.
func (s *Store) begin(ctx context.Context, r *request) (*justonce.Arrival, error) {
	row := &r.row
	look := s.seen.MayHave(row.hash) || row.ident != nil && s.seen.MayHave(*row.ident)
	for range tries {
		if look {
			a, err := s.meet(ctx, row)
			switch {
			case err == errOutlived:
				return s.beginAlone(ctx, row)
			case a != nil || err != nil:
				return a, err
			}
		}
		switch {
		case !s.writers.do(ctx, r):
			return nil, context.Cause(ctx)
		case r.err != nil:
			return nil, r.err
		case r.ok:
			return &justonce.Arrival{Fresh: true}, nil
		}
		look = true // something is there
	}
	return nil, errRestless
}

// errOutlived says that what is there no longer answers.
var errOutlived = errors.New("it no longer answers")

// meet returns what row meets, nil if there is nothing.
func (s *Store) meet(ctx context.Context, row *row) (*justonce.Arrival, error) {
	r := newRequest(kindRead)
	defer r.release()
	r.row.tenant, r.row.key, r.row.hash, r.row.ident = row.tenant, row.key, row.hash, row.ident
	switch {
	case !s.ask(ctx, r):
		return nil, context.Cause(ctx)
	case r.err != nil:
		return nil, r.err
	case r.found == nil:
		return nil, nil
	case r.outlived:
		return nil, errOutlived
	}
	return &justonce.Arrival{Operation: r.found, MatchedBy: r.match}, nil
}

// beginAlone records row in a transaction of its own, which archives what no
// longer answers.
func (s *Store) beginAlone(ctx context.Context, row *row) (a *justonce.Arrival, err error) {
	err = s.transaction(ctx, func(c *conn) (err error) {
		a, err = s.beginIn(ctx, c, row, true)
		if err == nil {
			err = c.exchange(ctx, s.commit())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}
