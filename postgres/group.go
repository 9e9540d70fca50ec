package postgres

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/justonce-dev/justonce/internal/packed"
)

// A group turns the rows of many calls into the parameters of two statements.
// Its buffers are reused.
//
// The server takes arrays apart value by value. So what all rows of a group have
// in common is one parameter, and what none of them has is none: a statement is
// made for each shape of a group that comes up.
type group struct {
	arrays [16]array
	params [18][]byte
}

// A column is what rows have one value of. Its type is that of an array.
type column struct {
	name string
	oid  uint32
}

// A set of columns, by their places.
type set uint32

func setOf(places ...int) (s set) {
	for _, i := range places {
		s |= 1 << i
	}
	return s
}

func (s set) has(i int) bool { return s&(1<<i) != 0 }

// A shape tells which columns are arrays, and which are one value for all rows.
// What is in neither set is not sent.
type shape struct{ arrays, values set }

// parameters numbers those of a statement.
type parameters struct{ oids []uint32 }

func (p *parameters) add(oid uint32) string {
	p.oids = append(p.oids, oid)
	return "$" + strconv.Itoa(len(p.oids))
}

// of returns an expression for each column that is sent, and what to select
// them from. In a select list unnest needs no storage for each of its rows, as it
// does in a FROM clause.
func (p *parameters) of(cols []column, s shape) (exprs []string, from string) {
	exprs = make([]string, len(cols))
	var lists []string
	for i, c := range cols {
		switch {
		case s.arrays.has(i):
			lists = append(lists, "unnest("+p.add(c.oid)+") AS "+c.name)
			exprs[i] = "x." + c.name
		case s.values.has(i):
			exprs[i] = p.add(elements[c.oid])
		}
	}
	return exprs, "(SELECT " + strings.Join(lists, ", ") + ") AS x"
}

// finish returns the values of what is sent, in the order of of.
func (g *group) finish(cols []column, s shape) [][]byte {
	params := g.params[:0]
	for i := range cols {
		switch {
		case s.arrays.has(i):
			params = append(params, g.arrays[i].param())
		case s.values.has(i):
			params = append(params, g.arrays[i].first())
		}
	}
	return params
}

// start empties the arrays.
func (g *group) start(cols []column) *[16]array {
	for i := range cols {
		g.arrays[i].reset(cols[i].oid)
	}
	return &g.arrays
}

// The columns of new operations.
const (
	newHash = iota
	newIdent
	newRef
	newTenant
	newKey
	newTool
	newScope
	newRun
	newState
	newCreated
	newUpdated
	newWatch
	newLease
	newFixed
	newData
	newFirst
)

var newColumns = []column{
	newHash: {"hash", oidUUIDs}, newIdent: {"ident", oidUUIDs}, newRef: {"ref", oidUUIDs},
	newTenant: {"tenant", oidTexts}, newKey: {"key", oidTexts}, newTool: {"tool", oidTexts},
	newScope: {"scope", oidTexts}, newRun: {"run", oidTexts}, newState: {"state", oidInt2s},
	newCreated: {"created", oidInt8s}, newUpdated: {"updated", oidInt8s},
	newWatch: {"watch", oidInt8s}, newLease: {"lease", oidInt8s},
	newFixed: {"fixed", oidByteas}, newData: {"data", oidByteas}, newFirst: {"first", oidByteas},
}

// What tells the shape of a group of new operations, and what is to be done
// beside recording them.
const (
	newMixed    = 1 << iota // they differ in tenant, tool or state, or are not new
	newTasks                // they belong to several scopes or runs
	newIdentity             // some have an identity
	newReferred             // some have a reference
	newWatched              // some come into watch
	newBatched              // some are a batch
)

func newShape(kind int) shape {
	s := shape{arrays: setOf(newHash, newKey, newCreated, newLease, newFixed, newData, newFirst)}
	if kind&newMixed != 0 {
		s.arrays |= setOf(newTenant, newTool, newState, newUpdated)
	} else {
		s.values |= setOf(newTenant, newTool, newState)
	}
	if kind&newTasks != 0 {
		s.arrays |= setOf(newScope, newRun)
	} else {
		s.values |= setOf(newScope, newRun)
	}
	if kind&newIdentity != 0 {
		s.arrays |= setOf(newIdent)
	}
	if kind&newReferred != 0 {
		s.arrays |= setOf(newRef)
	}
	if kind&newWatched != 0 {
		s.arrays |= setOf(newWatch)
	}
	return s
}

