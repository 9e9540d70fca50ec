package postgres

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	justonce "github.com/justonce-dev/justonce"
)

// States as they are stored, in the order of an operation's life. Those below
// stReview are open, those from stEnded on have ended.
const (
	stReview = 5
	stEnded  = 6 // succeeded
	stFailed = 7
)

var stateCodes = map[justonce.State]int16{
	justonce.Pending: 2, justonce.Running: 3, justonce.Unknown: 4,
	justonce.Review: stReview, justonce.Succeeded: stEnded, justonce.Failed: stFailed,
}

var stateNames = [...]justonce.State{
	2: justonce.Pending, 3: justonce.Running, 4: justonce.Unknown,
	5: justonce.Review, 6: justonce.Succeeded, 7: justonce.Failed,
}

// The words of the encoding are numbered by their place: append only.
var (
	reasons    = []string{"", string(justonce.ReasonRejected), string(justonce.ReasonExhausted), string(justonce.ReasonCancelled)}
	keySources = []string{"", string(justonce.KeyGiven), string(justonce.KeyInherited), string(justonce.KeyIdentity), string(justonce.KeyContent)}
)

const (
	dataVersion = 1

	flagDoubt     = 1 << 0
	flagAccepted  = 1 << 1
	flagIncident  = 1 << 2
	flagExclusive = 1 << 3
	flagFailure   = 1 << 4
)

// A row is what the caller's goroutine prepares of an operation, so that the
// writer only copies it.
type row struct {
	hash             hash
	ident            *hash
	ref              *hash
	tenant, key      string
	tool, scope, run string
	state            int16
	version          int64 // that the write makes
	created, updated int64
	due, lease       int64
	fixed, data      []byte
	chunk            []byte // the entries of the write
	hasResult        bool
	exclusive        bool
	bigChunk         bool // too big or too late for op.log
	done             bool // it replaced another
}

const (
	inlineChunk   = 640 // bytes
	inlineVersion = 6
)

// encode fills r from op and the entries of the write that makes version.
func (r *row) encode(op *justonce.Operation, version int64, entries []justonce.Entry) error {
	state, ok := stateCodes[op.State]
	if !ok {
		return invalid("state", fmt.Sprintf("%q is no state", op.State))
	}
	for _, f := range [...]struct{ name, text string }{
		{"tenant", op.Tenant}, {"key", op.Key}, {"tool", op.Tool}, {"scope", op.Scope}, {"run_id", op.RunID},
	} {
		if strings.IndexByte(f.text, 0) >= 0 || !utf8.ValidString(f.text) {
			return invalid(f.name, "must be UTF-8 without NUL")
		}
	}
	r.tenant, r.key, r.tool, r.scope, r.run = op.Tenant, op.Key, op.Tool, op.Scope, op.RunID
	r.hash = keyHash(op.Tenant, op.Key)
	if op.Identity != "" {
		h := identityHash(op.Tenant, op.Identity)
		r.ident = &h
	}
	if op.Reference != "" {
		h := referenceHash(op.Tenant, op.Reference)
		r.ref = &h
		r.exclusive = op.Exclusive
	}
	r.version, r.state = version, state
	var errs [4]error
	r.due, errs[0] = nanos(op.Due, never)
	r.lease, errs[1] = nanos(op.LeaseUntil, noTime)
	r.created, errs[2] = nanos(op.CreatedAt, noTime)
	r.updated, errs[3] = nanos(op.UpdatedAt, noTime)
	e := encoder{b: make([]byte, 0, 640)}
	if version == 1 {
		e.string(op.Fingerprint)
		e.string(op.Identity)
	}
	fixed := len(e.b)
	appendData(&e, op)
	for _, err := range append(errs[:], e.err) {
		if err != nil {
			return invalid("time", err.Error())
		}
	}
	data := len(e.b)
	if len(entries) > 0 {
		var err error
		if e.b, r.hasResult, err = appendChunk(e.b, version, entries); err != nil {
			return err
		}
	}
	r.fixed, r.data, r.chunk = e.b[:fixed:fixed], e.b[fixed:data:data], e.b[data:]
	r.bigChunk = len(r.chunk) > inlineChunk || version > inlineVersion && len(r.chunk) > 0
	return nil
}

// size is about how many bytes the row sends.
func (r *row) size() int { return 200 + len(r.fixed) + len(r.data) + len(r.chunk) }

