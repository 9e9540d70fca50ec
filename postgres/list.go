package postgres

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
)

// List implements [justonce.Store]. A limit above 1000 is taken for 1000.
// Filters by tool, scope and run alone look at all operations of the tenant in
// the time given.
func (s *Store) List(ctx context.Context, f justonce.Filter) (*justonce.Page, error) {
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("postgres: list: %w", err)
	}
	q, err := newListQuery(&f)
	if err != nil {
		return nil, err
	}
	page := &justonce.Page{}
	if q.until < q.since || q.states == nil {
		return page, nil
	}
	err = s.read(ctx, query{s.choose(q), q.params(), func(v [][]byte) error {
		op, _, err := scan(v)
		if err != nil {
			return err
		}
		if len(page.Operations) == q.limit {
			last := page.Operations[q.limit-1]
			at, _ := packed.Nanos(last.CreatedAt, packed.NoTime)
			page.Next = cursor(at, last.Key)
			return nil
		}
		page.Operations = append(page.Operations, op)
		return nil
	}})
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
	states       []int16 // nil: none
	all          bool    // every state
	unsucceeded  bool    // none of them is succeeded
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
	for _, text := range []string{f.Tenant, f.Tool, f.Scope, f.RunID, q.key} {
		if strings.IndexByte(text, 0) >= 0 || strings.ToValidUTF8(text, "") != text {
			return nil, invalid("filter", "must be UTF-8 without NUL")
		}
	}
	wanted := f.States
	if q.all = len(wanted) == 0; q.all {
		wanted = justonce.States()
	}
	q.unsucceeded = true
	for _, state := range wanted {
		if code, ok := stateCodes[state]; ok {
			q.states = append(q.states, code)
			q.unsucceeded = q.unsucceeded && code != stEnded
		}
	}
	return q, nil
}

// The conditions that all lists share.
const (
	listWhere = ` op.tenant = $1 AND op.created >= $2 AND op.created <= $3 AND op.created <= $4
		AND NOT (op.created = $4 AND op.key >= $5 AND $6) AND op.state = ANY($7)
		AND ($8 = '' OR op.tool = $8) AND ($9 = '' OR op.scope = $9) AND ($10 = '' OR op.run = $10)
		AND ($11::uuid IS NULL OR op.ident = $11) AND ($12::uuid IS NULL OR op.ref = $12)`
	listOrder  = ` ORDER BY op.created DESC, op.key DESC LIMIT $13`
	listSelect = `SELECT ` + columns + ` FROM `
)

var listParams = []uint32{oidText, oidInt8, oidInt8, oidInt8, oidText, oidBool, oidInt2s, oidText, oidText, oidText, oidUUID, oidUUID, oidInt8}

func (q *listQuery) params() [][]byte {
	var states array
	states.reset(oidInt2s)
	for _, code := range q.states {
		states.int16(code)
	}
	var ident, ref []byte
	if q.Identity != "" {
		h := identityHash(q.Tenant, q.Identity)
		ident = h[:]
	}
	if q.Reference != "" {
		h := referenceHash(q.Tenant, q.Reference)
		ref = h[:]
	}
	return [][]byte{[]byte(q.Tenant), int64Param(q.since), int64Param(q.until), int64Param(q.at), []byte(q.key),
		boolParam(q.Cursor != ""), states.param(), []byte(q.Tool), []byte(q.Scope), []byte(q.RunID), ident, ref, int64Param(int64(q.limit) + 1)}
}

// choose picks the walk that looks at the fewest rows.
func (s *Store) choose(q *listQuery) *statement {
	switch {
	case q.Identity != "":
		return s.st.plain("list identity", listSelect+`$schema.op WHERE op.ident = $11 AND`+listWhere+listOrder, listParams...)
	case q.Reference != "":
		return s.st.plain("list reference", listSelect+`$schema.reference AS x JOIN $schema.op ON op.tenant = $1 AND op.created = x.created AND op.id = x.op
			WHERE x.hash = $12 AND`+listWhere+listOrder, listParams...)
	case len(q.states) == 1 && q.states[0] == stFailed:
		return s.st.plain("list failed", listSelect+`$schema.watch JOIN $schema.op ON op.hash = watch.hash
			WHERE watch.state = 7 AND watch.tenant = $1 AND watch.created >= $2 AND watch.created <= $3 AND watch.created <= $4 AND`+listWhere+
			` ORDER BY watch.created DESC, op.key DESC LIMIT $13`, listParams...)
	case q.unsucceeded:
		// Few operations have not succeeded: they are sorted, and only those of
		// the page are looked at.
		name, from := "list watched", `SELECT hash, created FROM $schema.watch
			WHERE tenant = $1 AND state = ANY($7) AND created >= $2 AND created <= $3 AND created <= $4`
		if slices.Contains(q.states, stRunning) {
			name, from = name+" and running", from+` UNION SELECT op.hash, op.created FROM (SELECT unnest(hashes) AS hash FROM $schema.batch) AS member
			CROSS JOIN LATERAL `+memberOp+` WHERE op.state < 5 AND op.watch IS NULL
				AND op.tenant = $1 AND op.created >= $2 AND op.created <= $3 AND op.created <= $4`
		}
		return s.st.plain(name, listSelect+`(`+from+` ORDER BY created DESC OFFSET 0) AS x
			CROSS JOIN LATERAL (SELECT * FROM $schema.op WHERE op.hash = x.hash OFFSET 0) AS op
			WHERE`+listWhere+` ORDER BY x.created DESC, op.key DESC LIMIT $13`, listParams...)
	}
	return s.st.plain("list", listSelect+`$schema.op WHERE`+listWhere+listOrder, listParams...)
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
