package redis

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/internal/packed"
)

// States as they are stored, in the order of an operation's life. The scripts
// know their order.
var stateCodes = map[justonce.State]byte{
	justonce.Pending: 2, justonce.Running: 3, justonce.Unknown: 4,
	justonce.Review: 5, justonce.Succeeded: 6, justonce.Failed: 7,
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
	rowFormat = 1

	flagDoubt     = 1 << 0
	flagAccepted  = 1 << 1
	flagIncident  = 1 << 2
	flagExclusive = 1 << 3
	flagFailure   = 1 << 4
)

// Where the fields of fixed width begin that scripts read. They count from 1,
// and have these numbers too.
const (
	offState   = 1
	offPurged  = 2
	offVersion = 3
	offCreated = 11
	offUpdated = 19
	offDue     = 27
	offLease   = 35
	offDedupe  = 43
	offResult  = 51 // version of the write that recorded the result; 0: none
	offTool    = 59
	offIdent   = 67
	offRef     = 83
	offFixed   = 99 // length of the part that never changes, which follows
	headSize   = 103
)

// A row is what the caller's goroutine prepares of an operation for a script.
// It is stored as head, fixed and data, one behind the other.
type row struct {
	tenant, key string
	hash        hash
	head        [headSize]byte
	fixed, data []byte
	chunk       []byte // the entries of the write
	version     int64  // that the write makes
	hasResult   bool
	exclusive   bool
}

// maxBody bounds the bodies of one write: while the server takes them it serves
// nobody else.
const maxBody = 64 << 20

// encode fills r from op and the entries of the write that makes version.
func (r *row) encode(op *justonce.Operation, version int64, written []justonce.Entry) error {
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
	r.tenant, r.key, r.hash, r.version = op.Tenant, op.Key, keyHash(op.Tenant, op.Key), version
	r.exclusive = op.Exclusive

	h := r.head[:]
	h[0], h[offState] = rowFormat, state
	binary.BigEndian.PutUint64(h[offVersion:], uint64(version))
	for _, f := range [...]struct {
		at   int
		t    time.Time
		zero int64
	}{
		{offCreated, op.CreatedAt, packed.NoTime}, {offUpdated, op.UpdatedAt, packed.NoTime}, {offDue, op.Due, packed.Never},
		{offLease, op.LeaseUntil, packed.NoTime}, {offDedupe, op.DedupeUntil, packed.Never},
	} {
		n, err := packed.Nanos(f.t, f.zero)
		if err != nil {
			return invalid("time", err.Error())
		}
		putTime(h[f.at:], n)
	}
	tool := toolHash(op.Tool)
	copy(h[offTool:], tool[:])
	if op.Identity != "" {
		ident := identityHash(op.Tenant, op.Identity)
		copy(h[offIdent:], ident[:])
	}
	if op.Reference != "" {
		ref := referenceHash(op.Tenant, op.Reference)
		copy(h[offRef:], ref[:])
	}

	e := packed.Encoder{B: make([]byte, 0, 640)}
	e.String(op.Tenant)
	e.String(op.Key)
	e.String(op.Fingerprint)
	e.String(op.Identity)
	fixed := len(e.B)
	appendData(&e, op)
	if e.Err != nil {
		return invalid("time", e.Err.Error())
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
	r.fixed, r.data, r.chunk = e.B[:fixed:fixed], e.B[fixed:data:data], e.B[data:]
	binary.BigEndian.PutUint32(h[offFixed:], uint32(fixed))
	return nil
}

// whole returns the row as it is stored when nothing is kept of another.
func (r *row) whole() []byte {
	b := make([]byte, 0, headSize+len(r.fixed)+len(r.data))
	return append(append(append(b, r.head[:]...), r.fixed...), r.data...)
}

// name is the row's place in lists: by creation time, then key. The hash leads
// back to the row.
func (r *row) name() string { return rowName(r.head[offCreated:offUpdated], r.key, r.hash) }

func rowName(created []byte, key string, h hash) string {
	b := make([]byte, 0, len(created)+len(key)+1+len(h))
	return string(append(append(append(append(b, created...), key...), 0), h[:]...))
}

// expected is what a write compares: the version before r's and the creation
// time.
func (r *row) expected() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(r.version-1))
	copy(b[8:], r.head[offCreated:offUpdated])
	return string(b[:])
}

func appendData(e *packed.Encoder, op *justonce.Operation) {
	var flags byte
	for i, on := range [...]bool{op.Doubt, op.Accepted, op.Incident, op.Exclusive, op.Failure != nil} {
		if on {
			flags |= 1 << i
		}
	}
	e.Byte(flags)
	e.Name(string(op.Reason), reasons)
	e.Name(string(op.KeySource), keySources)
	for _, v := range [...]int64{op.Fence, int64(op.Attempts), int64(op.Lookups), int64(op.Unknowns),
		int64(op.Series), int64(op.IntentSeq)} {
		e.Int(v)
	}
	e.Time(op.FirstSent)
	e.Time(op.UnknownAt)
	for _, s := range [...]string{op.Tool, op.Scope, op.RunID, op.Algorithm, op.WireKey, op.TraceParent, op.Reference, op.Digest, op.Note} {
		e.String(s)
	}
	if op.Failure != nil {
		e.String(op.Failure.Code)
		e.String(op.Failure.Message)
	}
}

func putTime(b []byte, n int64) { binary.BigEndian.PutUint64(b, uint64(n)^1<<63) }

func getTime(b string) int64 { return int64(binary.BigEndian.Uint64([]byte(b[:8])) ^ 1<<63) }

func putVersion(b []byte, n int64) { binary.BigEndian.PutUint64(b, uint64(n)) }

// text returns b as a string. b must not change afterwards.
func text(b []byte) string { return rueidis.BinaryString(b) }
