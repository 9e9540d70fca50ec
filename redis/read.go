package redis

import (
	"context"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
)

// MayHave implements [justonce.Guesser] with what this process has seen. It may
// be false of what another process recorded.
func (s *Store) MayHave(ref justonce.Ref) bool { return s.seen.MayHave(keyHash(ref.Tenant, ref.Key)) }

// Get implements [justonce.Store].
func (s *Store) Get(ctx context.Context, ref justonce.Ref) (*justonce.Operation, error) {
	if err := s.enter(ctx, "get"); err != nil {
		return nil, err
	}
	defer s.underway.Done()
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	h := keyHash(ref.Tenant, ref.Key)
	op, err := s.find(ctx, ref.Tenant, ref.Key, h)
	if err == nil && op == nil {
		err = s.absent(ctx)
	}
	if err != nil {
		return nil, callError("get", err)
	}
	s.seen.Add(h)
	return op, nil
}

// find reads an operation with its result; nil: it is not there.
func (s *Store) find(ctx context.Context, tenant, key string, h hash) (*justonce.Operation, error) {
	v, err := strs(s.client.Do(ctx, s.client.B().Hmget().Key(s.opKey(h)).Field("r", "x").Build()).ToMessage())
	switch {
	case err != nil:
		return nil, err
	case len(v) != 2:
		return nil, errAnswer
	case v[0] == "":
		return nil, nil
	}
	op, err := decodeResult(v[0], v[1])
	if err != nil {
		return nil, err
	}
	return op, same(op, tenant, key)
}

// same refuses an operation that has a hash in common with another, and
// nothing else.
func same(op *justonce.Operation, tenant, key string) error {
	if op.Tenant == tenant && op.Key == key {
		return nil
	}
	return damaged(fmt.Errorf("it has the hash of %q", key))
}

func (s *Store) opKey(h hash) string { return s.at + "op:" + string(h[:]) }

// absent returns ErrNotFound, or another error if the whole ledger is absent:
// then nothing is known of any operation.
func (s *Store) absent(ctx context.Context) error {
	mark, err := strs(s.read(ctx, scriptProbe))
	switch {
	case err != nil:
		return err
	case len(mark) != 3 || mark[2] != s.mark:
		return errGone
	}
	return justonce.ErrNotFound
}

// History implements [justonce.Store]. That of a tombstone is empty.
func (s *Store) History(ctx context.Context, ref justonce.Ref) ([]justonce.Entry, error) {
	if err := s.enter(ctx, "history"); err != nil {
		return nil, err
	}
	defer s.underway.Done()
	all, err := s.history(ctx, ref)
	if err != nil {
		return nil, callError("history", err)
	}
	return all, nil
}

func (s *Store) history(ctx context.Context, ref justonce.Ref) ([]justonce.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	fields, err := s.client.Do(ctx, s.client.B().Hgetall().Key(s.opKey(keyHash(ref.Tenant, ref.Key))).Build()).AsStrMap()
	if err != nil {
		return nil, err
	}
	row, ok := fields["r"]
	if !ok {
		return nil, s.absent(ctx)
	}
	op, result, err := decodeRow(row)
	if err == nil {
		err = same(op, ref.Tenant, ref.Key)
	}
	if err != nil {
		return nil, err
	}
	if _, ok := fields["x"]; !ok && result != 0 {
		return nil, damaged(fmt.Errorf("the result of %q, recorded with version %d, is missing", ref.Key, result))
	}
	delete(fields, "r")
	var h entries.History
	for _, chunk := range fields {
		if err := h.Add([]byte(chunk)); err != nil {
			return nil, damaged(err)
		}
	}
	all, err := h.Entries()
	if err != nil {
		return nil, damaged(err)
	}
	return all, nil
}
