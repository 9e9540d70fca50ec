package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/justonce-dev/justonce/internal/packed"
)

// The statements are few and their values simple: they are put into the binary
// format here, without looking at types at run time.

const (
	oidBool  = 16
	oidBytea = 17
	oidInt8  = 20
	oidInt2  = 21
	oidText  = 25
	oidUUID  = 2950

	oidBools  = 1000
	oidByteas = 1001
	oidInt2s  = 1005
	oidTexts  = 1009
	oidInt8s  = 1016
	oidUUIDs  = 2951
)

var elements = map[uint32]uint32{oidBools: oidBool, oidByteas: oidBytea, oidInt2s: oidInt2,
	oidTexts: oidText, oidInt8s: oidInt8, oidUUIDs: oidUUID}

// binaryFormat is that of all parameters and results.
var binaryFormat = []int16{1}

// An array is a parameter of an array type that is being filled. Its buffer is
// reused.
type array struct {
	b []byte
	n uint32
}

const arrayHeader = 20

func (a *array) reset(oid uint32) {
	a.b, a.n = append(a.b[:0], make([]byte, arrayHeader)...), 0
	binary.BigEndian.PutUint32(a.b[8:], elements[oid])
}

func (a *array) int64(v int64) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, 8)
	a.b = binary.BigEndian.AppendUint64(a.b, uint64(v))
}

func (a *array) int16(v int16) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, 2)
	a.b = binary.BigEndian.AppendUint16(a.b, uint16(v))
}

func (a *array) bool(v bool) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, 1)
	a.b = append(a.b, boolParam(v)...)
}

func (a *array) text(s string) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, uint32(len(s)))
	a.b = append(a.b, s...)
}

func (a *array) bytes(b []byte) {
	a.n++
	a.b = binary.BigEndian.AppendUint32(a.b, uint32(len(b)))
	a.b = append(a.b, b...)
}

// hash adds NULL for nil.
func (a *array) hash(h *hash) {
	if h != nil {
		a.bytes(h[:])
		return
	}
	a.null()
}

func (a *array) null() {
	a.n++
	binary.BigEndian.PutUint32(a.b[4:], 1) // has NULLs
	a.b = binary.BigEndian.AppendUint32(a.b, 1<<32-1)
}

// param returns the finished value, which is good until the next reset.
func (a *array) param() []byte {
	if a.n == 0 {
		return a.b[:12] // no dimension
	}
	binary.BigEndian.PutUint32(a.b, 1)
	binary.BigEndian.PutUint32(a.b[12:], a.n)
	binary.BigEndian.PutUint32(a.b[16:], 1) // the first index
	return a.b
}

// first returns the first value, which is not NULL.
func (a *array) first() []byte {
	n := binary.BigEndian.Uint32(a.b[arrayHeader:])
	return a.b[arrayHeader+4:][:n:n]
}

