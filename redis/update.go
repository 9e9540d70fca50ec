package redis

import (
	"context"
	"strconv"

	justonce "github.com/justonce-dev/justonce"
)

// Update implements [justonce.Store].
func (s *Store) Update(ctx context.Context, op *justonce.Operation, entries ...justonce.Entry) error {
	if err := s.enter(ctx, "update"); err != nil {
		return err
	}
	defer s.underway.Done()
	var r row
	if err := r.encode(op, op.Version+1, entries); err != nil {
		return err
	}
	done, err := s.update(ctx, []*row{&r})
	if err == nil {
		err = done[0]
	}
	if err != nil {
		return callError("update", err)
	}
	op.Version++
	s.news(op.Ref, op.State)
	return nil
}

// update replaces rows in one step and gives back candidates of a claim. It
// returns for each row what became of it.
func (s *Store) update(ctx context.Context, rows []*row, candidates ...string) ([]error, error) {
	args := make([]string, 0, 1+10*len(rows)+len(candidates))
	args = append(args, strconv.Itoa(len(rows)))
	for _, r := range rows {
		args = r.appendUpdate(args)
	}
	m, err := s.write(ctx, scriptUpdate, append(args, candidates...)...)
	if err != nil {
		return nil, err
	}
	codes, err := m.AsIntSlice()
	if err != nil {
		return nil, err
	}
	if len(codes) != len(rows) {
		return nil, errAnswer
	}
	done := make([]error, len(rows))
	for i, code := range codes {
		switch code {
		case 1:
		case 0:
			done[i] = justonce.ErrStale
		case -1:
			done[i] = justonce.ErrReferenceTaken
		default:
			return nil, errAnswer
		}
	}
	return done, nil
}

// appendUpdate appends r as the script wants it.
func (r *row) appendUpdate(args []string) []string {
	result, exclusive := "", ""
	if r.hasResult {
		result = "r"
	}
	if r.exclusive {
		exclusive = "x"
	}
	return append(args, string(r.hash[:]), r.expected(), text(r.head[:]), text(r.data), text(r.chunk),
		strconv.FormatInt(r.version, 10), result, exclusive, r.name(), r.tenant)
}
