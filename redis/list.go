package redis

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
	// listGroup is how many rows are read in one step at least.
	listGroup = 100
)

// List implements [justonce.Store]. A limit above 1000 is taken for 1000. It
// finds by identity, by reference and, but for succeeded, by state; other
// filters look at all operations of the tenant in the time given. A page is read
// in several steps, between which others write.
func (s *Store) List(ctx context.Context, f justonce.Filter) (*justonce.Page, error) {
	if err := s.enter(ctx, "list"); err != nil {
		return nil, err
	}
	defer s.underway.Done()
	q, err := newListQuery(&f)
	if err != nil {
		return nil, err
	}
	var found []*justonce.Operation
	switch {
	case q.upper <= q.lower:
	case f.Identity != "":
		h := identityHash(f.Tenant, f.Identity)
		found, err = s.listHeld(ctx, q, "id:"+string(h[:]))
	case f.Reference != "":
		h := referenceHash(f.Tenant, f.Reference)
		found, err = s.listHeld(ctx, q, "ref:"+string(h[:]))
	case len(f.States) > 0 && !slices.Contains(f.States, justonce.Succeeded):
		for _, state := range q.states() {
			part, err := s.walk(ctx, q, "watch", string(stateCodes[state]), f.Tenant)
			if err != nil {
				return nil, callError("list", err)
			}
			found = append(found, part...)
		}
	default:
		found, err = s.walk(ctx, q, "list:"+f.Tenant, "", "")
	}
	if err != nil {
		return nil, callError("list", err)
	}
	return q.page(found), nil
}

type listQuery struct {
	*justonce.Filter
	limit        int
	lower, upper string // of the names; upper is exclusive
}

func newListQuery(f *justonce.Filter) (*listQuery, error) {
	q := &listQuery{Filter: f, limit: min(f.Limit, maxLimit), upper: strings.Repeat("\xff", 9)}
	if q.limit <= 0 {
		q.limit = defaultLimit
	}
	var err error
	if !f.Since.IsZero() {
		if q.lower, err = timeArg(f.Since); err != nil {
			return nil, err
		}
	}
	if !f.Until.IsZero() {
		if q.upper, err = timeArg(f.Until); err != nil {
			return nil, err
		}
	}
	if f.Cursor != "" {
		at, ok := parseCursor(f.Cursor)
		if !ok {
			return nil, invalid("cursor", "is not one that List returned")
		}
		q.upper = min(q.upper, at)
	}
	return q, nil
}

// states returns those asked for, each once, but for unknown ones.
func (q *listQuery) states() []justonce.State {
	return slices.DeleteFunc(justonce.States(), func(s justonce.State) bool { return !slices.Contains(q.States, s) })
}

// selects reports whether op belongs to the list.
func (q *listQuery) selects(op *justonce.Operation) bool {
	return op.Tenant == q.Tenant &&
		(len(q.States) == 0 || slices.Contains(q.States, op.State)) &&
		(q.Tool == "" || q.Tool == op.Tool) &&
		(q.Scope == "" || q.Scope == op.Scope) &&
		(q.RunID == "" || q.RunID == op.RunID) &&
		(q.Reference == "" || q.Reference == op.Reference) &&
		(q.Identity == "" || q.Identity == op.Identity)
}

// within reports whether op lies between the bounds of the list.
func (q *listQuery) within(op *justonce.Operation) bool {
	at := position(op)
	return at >= q.lower && at < q.upper
}

// position is what operations are sorted by, a name without its hash.
func position(op *justonce.Operation) string {
	n, _ := packed.Nanos(op.CreatedAt, packed.NoTime)
	return timeBytes(n) + op.Key + "\x00"
}

// walk reads the rows between the bounds from an index until the page is full.
// Its members are names between begin and tenant.
func (s *Store) walk(ctx context.Context, q *listQuery, index, begin, tenant string) (found []*justonce.Operation, err error) {
	upper, lower := "("+begin+q.upper, "["+begin+q.lower
	group := max(listGroup, q.limit+1)
	for len(found) <= q.limit {
		v, err := strs(s.read(ctx, scriptList, index, upper, lower, strconv.Itoa(group), strconv.Itoa(len(begin)+1), tenant))
		if err != nil {
			return nil, err
		}
		if found, err = q.choose(found, v[1:]); err != nil {
			return nil, err
		}
		if v[0] == "" {
			break
		}
		upper = "(" + v[0]
	}
	return found, nil
}

// listHeld reads all rows that an identity or a reference leads to.
func (s *Store) listHeld(ctx context.Context, q *listQuery, by string) ([]*justonce.Operation, error) {
	v, err := strs(s.read(ctx, scriptHeld, by))
	if err != nil {
		return nil, err
	}
	all, err := q.choose(nil, v)
	return slices.DeleteFunc(all, func(op *justonce.Operation) bool { return !q.within(op) }), err
}

// choose appends the operations in rows that belong to the list.
func (q *listQuery) choose(found []*justonce.Operation, rows []string) ([]*justonce.Operation, error) {
	for _, row := range rows {
		op, _, err := decodeRow(row)
		if err != nil {
			return nil, err
		}
		if q.selects(op) {
			found = append(found, op)
		}
	}
	return found, nil
}

// page sorts what was found and cuts it off.
func (q *listQuery) page(found []*justonce.Operation) *justonce.Page {
	slices.SortFunc(found, func(a, b *justonce.Operation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Key, a.Key))
	})
	page := &justonce.Page{Operations: found[:min(len(found), q.limit)]}
	if len(found) > q.limit {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(position(found[q.limit-1])))
	}
	return page
}

// parseCursor returns the position that a cursor stands for.
func parseCursor(s string) (string, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	ok := err == nil && len(b) > 8 && strings.IndexByte(string(b[8:]), 0) == len(b)-9
	return string(b), ok
}