func appendData(e *encoder, op *justonce.Operation) {
	var flags byte
	for i, on := range [...]bool{op.Doubt, op.Accepted, op.Incident, op.Exclusive, op.Failure != nil} {
		if on {
			flags |= 1 << i
		}
	}
	e.byte(dataVersion)
	e.byte(flags)
	e.name(string(op.Reason), reasons)
	e.name(string(op.KeySource), keySources)
	for _, v := range [...]int64{op.Fence, int64(op.Attempts), int64(op.Lookups), int64(op.Unknowns),
		int64(op.Series), int64(op.IntentSeq)} {
		e.int(v)
	}
	e.time(op.Due)
	e.time(op.FirstSent)
	e.time(op.UnknownAt)
	e.time(op.DedupeUntil)
	e.string(op.Algorithm)
	e.string(op.WireKey)
	e.string(op.TraceParent)
	e.string(op.Reference)
	e.string(op.Digest)
	e.string(op.Note)
	if op.Failure != nil {
		e.string(op.Failure.Code)
		e.string(op.Failure.Message)
	}
}

func decodeData(b []byte, op *justonce.Operation) error {
	d := decoder{b: b}
	if v := d.byte(); v != dataVersion {
		return fmt.Errorf("encoding %d is not known to this version", v)
	}
	flags := d.byte()
	op.Doubt, op.Accepted = flags&flagDoubt != 0, flags&flagAccepted != 0
	op.Incident, op.Exclusive = flags&flagIncident != 0, flags&flagExclusive != 0
	op.Reason = justonce.Reason(d.name(reasons))
	op.KeySource = justonce.KeySource(d.name(keySources))
	op.Fence = d.int()
	op.Attempts, op.Lookups, op.Unknowns = int(d.int()), int(d.int()), int(d.int())
	op.Series, op.IntentSeq = int(d.int()), int(d.int())
	op.Due, op.FirstSent, op.UnknownAt, op.DedupeUntil = d.time(), d.time(), d.time(), d.time()
	op.Algorithm, op.WireKey, op.TraceParent = d.string(), d.string(), d.string()
	op.Reference, op.Digest, op.Note = d.string(), d.string(), d.string()
	if flags&flagFailure != 0 {
		op.Failure = &justonce.Failure{Code: d.string(), Message: d.string()}
	}
	return d.err
}

// columns of op in the order that scan reads.
const columns = `op.id, op.hash, op.ident, op.tenant, op.key, op.tool, op.scope, op.run, op.state, op.version,
	op.created, op.updated, op.lease, op.result, op.purged, op.fixed, op.data`

const (
	colHash     = 1
	colIdent    = 2
	columnCount = 17
)

// resultChunk is the chunk with the operation's result, or NULL.
const resultChunk = `CASE WHEN op.result > 0 THEN op.log
	WHEN op.result < 0 THEN (SELECT chunk FROM $schema.entry WHERE entry.op = op.id AND entry.version = -op.result) END`

// A place is where an operation is stored.
type place struct {
	id     int64
	result int64
}

// scan reads the columns of one row. One that cannot be read is an error.
func scan(v [][]byte) (*justonce.Operation, place, error) {
	op := &justonce.Operation{}
	op.Tenant, op.Key, op.Tool = string(v[3]), string(v[4]), string(v[5])
	op.Scope, op.RunID = string(v[6]), string(v[7])
	state := int(binary.BigEndian.Uint16(v[8]))
	if state < 2 || state >= len(stateNames) {
		return nil, place{}, damaged(op.Key, fmt.Errorf("state %d is not known to this version", state))
	}
	op.State = stateNames[state]
	op.Version = int64At(v, 9)
	op.CreatedAt = timeOf(int64At(v, 10), noTime)
	op.UpdatedAt = timeOf(int64At(v, 11), noTime)
	op.LeaseUntil = timeOf(int64At(v, 12), noTime)
	d := decoder{b: v[15]}
	op.Fingerprint = d.string()
	identity := d.string()
	if d.err != nil {
		return nil, place{}, damaged(op.Key, d.err)
	}
	if v[colIdent] != nil {
		op.Identity = identity
	}
	if err := decodeData(v[16], op); err != nil {
		return nil, place{}, damaged(op.Key, err)
	}
	if v[14][0] != 0 {
		op.Note = justonce.NotePurged
	}
	return op, place{id: int64At(v, 0), result: int64At(v, 13)}, nil
}

// setResult finds the result of op in the chunks that were read with it.
func setResult(op *justonce.Operation, at place, chunks []byte) error {
	if at.result == 0 {
		return nil
	}
	version := at.result
	if version < 0 {
		version = -version
	}
	result, err := resultIn(chunks, version)
	if err == nil && result == nil {
		err = fmt.Errorf("its result, recorded with version %d, is missing", version)
	}
	if err != nil {
		return damaged(op.Key, err)
	}
	op.Result = result
	return nil
}

func int64At(v [][]byte, i int) int64 { return int64(binary.BigEndian.Uint64(v[i])) }
