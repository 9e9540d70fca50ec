package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/justonce-dev/justonce/internal/packed"
)

// A group turns the rows of many calls into the parameters of two statements.
// Its buffers are reused.
type group struct {
	arrays [16]array
	params [18][]byte
}

// recordParams are the parameters of the statement that records new
// operations, in the order in which fillRecord fills them.
var recordParams = []uint32{oidUUIDs, oidUUIDs, oidUUIDs, oidTexts, oidTexts, oidTexts, oidTexts, oidTexts,
	oidInt2s, oidInt8s, oidInt8s, oidInt8s, oidInt8s, oidByteas, oidByteas, oidByteas, oidInt8, oidInt8}

// What a record has to do beside the rows themselves.
const (
	recWatched   = 1 << iota // some come into watch
	recBatched               // some are a batch
	recReference             // some have a reference
)

// record records rows and returns the hashes of those that had neither a key
// nor an identity in common with what was there. hopeful: if one has, all fail
// with a unique violation, which is quicker where nearly all are new.
func (s *Store) record(hopeful bool, has int) *statement {
	return s.st.get("record "+strconv.FormatBool(hopeful)+strconv.Itoa(has), func() (string, []uint32) {
		const into = `INSERT INTO $schema.op AS op (hash, ident, ref, tenant, key, tool, scope, run, state, created, updated, watch, lease, fixed, data, first)
			SELECT `
		if hopeful && has == recBatched { // nearly always
			return `WITH counted AS (
				INSERT INTO $schema.tally (n) SELECT cardinality($1)
			), batched AS (
				INSERT INTO $schema.batch (due, id, hashes) VALUES ($17, $18, $1)
			) ` + into + unnested(16), recordParams
		}
		sql := `WITH fresh AS (` + into + unnested(16)
		if !hopeful {
			sql += ` ON CONFLICT DO NOTHING`
		}
		sql += ` RETURNING watch, id, created, lease, hash, state, tenant, tool, ref
		), counted AS (
			INSERT INTO $schema.tally (n) SELECT count(*) FROM fresh HAVING count(*) > 0
		)`
		if has&recWatched != 0 {
			sql += `, watched AS (
			INSERT INTO $schema.watch (due, id, created, lease, hash, state, tenant, tool)
			SELECT watch, id, created, lease, hash, state, tenant, tool FROM fresh WHERE watch IS NOT NULL
		)`
		}
		if has&recBatched != 0 {
			sql += `, batched AS (
			INSERT INTO $schema.batch (due, id, hashes) SELECT $17, $18, array_agg(hash) FROM fresh
			WHERE watch IS NULL AND state < 5 HAVING count(*) > 0
		)`
		}
		if has&recReference != 0 {
			sql += `, referred AS (
			INSERT INTO $schema.reference (hash, op, created) SELECT ref, id, created FROM fresh WHERE ref IS NOT NULL
		)`
		}
		if hopeful {
			return sql + ` SELECT 1 WHERE false`, recordParams
		}
		return sql + ` SELECT hash FROM fresh`, recordParams
	})
}

// unnested returns a list that makes rows of n parameters. In a select list
// that needs no storage for each of them, as it does in a FROM clause.
func unnested(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", unnest($%d)", i+1)
	}
	return b.String()[2:]
}

