package sqlite

import (
	"fmt"

	justonce "github.com/justonce-dev/justonce"
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
	r.due, errs[0] = nanos(op.Due, never)
	r.lease, errs[1] = nanos(op.LeaseUntil, noTime)
	r.created, errs[2] = nanos(op.CreatedAt, noTime)
	e := encoder{b: r.buf[:0]}
	e.string(op.Fingerprint)
	fixed := len(e.b)
	appendData(&e, op)
	for _, err := range append(errs[:], e.err) {
		if err != nil {
			return invalid("time", err.Error())
		}
	}
	// An open operation keeps room for what its end will add (digest, times),
	// and a reference takes its room from the padding.
	n := len(e.b) - fixed + len(op.Reference)
	want := n
	if !op.State.Ended() {
		want += 56
	}
	for want = (want + 63) &^ 63; n < want; n++ {
		e.byte(0)
	}
	r.buf, r.fixed, r.data = e.b, e.b[:fixed], e.b[fixed:]
	return nil
}

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
	e.time(op.UpdatedAt)
	e.time(op.FirstSent)
	e.time(op.UnknownAt)
	e.time(op.DedupeUntil)
	e.string(op.Algorithm)
	e.string(op.Scope)
	e.string(op.RunID)
	e.string(op.WireKey)
	e.string(op.TraceParent)
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
	op.UpdatedAt, op.FirstSent, op.UnknownAt, op.DedupeUntil = d.time(), d.time(), d.time(), d.time()
	op.Algorithm, op.Scope, op.RunID, op.WireKey = d.string(), d.string(), d.string(), d.string()
	op.TraceParent, op.Digest, op.Note = d.string(), d.string(), d.string()
	if flags&flagFailure != 0 {
		op.Failure = &justonce.Failure{Code: d.string(), Message: d.string()}
	}
	return d.err
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
	op.Due = timeOf(stmt.ColumnInt64(6), never)
	op.LeaseUntil = timeOf(stmt.ColumnInt64(7), noTime)
	op.CreatedAt = timeOf(stmt.ColumnInt64(8), noTime)
	op.Reference = stmt.ColumnText(9)
	switch stmt.ColumnType(10) {
	case sqlite.TypeBlob:
		op.Identity = hexString(column(stmt, 10, scratch))
	case sqlite.TypeText:
		op.Identity = stmt.ColumnText(10)
	}
	d := decoder{b: column(stmt, 11, scratch)}
	op.Fingerprint = d.string()
	if d.err != nil {
		return nil, p, damaged(p.id, d.err)
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
		if raw, ok := appendHex(make([]byte, 0, 64), identity); ok {
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
