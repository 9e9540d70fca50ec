package redis

import (
	"encoding/binary"
	"fmt"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/internal/packed"
)

// decodeRow reads what row.encode made, and the version of the write that
// recorded the result. A row that cannot be read is an error.
func decodeRow(s string) (op *justonce.Operation, result int64, err error) {
	if len(s) < headSize {
		return nil, 0, damaged(packed.ErrShort)
	}
	if s[0] != rowFormat {
		return nil, 0, damaged(fmt.Errorf("encoding %d is not known to this version", s[0]))
	}
	state := int(s[offState])
	if state < 2 || state >= len(stateNames) {
		return nil, 0, damaged(fmt.Errorf("state %d is not known to this version", state))
	}
	op = &justonce.Operation{}
	op.State = stateNames[state]
	op.Version = int64At(s, offVersion)
	op.CreatedAt = packed.TimeOf(getTime(s[offCreated:]), packed.NoTime)
	op.UpdatedAt = packed.TimeOf(getTime(s[offUpdated:]), packed.NoTime)
	op.Due = packed.TimeOf(getTime(s[offDue:]), packed.Never)
	op.LeaseUntil = packed.TimeOf(getTime(s[offLease:]), packed.NoTime)
	op.DedupeUntil = packed.TimeOf(getTime(s[offDedupe:]), packed.Never)
	d := packed.Decoder{B: []byte(s[headSize:])}
	fixed := len(d.B) - int(binary.BigEndian.Uint32([]byte(s[offFixed:headSize])))
	op.Tenant, op.Key, op.Fingerprint, op.Identity = d.String(), d.String(), d.String(), d.String()
	if d.Err == nil && len(d.B) != fixed {
		d.Fail()
	}
	decodeData(&d, op)
	if d.Err != nil {
		return nil, 0, damaged(d.Err)
	}
	if s[offPurged] != 0 {
		op.Note = justonce.NotePurged
	}
	return op, int64At(s, offResult), nil
}

func decodeData(d *packed.Decoder, op *justonce.Operation) {
	flags := d.Byte()
	op.Doubt, op.Accepted = flags&flagDoubt != 0, flags&flagAccepted != 0
	op.Incident, op.Exclusive = flags&flagIncident != 0, flags&flagExclusive != 0
	op.Reason = justonce.Reason(d.Name(reasons))
	op.KeySource = justonce.KeySource(d.Name(keySources))
	op.Fence = d.Int()
	op.Attempts, op.Lookups, op.Unknowns = int(d.Int()), int(d.Int()), int(d.Int())
	op.Series, op.IntentSeq = int(d.Int()), int(d.Int())
	op.FirstSent, op.UnknownAt = d.Time(), d.Time()
	for _, s := range [...]*string{&op.Tool, &op.Scope, &op.RunID, &op.Algorithm, &op.WireKey, &op.TraceParent, &op.Reference, &op.Digest, &op.Note} {
		*s = d.String()
	}
	if flags&flagFailure != 0 {
		op.Failure = &justonce.Failure{Code: d.String(), Message: d.String()}
	}
}

// decodeResult reads a row with the chunk of its result, "" if there is none.
func decodeResult(s, chunk string) (*justonce.Operation, error) {
	op, version, err := decodeRow(s)
	if err != nil || version == 0 {
		return op, err
	}
	result, err := entries.Result([]byte(chunk), version)
	if err == nil && result == nil {
		err = fmt.Errorf("its result, recorded with version %d, is missing", version)
	}
	if err != nil {
		return nil, damaged(fmt.Errorf("%q: %w", op.Key, err))
	}
	op.Result = result
	return op, nil
}

func int64At(s string, at int) int64 { return int64(binary.BigEndian.Uint64([]byte(s[at : at+8]))) }

// damaged is the error of an operation that is there and cannot be read.
func damaged(err error) error {
	return unavailable("reading an operation", fmt.Errorf("it is damaged: %w", err))
}