// fillRecord sorts rows, of which some may be in the batch b, into the
// parameters of record. The order is that of the hashes everywhere, so that two
// groups never wait for each other in a circle, and neighbours in an index are
// met together.
func (g *group) fillRecord(rows []*row, b *batch) (params [][]byte, has int) {
	slices.SortFunc(rows, byHash)
	a := g.reset(recordParams)
	for _, r := range rows {
		a[0].bytes(r.hash[:])
		a[1].hash(r.ident)
		a[2].hash(r.ref)
		a[3].text(r.tenant)
		a[4].text(r.key)
		a[5].text(r.tool)
		a[6].text(r.scope)
		a[7].text(r.run)
		a[8].int16(r.state)
		a[9].int64(r.created)
		a[10].int64(r.updated)
		if b == nil {
			r.batch = nil // of an earlier try
		}
		if r.batch != nil {
			a[11].null()
		} else {
			a[11].watch(r)
			has |= recWatched
		}
		a[12].int64(r.lease)
		a[13].bytes(r.fixed)
		a[14].bytes(r.data)
		a[15].bytes(r.chunk)
		if r.ref != nil {
			has |= recReference
		}
	}
	params = g.finish(recordParams)
	if params[16], params[17] = nil, nil; b != nil {
		has |= recBatched
		params[16], params[17] = int64Param(b.due), int64Param(b.id)
	}
	return params, has
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

// replaceParams are those of the statement that replaces rows.
var replaceParams = []uint32{oidInt8s, oidUUIDs, oidUUIDs, oidInt8s, oidInt8s, oidInt8s, oidInt2s, oidTexts, oidTexts, oidTexts,
	oidInt8s, oidInt8s, oidInt8s, oidByteas, oidByteas, oidBools}

// What a replace has to do beside the row itself.
const (
	hasWatched = 1 << iota // is in watch, and leaves it
	hasOther               // is or comes into watch
	hasBig                 // has entries for the table entry
	hasReference
)

// replace replaces the rows whose version and creation time are the expected
// ones, and returns an array of their numbers.
func (s *Store) replace(has int) *statement {
	return s.st.get("replace "+strconv.Itoa(has), func() (string, []uint32) {
		sql := `WITH done AS (
			UPDATE $schema.op AS op SET version = op.version + 1, state = x.state, tool = x.tool, scope = x.scope, run = x.run,
				updated = x.updated, watch = x.watch, was = op.watch, lease = x.lease, ref = x.ref, data = x.data, purged = false,
				result = CASE x.result WHEN 0 THEN op.result ELSE x.result END,
				log = CASE WHEN x.big THEN op.log ELSE op.log || x.chunk END
			FROM (SELECT ` + unnested(16) + `) AS x (n, hash, ref, version, created, result, state, tool, scope, run, updated, watch, lease, data, chunk, big)
			WHERE op.hash = x.hash AND op.version = x.version AND op.created = x.created
			RETURNING x.n, op.was, op.watch, op.id`
		if has&hasOther != 0 {
			sql += `, op.created, op.lease, op.hash, op.state, op.tenant, op.tool`
		} else if has&hasReference != 0 {
			sql += `, op.created`
		}
		if has&hasReference != 0 {
			sql += `, op.ref`
		}
		if has&hasBig != 0 {
			sql += `, op.version, x.chunk, x.big`
		}
		sql += `)`
		if has&hasWatched != 0 {
			sql += `, unwatched AS (
			DELETE FROM $schema.watch USING done WHERE done.watch IS NULL AND watch.due = done.was AND watch.id = done.id
		)`
		}
		if has&hasOther != 0 {
			sql += `, rewatched AS (
			UPDATE $schema.watch AS watch SET due = done.watch, lease = done.lease, state = done.state, tool = done.tool
			FROM done WHERE done.watch IS NOT NULL AND watch.due = done.was AND watch.id = done.id
		), watched AS (
			INSERT INTO $schema.watch (due, id, created, lease, hash, state, tenant, tool)
			SELECT watch, id, created, lease, hash, state, tenant, tool FROM done WHERE watch IS NOT NULL AND was IS NULL
		)`
		}
		if has&hasBig != 0 {
			sql += `, big AS (
			INSERT INTO $schema.entry (op, version, chunk) SELECT id, version, chunk FROM done WHERE big
		)`
		}
		if has&hasReference != 0 {
			sql += `, referred AS (
			INSERT INTO $schema.reference (hash, op, created) SELECT ref, id, created FROM done WHERE ref IS NOT NULL
			ON CONFLICT DO NOTHING
		)`
		}
		return sql + ` SELECT array_agg(n) FROM done`, replaceParams
	})
}

// fillReplace sorts rows into the parameters of replace.
func (g *group) fillReplace(rows []*row) (params [][]byte, has int) {
	slices.SortStableFunc(rows, byHash)
	a := g.reset(replaceParams)
	for n, r := range rows {
		result := int64(0)
		if r.hasResult {
			if result = r.version; r.bigChunk {
				result = -r.version
			}
		}
		a[0].int64(int64(n))
		a[1].bytes(r.hash[:])
		a[2].hash(r.ref)
		a[3].int64(r.version - 1)
		a[4].int64(r.created)
		a[5].int64(result)
		a[6].int16(r.state)
		a[7].text(r.tool)
		a[8].text(r.scope)
		a[9].text(r.run)
		a[10].int64(r.updated)
		a[11].watch(r)
		a[12].int64(r.lease)
		a[13].bytes(r.data)
		a[14].bytes(r.chunk)
		a[15].bool(r.bigChunk)
		switch {
		case r.state != stEnded:
			has |= hasOther
		case r.batch == nil:
			has |= hasWatched
		}
		if r.bigChunk {
			has |= hasBig
		}
		if r.ref != nil {
			has |= hasReference
		}
	}
	return g.finish(replaceParams), has
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

func (g *group) reset(oids []uint32) *[16]array {
	for i := range g.arrays {
		g.arrays[i].reset(oids[i])
	}
	return &g.arrays
}

func (g *group) finish(oids []uint32) [][]byte {
	for i := range g.arrays {
		g.params[i] = g.arrays[i].param()
	}
	return g.params[:len(oids)]
}

func byHash(a, b *row) int { return bytes.Compare(a.hash[:], b.hash[:]) }