func int64Param(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func boolParam(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// textsParam returns an array of texts.
func textsParam(texts []string) []byte {
	var a array
	a.reset(oidTexts)
	for _, s := range texts {
		a.text(s)
	}
	return a.param()
}

// A statement is one SQL statement and the types of its parameters.
type statement struct {
	name, sql string
	oids      []uint32
}

// A conn is a connection for the time of one exchange. In a session of its own
// statements are prepared once; otherwise nothing may be left behind, and they
// are sent each time.
type conn struct {
	pg      *pgconn.PgConn
	session bool
	release func()
}

// prepared finds the statements that are prepared on a connection. The names
// cannot meet those of others, since they hold the package's.
func (c *conn) prepared(ctx context.Context, st *statement) (*pgconn.StatementDescription, error) {
	name := "justonce/postgres:" + st.name
	if sd, ok := c.pg.CustomData()[name].(*pgconn.StatementDescription); ok && sd.SQL == st.sql {
		return sd, nil
	}
	sd, err := c.pg.Prepare(ctx, name, st.sql, st.oids)
	if err == nil {
		c.pg.CustomData()[name] = sd
	}
	return sd, err
}

// A query is a statement with its parameters, and what to do with each row of
// its answer. The row is good for that call only.
type query struct {
	*statement
	params [][]byte
	row    func(row [][]byte) error
}

// exchange sends queries in one go and reads their answers: one round trip.
// Outside a transaction that was begun before they are one transaction, which
// is committed if and only if exchange returns nil or an error of a row func;
// where the connection is lost meanwhile nobody knows. After an error of a row
// func the other rows are read and dropped.
func (c *conn) exchange(ctx context.Context, queries ...query) error {
	var described [8]*pgconn.StatementDescription
	if c.session {
		for i := range queries {
			sd, err := c.prepared(ctx, queries[i].statement)
			if err != nil {
				return err
			}
			described[i] = sd
		}
	}
	p := c.pg.StartPipeline(ctx)
	buf := reserve(c.pg.Frontend(), queries)
	for i := range queries {
		q := &queries[i]
		if c.session {
			p.SendQueryStatement(described[i], q.params, binaryFormat, binaryFormat)
		} else {
			p.SendQueryParams(q.sql, q.params, q.oids, binaryFormat, binaryFormat)
		}
	}
	if err := p.Sync(); err != nil {
		p.Close()
		return err
	}
	buf.release()
	rowErr, err := answers(p, queries)
	if err2 := p.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = rowErr
	}
	return err
}

// A sendBuffer takes what a connection sends in one go. pgx lets go of its own
// after each flush and grows the next one piece by piece; that was half of all
// garbage.
type sendBuffer struct{ b []byte }

var sendBuffers = sync.Pool{New: func() any { return new(sendBuffer) }}

const (
	fewBytes  = 1 << 10 // pgx keeps a buffer that has not held more
	manyBytes = 4 << 20 // not worth keeping
)

// reserve gives f room for queries, unless they are small. They have to be
// flushed before the buffer is released.
func reserve(f *pgproto3.Frontend, queries []query) *sendBuffer {
	params, all := 0, fewBytes
	for i := range queries {
		q := &queries[i]
		all += len(q.sql) + 8*len(q.params) + 128
		for _, p := range q.params {
			params += len(p)
		}
	}
	if all += params; params <= fewBytes || all > manyBytes {
		return nil
	}
	s := sendBuffers.Get().(*sendBuffer)
	s.b = slices.Grow(s.b[:0], all)
	f.Send(s)
	return s
}

// release gives s back once all is sent. It must not be called if the flush
// failed: the connection may still hold s.
func (s *sendBuffer) release() {
	if s != nil {
		sendBuffers.Put(s)
	}
}

// Frontend and Decode are there to make s a [pgproto3.FrontendMessage].
func (s *sendBuffer) Frontend() {}

func (s *sendBuffer) Decode([]byte) error { return nil }

// Encode moves what is to be sent into s. It adds no message.
func (s *sendBuffer) Encode(dst []byte) ([]byte, error) {
	s.b = append(s.b, dst...)
	return s.b, nil
}

// answers reads what the server says to queries and, last, that it is done.
func answers(p *pgconn.Pipeline, queries []query) (rowErr, err error) {
	for i := range queries {
		got, err := p.GetResults()
		if err != nil {
			return rowErr, err
		}
		rows, ok := got.(*pgconn.ResultReader)
		if !ok {
			return rowErr, errors.New("an answer is missing")
		}
		for rows.NextRow() {
			if f := queries[i].row; f != nil && rowErr == nil {
				rowErr = f(rows.Values())
			}
		}
		if _, err := rows.Close(); err != nil {
			return rowErr, err
		}
	}
	got, err := p.GetResults()
	if _, ok := got.(*pgconn.PipelineSync); err == nil && !ok {
		err = errors.New("the end of the answer is missing")
	}
	return rowErr, err
}

// connOf returns the connection of a transaction that the caller has begun.
func connOf(tx pgx.Tx) *conn { return &conn{pg: tx.Conn().PgConn(), release: func() {}} }

// byteas reads an array of bytea from its binary format.
func byteas(b []byte) (list [][]byte, err error) {
	if len(b) <= arrayHeader {
		return nil, nil
	}
	for b = b[arrayHeader:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, packed.ErrShort
		}
		n := int(int32(binary.BigEndian.Uint32(b)))
		if b = b[4:]; n < 0 || n > len(b) {
			return nil, packed.ErrShort
		}
		list = append(list, b[:n:n])
		b = b[n:]
	}
	return list, nil
}
