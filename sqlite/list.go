package sqlite

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite"
)

const (
	defaultLimit = 50
	maxLimit     = 1000

	// fewLive is how many operations that have not ended are sorted rather
	// than looked for among all.
	fewLive = 20_000
)

// Lists are one of four walks with the same conditions: by time, by
// reference, over what failed, or over what has not ended. ?1 tenant, ?2 and ?3 the times, ?4
// and ?5 the cursor, ?6 the states as bits, ?7 the tool, ?8 the reference.
const (
	listWhere = ` WHERE tenant = ?1 AND created >= ?2 AND created <= ?3 AND created <= ?4
		AND NOT (created = ?4 AND key >= ?5 AND ?9)
		AND (1 << state) & ?6 AND (?7 = '' OR tool = ?7)`
	listOrder   = ` ORDER BY created DESC, key DESC`
	listByTime  = `SELECT ` + columns + ` FROM op INDEXED BY op_created` + listWhere + ` AND (?8 = '' OR ref = ?8)` + listOrder
	listByRef   = `SELECT ` + columns + ` FROM op INDEXED BY op_ref` + listWhere + ` AND ref = ?8` + listOrder
	listFailed  = `SELECT ` + columns + ` FROM op INDEXED BY op_failed` + listWhere + ` AND state = 7 AND (?8 = '' OR ref = ?8)` + listOrder
	listLive    = `SELECT ` + columns + ` FROM op INDEXED BY op_live` + listWhere + ` AND state < 6 AND (?8 = '' OR ref = ?8)` + listOrder
	liveCounted = `SELECT count(*) FROM (SELECT 1 FROM op INDEXED BY op_live WHERE state < 6 LIMIT ?1)`
)

// List implements [justonce.Store]. A limit above 1000 is taken for 1000.
// Filters by scope and run alone look at all operations of the tenant in the
// time given.
func (s *Store) List(ctx context.Context, f justonce.Filter) (*justonce.Page, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: list: %w", err)
	}
	q, err := newListQuery(&f)
	if err != nil {
		return nil, err
	}
	page := &justonce.Page{}
	if q.until < q.since || q.mask == 0 {
		return page, nil
	}
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		if f.Identity != "" {
			return s.listIdentity(conn, q, page)
		}
		return q.run(conn, page)
	})
	if err != nil {
		return nil, callError(ctx, "list", err)
	}
	return page, nil
}

type listQuery struct {
	*justonce.Filter
	limit        int
	since, until int64 // inclusive
	at           int64 // the cursor
	key          string
	mask         int64
}

func newListQuery(f *justonce.Filter) (*listQuery, error) {
	q := &listQuery{Filter: f, limit: min(f.Limit, maxLimit), since: packed.NoTime, until: packed.Never, at: packed.Never}
	if q.limit <= 0 {
		q.limit = defaultLimit
	}
	var err error
	if !f.Since.IsZero() {
		if q.since, err = packed.Nanos(f.Since, packed.NoTime); err != nil {
			return nil, invalid("since", err.Error())
		}
	}
	if !f.Until.IsZero() {
		if q.until, err = packed.Nanos(f.Until, packed.NoTime); err != nil {
			return nil, invalid("until", err.Error())
		}
		q.until--
	}
	if f.Cursor != "" {
		if q.at, q.key, err = parseCursor(f.Cursor); err != nil {
			return nil, invalid("cursor", "is not one that List returned")
		}
	}
	if len(f.States) == 0 {
		q.mask = -1
	}
	for _, state := range f.States {
		if code, ok := stateCodes[state]; ok {
			q.mask |= 1 << code
		}
	}
	return q, nil
}

const endedMask = 1<<stEnded | 1<<stFailed

// choose picks the walk that looks at the fewest rows.
func (q *listQuery) choose(conn *sqlite.Conn) (string, error) {
	switch {
	case q.Reference != "":
		return listByRef, nil
	case q.mask == 1<<stFailed:
		return listFailed, nil
	case q.mask&endedMask != 0:
		return listByTime, nil
	}
	stmt, err := conn.Prepare(liveCounted)
	if err != nil {
		return "", err
	}
	stmt.BindInt64(1, fewLive+1)
	n, err := first(stmt)
	if err != nil || n <= fewLive {
		return listLive, err
	}
	return listByTime, nil
}

func (q *listQuery) run(conn *sqlite.Conn, page *justonce.Page) error {
	query, err := q.choose(conn)
	if err != nil {
		return err
	}
	stmt, err := conn.Prepare(query)
	if err != nil {
		return err
	}
	defer stmt.Reset()
	stmt.BindText(1, q.Tenant)
	stmt.BindInt64(2, q.since)
	stmt.BindInt64(3, q.until)
	stmt.BindInt64(4, q.at)
	stmt.BindText(5, q.key)
	stmt.BindInt64(6, q.mask)
	stmt.BindText(7, q.Tool)
	stmt.BindText(8, q.Reference)
	stmt.BindBool(9, q.Cursor != "")
	var scratch []byte
	var lastAt int64
	for {
		found, err := stmt.Step()
		if err != nil || !found {
			return err
		}
		op, _, err := scan(stmt, &scratch)
		if err != nil {
			return err
		}
		if !q.selects(op) {
			continue
		}
		if len(page.Operations) == q.limit {
			page.Next = cursor(lastAt, page.Operations[q.limit-1].Key)
			return nil
		}
		page.Operations = append(page.Operations, op)
		lastAt = stmt.ColumnInt64(8)
	}
}

// selects compares what the statements leave.
func (q *listQuery) selects(op *justonce.Operation) bool {
	return (q.Scope == "" || q.Scope == op.Scope) && (q.RunID == "" || q.RunID == op.RunID)
}

// listIdentity lists the one operation that may hold an identity.
func (s *Store) listIdentity(conn *sqlite.Conn, q *listQuery, page *justonce.Page) error {
	stmt, err := conn.Prepare(selectBySlot)
	if err != nil {
		return err
	}
	var scratch []byte
	hash := s.hash.identity(q.Tenant, q.Identity)
	op, at, err := lookUp(stmt, &scratch, hash, isIdentity(q.Tenant, q.Identity))
	if err != nil || op == nil || !q.selects(op) {
		return err
	}
	if at.created < q.since || at.created > q.until || at.created > q.at ||
		at.created == q.at && op.Key >= q.key && q.Cursor != "" ||
		q.mask&(1<<at.state) == 0 || q.Tool != "" && q.Tool != op.Tool ||
		q.Reference != "" && q.Reference != op.Reference {
		return nil
	}
	op.Result = nil
	page.Operations = []*justonce.Operation{op}
	return nil
}

func cursor(at int64, key string) string {
	return base64.RawURLEncoding.EncodeToString(append(strconv.AppendInt(nil, at, 10), " "+key...))
}

func parseCursor(s string) (int64, string, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, "", err
	}
	at, key, ok := strings.Cut(string(b), " ")
	if !ok {
		return 0, "", errors.New("no key")
	}
	n, err := strconv.ParseInt(at, 10, 64)
	return n, key, err
}
