package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/internal/packed"
)

// claimFor is for how long a claim keeps what it has found from other claims.
// If its process dies meanwhile they wait that long; if it is slower, the
// versions decide who has the operation.
const claimFor = 3 * time.Second

// Claim implements [justonce.Store]. Operations that have been due equally
// long are picked in the order of their creation. Those that another claim has
// in hand are passed over. advance is given the server's time at the moment of
// the claim; where another write was faster, what it did is dropped.
//
// A script cannot call advance, so that a claim takes two steps: the first finds
// what is due and reserves it, the second writes what advance made of it.
func (s *Store) Claim(ctx context.Context, due justonce.Due, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) ([]*justonce.Operation, error) {
	if err := s.enter(ctx, "claim"); err != nil {
		return nil, err
	}
	defer s.underway.Done()
	if due.Limit < 1 {
		return nil, invalid("limit", "must be at least 1")
	}
	now, err := s.timeArg()
	if err != nil {
		return nil, err
	}
	c := claim{store: s, due: due}
	if err := c.find(ctx, now); err != nil {
		return nil, callError("claim", err)
	}
	if len(c.hashes) == 0 {
		return nil, nil
	}
	claimed, err := c.take(ctx, advance)
	if err != nil {
		return nil, callError("claim", err)
	}
	for _, op := range claimed {
		s.news(op.Ref, op.State)
	}
	return claimed, nil
}

type claim struct {
	store  *Store
	due    justonce.Due
	now    time.Time
	hashes []string // of all that is reserved
	found  []*justonce.Operation
}

// find reserves what is due. What cannot be read is passed over, or none behind
// it would ever be claimed, unless it is the one that was asked for.
func (c *claim) find(ctx context.Context, now string) error {
	s := c.store
	only, behind := "", ""
	if c.due.Ref != nil {
		h := keyHash(c.due.Ref.Tenant, c.due.Ref.Key)
		only = string(h[:])
	}
	var tools strings.Builder
	for _, tool := range c.due.Tools {
		h := toolHash(tool)
		tools.Write(h[:])
	}
	for {
		v, err := strs(s.write(ctx, scriptClaim, now, strconv.FormatInt(claimFor.Milliseconds(), 10),
			strconv.Itoa(c.due.Limit-len(c.found)), tools.String(), behind, only))
		if err != nil {
			return err
		}
		if len(v) < 2 || len(v)%4 != 2 || len(v[0]) != 8 {
			return errAnswer
		}
		c.now, behind = packed.TimeOf(getTime(v[0]), packed.NoTime), v[1]
		for v = v[2:]; len(v) > 0; v = v[4:] {
			c.hashes = append(c.hashes, v[0])
			switch err := c.read(v[0], v[1], v[2], v[3]); {
			case err != nil && c.due.Ref != nil:
				return err
			case err != nil:
				s.o.Logger.Error("ledger: an operation that is due cannot be read", "error", err)
			}
		}
		if behind == "" || len(c.found) == c.due.Limit {
			return nil
		}
	}
}

// read takes an operation that the script has found.
func (c *claim) read(h, row, first, chunk string) error {
	op, err := decodeResult(row, chunk)
	if err != nil {
		return err
	}
	if keyHash(op.Tenant, op.Key) != hash([]byte(h)) {
		return same(op, "", h)
	}
	if op.Arguments, err = entries.Arguments([]byte(first)); err != nil {
		return damaged(err)
	}
	if op.IsDue(c.now) && (len(c.due.Tools) == 0 || slices.Contains(c.due.Tools, op.Tool)) {
		c.found = append(c.found, op)
	}
	return nil
}

// take lets advance change what was found, writes it and ends the reservation.
func (c *claim) take(ctx context.Context, advance func(*justonce.Operation, time.Time) ([]justonce.Entry, bool)) ([]*justonce.Operation, error) {
	var rows []*row
	var taken []*justonce.Operation
	for _, op := range c.found {
		was := *op
		entries, ok := advance(op, c.now)
		if !ok {
			continue
		}
		// What never changes, whatever advance did.
		op.Ref, op.Fingerprint, op.Identity = was.Ref, was.Fingerprint, was.Identity
		op.CreatedAt, op.Arguments, op.Result, op.Version = was.CreatedAt, was.Arguments, was.Result, was.Version+1
		r := &row{}
		if err := r.encode(op, op.Version, entries); err != nil {
			return nil, err
		}
		r.exclusive = false // a claim learns of no reference
		for i := range entries {
			if entries[i].IsResult && len(entries[i].Body) > 0 {
				op.Result = slices.Clone(entries[i].Body)
			}
		}
		rows, taken = append(rows, r), append(taken, op)
	}
	done, err := c.store.update(ctx, rows, c.hashes...)
	if err != nil {
		return nil, err
	}
	claimed := taken[:0]
	for i, op := range taken {
		switch err := done[i]; {
		case err == nil:
			claimed = append(claimed, op)
		case !errors.Is(err, justonce.ErrStale):
			c.store.o.Logger.Error("ledger: an operation that is due cannot be written", "error", err)
		}
	}
	return claimed, nil
}
