package redis

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

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
	err := updated(s.updates.do(r.appendUpdate(make([]string, 0, 10)), time.Now().Add(s.o.Timeout)))
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
	args := make([]string, 0, 2+10*len(rows)+len(candidates))
	args = append(args, "", strconv.Itoa(len(rows)))
	for _, r := range rows {
		args = r.appendUpdate(args)
	}
	m, err := s.write(ctx, scriptUpdate, append(args, candidates...)...)
	if err != nil {
		return nil, err
	}
	answers, err := answersOf(m, len(rows))
	if err != nil {
		return nil, err
	}
	done := make([]error, len(rows))
	for i, m := range answers {
		done[i] = updated(m, nil)
	}
	return done, nil
}

// updated returns what the answer to an update says.
func updated(m rueidis.RedisMessage, err error) error {
	if err != nil {
		return err
	}
	code, err := m.AsInt64()
	switch {
	case err != nil:
		return err
	case code == 1:
		return nil
	case code == 0:
		return justonce.ErrStale
	case code == -1:
		return justonce.ErrReferenceTaken
	}
	return errAnswer
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