// record records rows and returns the hashes of those that had neither a key
// nor an identity in common with what was there. hopeful: if one has, all fail
// with a unique violation, which is quicker where nearly all are new.
func (s *Store) record(hopeful bool, kind int) *statement {
	return s.st.get("record "+strconv.FormatBool(hopeful)+strconv.Itoa(kind), func() (string, []uint32) {
		var p parameters
		exprs, from := p.of(newColumns, newShape(kind))
		for i, missing := range map[int]string{newIdent: "NULL::uuid", newRef: "NULL::uuid", newWatch: "NULL::bigint", newUpdated: "x.created"} {
			if exprs[i] == "" {
				exprs[i] = missing
			}
		}
		into := `INSERT INTO $schema.op AS op (hash, ident, ref, tenant, key, tool, scope, run, state, created, updated, watch, lease, fixed, data, first)
			SELECT ` + strings.Join(exprs, ", ") + ` FROM ` + from
		due, id := "", ""
		if kind&newBatched != 0 {
			due, id = p.add(oidInt8), p.add(oidInt8)
		}
		if hopeful && kind&(newReferred|newWatched|newBatched) == newBatched { // nearly always
			return `WITH counted AS (
				INSERT INTO $schema.tally (n) SELECT cardinality($1)
			), batched AS (
				INSERT INTO $schema.batch (due, id, hashes) VALUES (` + due + `, ` + id + `, $1)
			) ` + into, p.oids
		}
		sql := `WITH fresh AS (` + into
		if !hopeful {
			sql += ` ON CONFLICT DO NOTHING`
		}
		sql += ` RETURNING watch, id, created, lease, hash, state, tenant, tool, ref
		), counted AS (
			INSERT INTO $schema.tally (n) SELECT count(*) FROM fresh HAVING count(*) > 0
		)`
		if kind&newWatched != 0 {
			sql += `, watched AS (
			INSERT INTO $schema.watch (due, id, created, lease, hash, state, tenant, tool)
			SELECT watch, id, created, lease, hash, state, tenant, tool FROM fresh WHERE watch IS NOT NULL
		)`
		}
		if kind&newBatched != 0 {
			sql += `, batched AS (
			INSERT INTO $schema.batch (due, id, hashes) SELECT ` + due + `, ` + id + `, array_agg(hash) FROM fresh
			WHERE watch IS NULL AND state < 5 HAVING count(*) > 0
		)`
		}
		if kind&newReferred != 0 {
			sql += `, referred AS (
			INSERT INTO $schema.reference (hash, op, created) SELECT ref, id, created FROM fresh WHERE ref IS NOT NULL
		)`
		}
		if hopeful {
			return sql + ` SELECT 1 WHERE false`, p.oids
		}
		return sql + ` SELECT hash FROM fresh`, p.oids
	})
}

// fillRecord sorts rows, of which some may be in the batch b, into the
// parameters of record. The order is that of the hashes everywhere, so that two
// groups never wait for each other in a circle, and neighbours in an index are
// met together.
func (g *group) fillRecord(rows []*row, b *batch) (params [][]byte, kind int) {
	slices.SortFunc(rows, byHash)
	first := rows[0]
	for _, r := range rows {
		if b == nil {
			r.batch = nil // of an earlier try
		}
		if r.tenant != first.tenant || r.tool != first.tool || r.state != first.state || r.updated != r.created {
			kind |= newMixed
		}
		if r.scope != first.scope || r.run != first.run {
			kind |= newTasks
		}
		if r.ident != nil {
			kind |= newIdentity
		}
		if r.ref != nil {
			kind |= newReferred
		}
		if r.batch == nil {
			kind |= newWatched
		}
	}
	s := newShape(kind)
	a := g.start(newColumns)
	for i, r := range rows {
		a[newHash].bytes(r.hash[:])
		a[newKey].text(r.key)
		a[newCreated].int64(r.created)
		a[newLease].int64(r.lease)
		a[newFixed].bytes(r.fixed)
		a[newData].bytes(r.data)
		a[newFirst].bytes(r.chunk)
		if i == 0 || s.arrays.has(newTool) {
			a[newTenant].text(r.tenant)
			a[newTool].text(r.tool)
			a[newState].int16(r.state)
			a[newUpdated].int64(r.updated)
		}
		if i == 0 || s.arrays.has(newScope) {
			a[newScope].text(r.scope)
			a[newRun].text(r.run)
		}
		if s.arrays.has(newIdent) {
			a[newIdent].hash(r.ident)
		}
		if s.arrays.has(newRef) {
			a[newRef].hash(r.ref)
		}
		if s.arrays.has(newWatch) {
			if r.batch != nil {
				a[newWatch].null()
			} else {
				a[newWatch].watch(r)
			}
		}
	}
	params = g.finish(newColumns, s)
	if b != nil {
		kind |= newBatched
		params = append(params, int64Param(b.due), int64Param(b.id))
	}
	return params, kind
}

