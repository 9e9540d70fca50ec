package sqlite

import (
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite"
)

// States as they are stored: the order of an operation's life from 2, so that
// each takes one byte. Those below ended are live.
const (
	stReview = 5
	stEnded  = 6
	stFailed = 7
)

var stateCodes = map[justonce.State]int64{
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

// A row is an operation's row with what the caller's goroutine can prepare,
// so that the writer only binds.
type row struct {
	tenant, key, tool   string
	rev, state          int64
	due, lease, created int64
	ref                 string
	identity            string
	fixed, data         []byte
	buf                 []byte
}

// encode fills r from op as of a version. Its buffer is reused.
func (r *row) encode(op *justonce.Operation, version int64) error {
	state, ok := stateCodes[op.State]
	if !ok {
		return invalid("state", fmt.Sprintf("%q is no state", op.State))
	}
	r.tenant, r.key, r.tool, r.ref, r.identity = op.Tenant, op.Key, op.Tool, op.Reference, op.Identity
	r.rev, r.state = version+1, state
	var errs [3]error
	r.due, errs[0] = packed.Nanos(op.Due, packed.Never)
	r.lease, errs[1] = packed.Nanos(op.LeaseUntil, packed.NoTime)
	r.created, errs[2] = packed.Nanos(op.CreatedAt, packed.NoTime)
	e := encoder{packed.Encoder{B: r.buf[:0]}}
	e.String(op.Fingerprint)
	fixed := len(e.B)
	appendData(&e, op)
	for _, err := range append(errs[:], e.Err) {
		if err != nil {
			return invalid("time", err.Error())
		}
	}
	// An open operation keeps room for what its end will add (digest, times),
	// and a reference takes its room from the padding.
	n := len(e.B) - fixed + len(op.Reference)
	want := n
	if !op.State.Ended() {
		want += 56
	}
	for want = (want + 63) &^ 63; n < want; n++ {
		e.Byte(0)
	}
	r.buf, r.fixed, r.data = e.B, e.B[:fixed], e.B[fixed:]
	return nil
}

func appendData(e *encoder, op *justonce.Operation) {
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
	e.Time(op.UpdatedAt)
	e.Time(op.FirstSent)
	e.Time(op.UnknownAt)
	e.Time(op.DedupeUntil)
	e.String(op.Algorithm)
	e.String(op.Scope)
	e.String(op.RunID)
	e.String(op.WireKey)
	e.String(op.TraceParent)
	e.String(op.Digest)
	e.String(op.Note)
	if op.Failure != nil {
		e.String(op.Failure.Code)
		e.String(op.Failure.Message)
	}
}

func decodeData(b []byte, op *justonce.Operation) error {
	d := decoder{packed.Decoder{B: b}}
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
	op.UpdatedAt, op.FirstSent, op.UnknownAt, op.DedupeUntil = d.Time(), d.Time(), d.Time(), d.Time()
	op.Algorithm, op.Scope, op.RunID, op.WireKey = d.String(), d.String(), d.String(), d.String()
	op.TraceParent, op.Digest, op.Note = d.String(), d.String(), d.String()
	if flags&flagFailure != 0 {
		op.Failure = &justonce.Failure{Code: d.String(), Message: d.String()}
	}
	return d.Err
}

// A place is where an operation is stored. It holds as long as the version.
type place struct {
	id, version         int64
	first, last, result int64
	state, created      int64
	slot                int64 // where it was looked up
}

// columns of op in the order that scan reads.
const columns = `id, tenant, key, tool, rev, state, due, lease, created, ref, identity, fixed, data, first, last, result`

const columnCount = 16

func placeOf(stmt *sqlite.Stmt) place {
	return place{
		id: stmt.ColumnInt64(0), version: stmt.ColumnInt64(4) - 1, state: stmt.ColumnInt64(5), created: stmt.ColumnInt64(8),
		first: stmt.ColumnInt64(13), last: stmt.ColumnInt64(14), result: stmt.ColumnInt64(15),
	}
}

// scan reads the current row of stmt, which selects columns first. A row that
// cannot be read is an error.
func scan(stmt *sqlite.Stmt, scratch *[]byte) (*justonce.Operation, place, error) {
	op := &justonce.Operation{}
	p := placeOf(stmt)
	op.Tenant, op.Key, op.Tool = stmt.ColumnText(1), stmt.ColumnText(2), stmt.ColumnText(3)
	op.Version = p.version
	if p.state < 2 || p.state >= int64(len(stateNames)) {
		return nil, p, damaged(p.id, fmt.Errorf("state %d is not known to this version", p.state))
	}
	op.State = stateNames[p.state]
	op.Due = packed.TimeOf(stmt.ColumnInt64(6), packed.Never)
	op.LeaseUntil = packed.TimeOf(stmt.ColumnInt64(7), packed.NoTime)
	op.CreatedAt = packed.TimeOf(stmt.ColumnInt64(8), packed.NoTime)
	op.Reference = stmt.ColumnText(9)
	switch stmt.ColumnType(10) {
	case sqlite.TypeBlob:
		op.Identity = packed.HexString(column(stmt, 10, scratch))
	case sqlite.TypeText:
		op.Identity = stmt.ColumnText(10)
	}
	d := decoder{packed.Decoder{B: column(stmt, 11, scratch)}}
	op.Fingerprint = d.String()
	if d.Err != nil {
		return nil, p, damaged(p.id, d.Err)
	}
	if err := decodeData(column(stmt, 12, scratch), op); err != nil {
		return nil, p, damaged(p.id, err)
	}
	return op, p, nil
}

// column reads a blob into scratch; it is good until the next call.
func column(stmt *sqlite.Stmt, col int, scratch *[]byte) []byte {
	n := stmt.ColumnLen(col)
	if cap(*scratch) < n {
		*scratch = make([]byte, n+256)
	}
	b := (*scratch)[:n]
	stmt.ColumnBytes(col, b)
	return b
}

// blob reads a blob that the caller keeps; NULL is nil.
func blob(stmt *sqlite.Stmt, col int) []byte {
	n := stmt.ColumnLen(col)
	if n == 0 {
		if stmt.ColumnIsNull(col) {
			return nil
		}
		return []byte{}
	}
	b := make([]byte, n)
	stmt.ColumnBytes(col, b)
	return b
}

func bindIdentity(stmt *sqlite.Stmt, param int, identity string) {
	if identity == "" {
		stmt.BindNull(param)
		return
	}
	if len(identity)%2 == 0 {
		if raw, ok := packed.AppendHex(make([]byte, 0, 64), identity); ok {
			stmt.BindBytes(param, raw)
			return
		}
	}
	stmt.BindText(param, identity)
}

func bindBody(stmt *sqlite.Stmt, param int, body []byte) {
	if body == nil {
		stmt.BindNull(param)
		return
	}
	stmt.BindBytes(param, body)
}
