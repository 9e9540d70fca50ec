package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/internal/packed"
)

// States as they are stored, in the order of an operation's life. Those below
// stReview are open, those from stEnded on have ended.
const (
	stRunning = 3
	stReview  = 5
	stEnded   = 6 // succeeded
	stFailed  = 7
)

var stateCodes = map[justonce.State]int16{
	justonce.Pending: 2, justonce.Running: stRunning, justonce.Unknown: 4,
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
	bigChunk         bool   // too big or too late for op.log
	done             bool   // it replaced another
	batch            *batch // that it is in, and not in watch
	buf              []byte // of fixed, data and chunk
}

const (
	inlineChunk   = 640 // bytes
	inlineVersion = 6
)

// maxBody keeps what one write brings within what PostgreSQL stores in one
// field.
const maxBody = 256 << 20

// encode fills r from op and the entries of the write that makes version.
func (r *row) encode(op *justonce.Operation, version int64, written []justonce.Entry) error {
	state, ok := stateCodes[op.State]
	if !ok {
		return invalid("state", fmt.Sprintf("%q is no state", op.State))
	}
	if version == 1 { // later they are the same
		if err := checkTexts(op); err != nil {
			return err
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
	var errs [5]error
	r.due, errs[0] = packed.Nanos(op.Due, packed.Never)
	r.lease, errs[1] = packed.Nanos(op.LeaseUntil, packed.NoTime)
	r.created, errs[2] = packed.Nanos(op.CreatedAt, packed.NoTime)
	r.updated, errs[3] = packed.Nanos(op.UpdatedAt, packed.NoTime)
	if r.buf == nil {
		r.buf = make([]byte, 0, 512)
	}
	e := packed.Encoder{B: r.buf[:0]}
	if version == 1 {
		e.String(op.Fingerprint)
		e.String(op.Identity)
	}
	fixed := len(e.B)
	appendData(&e, op)
	errs[4] = e.Err
	for _, err := range errs {
		if err != nil {
			return invalid("time", err.Error())
		}
	}
	data := len(e.B)
	if len(written) > 0 {
		var err error
		if r.hasResult, err = entries.AppendChunk(&e, version, written, maxBody); err != nil {
			return err
		}
		if e.Err != nil {
			return invalid("time", e.Err.Error())
		}
	}
	r.buf = e.B
	r.fixed, r.data, r.chunk = e.B[:fixed:fixed], e.B[fixed:data:data], e.B[data:]
	r.bigChunk = len(r.chunk) > inlineChunk || version > inlineVersion && len(r.chunk) > 0
	return nil
}

// checkTexts refuses what PostgreSQL's type text cannot hold.
func checkTexts(op *justonce.Operation) error {
	for _, f := range [...]struct{ name, text string }{
		{"tenant", op.Tenant}, {"key", op.Key}, {"tool", op.Tool}, {"scope", op.Scope}, {"run_id", op.RunID},
	} {
		if strings.IndexByte(f.text, 0) >= 0 || !utf8.ValidString(f.text) {
			return invalid(f.name, "must be UTF-8 without NUL")
		}
	}
	return nil
}

// size is about how many bytes the row sends.
func (r *row) size() int { return 200 + len(r.fixed) + len(r.data) + len(r.chunk) }

func appendData(e *packed.Encoder, op *justonce.Operation) {
	var flags byte
	for i, on := range [...]bool{op.Doubt, op.Accepted, op.Incident, op.Exclusive, op.Failure != nil} {
		if on {
			flags |= 1 << i
		}
	}
	e.Byte(dataVersion)
	e.Byte(flags)
	e.Name(string(op.Reason), reasons)
	e.Name(string(op.KeySource), keySources)
	for _, v := range [...]int64{op.Fence, int64(op.Attempts), int64(op.Lookups), int64(op.Unknowns),
		int64(op.Series), int64(op.IntentSeq)} {
		e.Int(v)
	}
	e.Time(op.Due)
	e.Time(op.FirstSent)
	e.Time(op.UnknownAt)
	e.Time(op.DedupeUntil)
	e.String(op.Algorithm)
	e.String(op.WireKey)
	e.String(op.TraceParent)
	e.String(op.Reference)
	e.String(op.Digest)
	e.String(op.Note)
	if op.Failure != nil {
		e.String(op.Failure.Code)
		e.String(op.Failure.Message)
	}
}

func decodeData(b []byte, op *justonce.Operation) error {
	d := packed.Decoder{B: b}
	if v := d.Byte(); v != dataVersion {
		return fmt.Errorf("encoding %d is not known to this version", v)
	}
	flags := d.Byte()
	op.Doubt, op.Accepted = flags&flagDoubt != 0, flags&flagAccepted != 0
	op.Incident, op.Exclusive = flags&flagIncident != 0, flags&flagExclusive != 0
	op.Reason = justonce.Reason(d.Name(reasons))
	op.KeySource = justonce.KeySource(d.Name(keySources))
	op.Fence = d.Int()
	op.Attempts, op.Lookups, op.Unknowns = int(d.Int()), int(d.Int()), int(d.Int())
	op.Series, op.IntentSeq = int(d.Int()), int(d.Int())
	op.Due, op.FirstSent, op.UnknownAt, op.DedupeUntil = d.Time(), d.Time(), d.Time(), d.Time()
	op.Algorithm, op.WireKey, op.TraceParent = d.String(), d.String(), d.String()
	op.Reference, op.Digest, op.Note = d.String(), d.String(), d.String()
	if flags&flagFailure != 0 {
		op.Failure = &justonce.Failure{Code: d.String(), Message: d.String()}
	}
	return d.Err
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
	op.CreatedAt = packed.TimeOf(int64At(v, 10), packed.NoTime)
	op.UpdatedAt = packed.TimeOf(int64At(v, 11), packed.NoTime)
	op.LeaseUntil = packed.TimeOf(int64At(v, 12), packed.NoTime)
	d := packed.Decoder{B: v[15]}
	op.Fingerprint = d.String()
	identity := d.String()
	if d.Err != nil {
		return nil, place{}, damaged(op.Key, d.Err)
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
	result, err := entries.Result(chunks, version)
	if err == nil && result == nil {
		err = fmt.Errorf("its result, recorded with version %d, is missing", version)
	}
	if err != nil {
		return damaged(op.Key, err)
	}
	op.Result = bytes.Clone(result) // without the rest of what was read
	return nil
}

func int64At(v [][]byte, i int) int64 { return int64(binary.BigEndian.Uint64(v[i])) }