// watch adds under which time the operation is watched, NULL if it is not.
func (a *array) watch(r *row) {
	switch {
	case r.state == stEnded:
		a.null()
	case r.state < stReview:
		a.int64(r.due)
	default:
		a.int64(packed.Never)
	}
}

// The columns of what replaces a row.
const (
	nextN = iota
	nextHash
	nextRef
	nextVersion
	nextCreated
	nextResult
	nextState
	nextUpdated
	nextWatch
	nextLease
	nextData
	nextChunk
	nextBig
)

var nextColumns = []column{
	nextN: {"n", oidInt8s}, nextHash: {"hash", oidUUIDs}, nextRef: {"ref", oidUUIDs},
	nextVersion: {"version", oidInt8s}, nextCreated: {"created", oidInt8s}, nextResult: {"result", oidInt8s},
	nextState: {"state", oidInt2s}, nextUpdated: {"updated", oidInt8s},
	nextWatch: {"watch", oidInt8s}, nextLease: {"lease", oidInt8s},
	nextData: {"data", oidByteas}, nextChunk: {"chunk", oidByteas}, nextBig: {"big", oidBools},
}

// What tells the shape of a group of replacements, and what is to be done beside
// replacing rows.
const (
	nextMixed     = 1 << iota // they differ in state or lease, or only some have a result
	nextResults               // all have a result
	nextUnwatched             // some are in watch, and leave it
	nextWatched               // some are in watch or come into it
	nextLarge                 // some have entries for the table entry
	nextReferred              // some have a reference
)

func nextShape(kind int) shape {
	s := shape{arrays: setOf(nextN, nextHash, nextVersion, nextCreated, nextUpdated, nextData, nextChunk)}
	if kind&nextMixed != 0 {
		s.arrays |= setOf(nextResult, nextState, nextLease)
	} else {
		s.values |= setOf(nextState, nextLease)
	}
	if kind&nextWatched != 0 {
		s.arrays |= setOf(nextWatch)
	}
	if kind&nextLarge != 0 {
		s.arrays |= setOf(nextResult, nextBig)
	}
	if kind&nextReferred != 0 {
		s.arrays |= setOf(nextRef)
	}
	return s
}

