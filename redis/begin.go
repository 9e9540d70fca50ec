package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// tries is how often a Begin looks again when what it met has changed.
const tries = 20

var errRestless = errors.New("the operations with its key and identity change too quickly")

// outlived reports whether op no longer answers for its key and identity.
func (s *Store) outlived(op *justonce.Operation) bool {
	return op.State.Ended() && !op.DedupeUntil.IsZero() && !op.DedupeUntil.After(s.Now())
}

// Begin implements [justonce.Store].
func (s *Store) Begin(ctx context.Context, op *justonce.Operation, arrived justonce.Entry) (*justonce.Arrival, error) {
	if err := s.enter(ctx, "begin"); err != nil {
		return nil, err
	}
	defer s.underway.Done()
	var r row
	if err := r.encode(op, 1, []justonce.Entry{arrived}); err != nil {
		return nil, err
	}
	a, err := s.begin(ctx, &r, time.Now().Add(s.o.Timeout))
	if err != nil {
		return nil, callError("begin", err)
	}
	s.seen.Add(r.hash)
	if a.Fresh {
		op.Version = 1
		s.news(op.Ref, op.State)
	}
	return a, nil
}

// begin reads first if it has seen the key, which costs the server less than a
// script. Either way the server decides: a wrong answer of the filter costs a
// round trip, nothing else. All of it has time until until.
func (s *Store) begin(ctx context.Context, r *row, until time.Time) (*justonce.Arrival, error) {
	if s.seen.MayHave(r.hash) {
		within, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		found, err := s.find(within, r.tenant, r.key, r.hash)
		if err != nil {
			return nil, err
		}
		if found != nil && !s.outlived(found) {
			return &justonce.Arrival{Operation: found, MatchedBy: justonce.MatchKey}, nil
		}
	}
	args := []string{string(r.hash[:]), text(r.whole()), text(r.chunk), r.name(), r.tenant, "0"}
	own := len(args)
	longer := map[string]int{} // how often the suffix of an archived key is repeated
	for range tries {
		m, err := s.begins.do(args, until)
		if err == nil && m.IsInt64() {
			return &justonce.Arrival{Fresh: true}, nil
		}
		v, err := strs(m, err)
		if err != nil {
			return nil, err
		}
		switch {
		case len(v) == 2 && v[0] == "taken":
			longer[v[1]]++
			args = append(args[:own-1], "0")
		case len(v) > 1 && v[0] == "old":
			args = append(args[:own-1], strconv.Itoa(len(v)/2))
			for i := 1; i+1 < len(v); i += 2 {
				if args, err = appendArchived(args, v[i], v[i+1], longer[v[i]]); err != nil {
					return nil, err
				}
			}
		case len(v) == 3:
			return s.met(r, justonce.Match(v[0]), v[1], v[2])
		default:
			return nil, errAnswer
		}
	}
	return nil, errRestless
}

var errAnswer = errors.New("the server's answer is none of ours")

// met reads what r met.
func (s *Store) met(r *row, by justonce.Match, row, chunk string) (*justonce.Arrival, error) {
	op, err := decodeResult(row, chunk)
	if err != nil {
		return nil, err
	}
	if op.Tenant != r.tenant || by == justonce.MatchKey && op.Key != r.key {
		return nil, damaged(fmt.Errorf("it has the hash of %q", r.key))
	}
	return &justonce.Arrival{Operation: op, MatchedBy: by}, nil
}

// appendArchived appends what the script needs to move an operation out of the
// way of a new one. The suffix of its key is repeated where that is taken.
func appendArchived(args []string, h, was string, longer int) ([]string, error) {
	op, result, err := decodeRow(was)
	if err != nil {
		return nil, err
	}
	name := rowName([]byte(was[offCreated:offUpdated]), op.Key, hash([]byte(h)))
	expected := was[offVersion:offUpdated]
	suffix := "~" + strconv.FormatInt(op.CreatedAt.UnixNano(), 10)
	for range longer + 1 {
		op.Key += suffix
	}
	op.Identity = ""
	var r row
	if err := r.encode(op, op.Version+1, nil); err != nil {
		return nil, err
	}
	r.head[offPurged] = was[offPurged]
	putVersion(r.head[offResult:], result)
	return append(args, h, expected, name, string(r.hash[:]), text(r.whole()), r.name()), nil
}
