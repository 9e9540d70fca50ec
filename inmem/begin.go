package inmem

import (
	"context"
	"strconv"

	"github.com/justonce-dev/justonce"
)

// Begin implements [justonce.Store].
func (s *Store) Begin(ctx context.Context, op *justonce.Operation, arrived justonce.Entry) (*justonce.Arrival, error) {
	if err := s.before(ctx, "Begin"); err != nil {
		return nil, err
	}
	arrival := s.begin(op, arrived)
	if err := s.after("Begin"); err != nil {
		return nil, err
	}
	if arrival.Fresh {
		op.Version = 1
	}
	return arrival, nil
}

func (s *Store) begin(op *justonce.Operation, arrived justonce.Entry) *justonce.Arrival {
	s.mu.Lock()
	defer s.mu.Unlock()

	byKey := s.rows[op.Ref]
	if byKey != nil && !s.outlived(byKey) {
		return &justonce.Arrival{Operation: byKey.withResult(), MatchedBy: justonce.MatchKey}
	}
	byIdentity := s.identities[identity{op.Tenant, op.Identity}]
	if byIdentity != nil && !s.outlived(byIdentity) {
		return &justonce.Arrival{Operation: byIdentity.withResult(), MatchedBy: justonce.MatchIdentity}
	}

	if byKey != nil {
		s.archive(byKey)
	}
	if byIdentity != nil && byIdentity != byKey {
		s.archive(byIdentity)
	}
	r := &row{op: cloneOperation(op), entries: cloneEntries([]justonce.Entry{arrived})}
	r.op.Version = 1
	r.op.Result = nil
	s.rows[op.Ref] = r
	if op.Identity != "" {
		s.identities[identity{op.Tenant, op.Identity}] = r
	}
	return &justonce.Arrival{Fresh: true}
}

// outlived reports whether r no longer answers for its key and identity.
func (s *Store) outlived(r *row) bool {
	until := r.op.DedupeUntil
	return r.op.State.Ended() && !until.IsZero() && !until.After(s.Now())
}

// archive moves r out of the way of a new operation. The suffix is repeated in
// the rare case that the new key is taken as well.
func (s *Store) archive(r *row) {
	delete(s.rows, r.op.Ref)
	delete(s.identities, identity{r.op.Tenant, r.op.Identity})
	r.op.Identity = ""
	r.op.Version++
	suffix := "~" + strconv.FormatInt(r.op.CreatedAt.UnixNano(), 10)
	r.op.Key += suffix
	for s.rows[r.op.Ref] != nil {
		r.op.Key += suffix
	}
	s.rows[r.op.Ref] = r
}
