package inmem

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/justonce-dev/justonce"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
)

// A position is where an operation stands in the list. A cursor is the
// position of the last operation of a page.
type position struct {
	CreatedAt time.Time
	Key       string
}

// compare orders positions newest first.
func (p position) compare(q position) int {
	return cmp.Or(q.CreatedAt.Compare(p.CreatedAt), cmp.Compare(q.Key, p.Key))
}

func (r *row) position() position { return position{r.op.CreatedAt, r.op.Key} }

// List implements [justonce.Store]. A limit above 1000 is taken for 1000.
func (s *Store) List(ctx context.Context, f justonce.Filter) (*justonce.Page, error) {
	if err := s.before(ctx, "List"); err != nil {
		return nil, err
	}
	limit := min(f.Limit, maxLimit)
	if limit <= 0 {
		limit = defaultLimit
	}
	var after *position
	if f.Cursor != "" {
		p, err := parseCursor(f.Cursor)
		if err != nil {
			return nil, fmt.Errorf("inmem: List: %w", &justonce.InvalidError{Field: "cursor", Detail: "is not one that List returned"})
		}
		after = &p
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*row
	for _, r := range s.rows {
		if selects(&f, r.op) && (after == nil || after.compare(r.position()) < 0) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *row) int { return a.position().compare(b.position()) })

	page := &justonce.Page{}
	for _, r := range found[:min(limit, len(found))] {
		page.Operations = append(page.Operations, r.bare())
	}
	if len(found) > limit {
		page.Next = found[limit-1].position().cursor()
	}
	return page, nil
}

func selects(f *justonce.Filter, op *justonce.Operation) bool {
	return op.Tenant == f.Tenant &&
		(len(f.States) == 0 || slices.Contains(f.States, op.State)) &&
		(f.Tool == "" || f.Tool == op.Tool) &&
		(f.Scope == "" || f.Scope == op.Scope) &&
		(f.RunID == "" || f.RunID == op.RunID) &&
		(f.Reference == "" || f.Reference == op.Reference) &&
		(f.Identity == "" || f.Identity == op.Identity) &&
		(f.Since.IsZero() || !op.CreatedAt.Before(f.Since)) &&
		(f.Until.IsZero() || op.CreatedAt.Before(f.Until))
}

func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString(
		fmt.Appendf(nil, "%d %d %s", p.CreatedAt.Unix(), p.CreatedAt.Nanosecond(), p.Key))
}

func parseCursor(s string) (position, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return position{}, err
	}
	sec, rest, _ := strings.Cut(string(b), " ")
	nsec, key, _ := strings.Cut(rest, " ")
	unix, err1 := strconv.ParseInt(sec, 10, 64)
	nano, err2 := strconv.ParseInt(nsec, 10, 64)
	return position{CreatedAt: time.Unix(unix, nano), Key: key}, errors.Join(err1, err2)
}