// replace replaces the rows whose version and creation time are the expected
// ones, and returns an array of their numbers.
func (s *Store) replace(kind int) *statement {
	return s.st.get("replace "+strconv.Itoa(kind), func() (string, []uint32) {
		var p parameters
		exprs, from := p.of(nextColumns, nextShape(kind))
		result, log := "op.result", "op.log || x.chunk"
		if exprs[nextResult] != "" {
			result = "CASE x.result WHEN 0 THEN op.result ELSE x.result END"
		} else if kind&nextResults != 0 {
			result = "op.version + 1"
		}
		if kind&nextLarge != 0 {
			log = "CASE WHEN x.big THEN op.log ELSE op.log || x.chunk END"
		}
		ref, watch := "NULL", "NULL"
		if kind&nextReferred != 0 {
			ref = "x.ref"
		}
		if kind&nextWatched != 0 {
			watch = "x.watch"
		}
		sql := `WITH done AS (
			UPDATE $schema.op AS op SET version = op.version + 1, state = ` + exprs[nextState] + `, updated = x.updated,
				watch = ` + watch + `, was = op.watch, lease = ` + exprs[nextLease] + `, ref = ` + ref + `, data = x.data, purged = false,
				result = ` + result + `, log = ` + log + `
			FROM ` + from + `
			WHERE op.hash = x.hash AND op.version = x.version AND op.created = x.created
			RETURNING x.n, op.was, op.watch, op.id`
		if kind&nextWatched != 0 {
			sql += `, op.created, op.lease, op.hash, op.state, op.tenant, op.tool`
		} else if kind&nextReferred != 0 {
			sql += `, op.created`
		}
		if kind&nextReferred != 0 {
			sql += `, op.ref`
		}
		if kind&nextLarge != 0 {
			sql += `, op.version, x.chunk, x.big`
		}
		sql += `)`
		if kind&nextUnwatched != 0 {
			sql += `, unwatched AS (
			DELETE FROM $schema.watch USING done WHERE done.watch IS NULL AND watch.due = done.was AND watch.id = done.id
		)`
		}
		if kind&nextWatched != 0 {
			sql += `, rewatched AS (
			UPDATE $schema.watch AS watch SET due = done.watch, lease = done.lease, state = done.state
			FROM done WHERE done.watch IS NOT NULL AND watch.due = done.was AND watch.id = done.id
		), watched AS (
			INSERT INTO $schema.watch (due, id, created, lease, hash, state, tenant, tool)
			SELECT watch, id, created, lease, hash, state, tenant, tool FROM done WHERE watch IS NOT NULL AND was IS NULL
		)`
		}
		if kind&nextLarge != 0 {
			sql += `, big AS (
			INSERT INTO $schema.entry (op, version, chunk) SELECT id, version, chunk FROM done WHERE big
		)`
		}
		if kind&nextReferred != 0 {
			sql += `, referred AS (
			INSERT INTO $schema.reference (hash, op, created) SELECT ref, id, created FROM done WHERE ref IS NOT NULL
			ON CONFLICT DO NOTHING
		)`
		}
		return sql + ` SELECT array_agg(n) FROM done`, p.oids
	})
}

// fillReplace sorts rows into the parameters of replace.
func (g *group) fillReplace(rows []*row) (params [][]byte, kind int) {
	slices.SortStableFunc(rows, byHash)
	first := rows[0]
	if first.hasResult {
		kind = nextResults
	}
	for _, r := range rows {
		if r.state != first.state || r.lease != first.lease || r.hasResult != first.hasResult {
			kind |= nextMixed
		}
		switch {
		case r.state != stEnded:
			kind |= nextWatched
		case r.batch == nil:
			kind |= nextUnwatched
		}
		if r.bigChunk {
			kind |= nextLarge
		}
		if r.ref != nil {
			kind |= nextReferred
		}
	}
	if kind&(nextMixed|nextLarge) != 0 {
		kind &^= nextResults // each row tells
	}
	s := nextShape(kind)
	a := g.start(nextColumns)
	for i, r := range rows {
		a[nextN].int64(int64(i))
		a[nextHash].bytes(r.hash[:])
		a[nextVersion].int64(r.version - 1)
		a[nextCreated].int64(r.created)
		a[nextUpdated].int64(r.updated)
		a[nextData].bytes(r.data)
		a[nextChunk].bytes(r.chunk)
		if i == 0 || s.arrays.has(nextState) {
			a[nextState].int16(r.state)
			a[nextLease].int64(r.lease)
		}
		if s.arrays.has(nextResult) {
			a[nextResult].int64(r.result())
		}
		if s.arrays.has(nextWatch) {
			a[nextWatch].watch(r)
		}
		if s.arrays.has(nextBig) {
			a[nextBig].bool(r.bigChunk)
		}
		if s.arrays.has(nextRef) {
			a[nextRef].hash(r.ref)
		}
	}
	return g.finish(nextColumns, s), kind
}

// result is what the column result becomes; 0: it stays.
func (r *row) result() int64 {
	switch {
	case !r.hasResult:
		return 0
	case r.bigChunk:
		return -r.version
	}
	return r.version
}

// replaced returns the numbers of the rows that a replace returned.
func replaced(v [][]byte) []int64 {
	if len(v[0]) <= arrayHeader {
		return nil
	}
	var ns []int64
	for b := v[0][arrayHeader:]; len(b) >= 12; b = b[12:] {
		ns = append(ns, int64(binary.BigEndian.Uint64(b[4:])))
	}
	return ns
}

func byHash(a, b *row) int { return bytes.Compare(a.hash[:], b.hash[:]) }
