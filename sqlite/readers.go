package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/packed"
	"zombiezen.com/go/sqlite"
)

// selectWithResult is followed by a condition on op.
const selectWithResult = `SELECT op.id, op.tenant, op.key, op.tool, op.rev, op.state, op.due, op.lease, op.created,
	op.ref, op.identity, op.fixed, op.data, op.first, op.last, op.result, entry.op, entry.body
	FROM op LEFT JOIN entry ON entry.id = op.result AND op.result <> op.first `

// selectBySlot has the slot's operation in one column more.
var selectBySlot = strings.Replace(selectWithResult, "FROM op ", ", slot.op FROM slot LEFT JOIN op ON op.id = slot.op ", 1) +
	"WHERE slot.hash = ?1"

// A reader is a connection for reading single operations.
type reader struct {
	conn               *sqlite.Conn
	bySlot, begin, end *sqlite.Stmt
	due                dueStatements
	scratch            []byte
	batch              []*request
}

// readers share their connections by combining: a caller that finds one free
// reads by itself; the others queue, and whoever is done makes the first of
// them the leader, who reads for all that wait in one transaction. Reads that
// wait begin after they were asked for, so each sees what was committed
// before its call.
type readers struct {
	store *Store

	mu     sync.Mutex
	all    int
	idle   []*reader
	queue  []*request
	closed bool
	gone   sync.Cond // an idle reader more
}

// maxRead bounds what one leader does for others.
const maxRead = 64

func newReaders(s *Store, path string, n int, busy time.Duration) (*readers, error) {
	p := &readers{store: s}
	p.gone.L = &p.mu
	for range n {
		conn, err := connect(path, readerCacheKiB, busy)
		if err != nil {
			p.close()
			return nil, err
		}
		p.all++
		rd := &reader{conn: conn}
		p.idle = append(p.idle, rd)
		st := preparer{conn: conn}
		rd.bySlot = st.prepare(selectBySlot)
		rd.due.prepare(&st)
		rd.begin = st.prepare("BEGIN")
		rd.end = st.prepare("COMMIT")
		if st.err != nil {
			p.close()
			return nil, st.err
		}
	}
	return p, nil
}

// read returns when r is answered. Whatever the caller's context, that is soon.
func (p *readers) read(r *request) {
	if p.serve(r) {
		return
	}
	<-r.done
	if r.lead != nil {
		p.lead(r.lead, r) // r is in the batch
	}
}

// serve answers r at once and returns true, or queues it. Then r belongs to
// the leaders until the signal.
func (p *readers) serve(r *request) bool {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		r.err = unavailable("reading", errClosed)
		return true
	}
	n := len(p.idle)
	if n == 0 {
		p.queue = append(p.queue, r)
		p.mu.Unlock()
		return false
	}
	rd := p.idle[n-1]
	p.idle = p.idle[:n-1]
	p.mu.Unlock()
	rd.batch = append(rd.batch[:0], r)
	p.lead(rd, r)
	return true
}

// lead reads the batch of rd, in which self is the caller's own request, and
// passes rd on.
func (p *readers) lead(rd *reader, self *request) {
	batch := rd.batch
	var err error
	if len(batch) > 1 {
		err = run(rd.begin)
	}
	for _, r := range batch {
		if r.err = err; err == nil {
			r.err = p.answer(rd, r)
		}
	}
	if len(batch) > 1 && err == nil {
		// Nothing depends on it but the snapshot: let it go in any case.
		if err := run(rd.end); err != nil {
			p.store.log.Warn("ledger: ending a read", "error", err)
		}
	}
	for i, r := range batch {
		batch[i] = nil
		if r != self {
			r.done <- struct{}{}
		}
	}
	p.pass(rd) // last, since the next leader reuses the batch
}

// pass gives rd to the next leader, with all that may be read at once.
func (p *readers) pass(rd *reader) {
	p.mu.Lock()
	if len(p.queue) == 0 {
		p.idle = append(p.idle, rd)
		p.gone.Signal()
		p.mu.Unlock()
		return
	}
	n := min(len(p.queue), maxRead)
	rd.batch = append(make([]*request, 0, n), p.queue[:n]...)
	rest := copy(p.queue, p.queue[n:])
	clear(p.queue[rest:])
	p.queue = p.queue[:rest]
	p.mu.Unlock()
	leader := rd.batch[0]
	leader.lead = rd
	leader.done <- struct{}{}
}

// answer looks r up. A Begin that must be recorded has no operation then.
func (p *readers) answer(rd *reader, r *request) error {
	if r.kind == kindDue {
		now, err := packed.Nanos(p.store.now(), packed.NoTime)
		if err != nil {
			return invalid("now", err.Error())
		}
		ids, err := rd.due.ids(r.due.Tools, now, 1)
		r.n = len(ids)
		return err
	}
	op, _, err := lookUp(rd.bySlot, &rd.scratch, r.keyHash, isKey(r.row.tenant, r.row.key))
	match := justonce.MatchKey
	if err == nil && op == nil && r.row.identity != "" {
		op, _, err = lookUp(rd.bySlot, &rd.scratch, r.idHash, isIdentity(r.row.tenant, r.row.identity))
		match = justonce.MatchIdentity
	}
	if err != nil || op == nil || r.kind == kindBegin && p.store.outlived(op) {
		return err
	}
	r.op, r.match = op, match
	return nil
}

// readOne returns the operation of a selectWithResult, or nil. The error of
// one that cannot be read is justonce.ErrUnavailable.
func readOne(stmt *sqlite.Stmt, scratch *[]byte) (*justonce.Operation, place, error) {
	found, err := stmt.Step()
	if err != nil || !found {
		if err == nil {
			err = stmt.Reset()
		}
		return nil, place{}, err
	}
	if stmt.ColumnIsNull(0) {
		err := damaged(stmt.ColumnInt64(columnCount+2), errors.New("its row is missing"))
		stmt.Reset()
		return nil, place{}, err
	}
	op, p, err := scan(stmt, scratch)
	if err == nil && p.result != p.first {
		switch {
		case stmt.ColumnIsNull(columnCount):
			err = damaged(p.id, fmt.Errorf("its result, entry %d, is missing", p.result))
		case stmt.ColumnInt64(columnCount) != p.id:
			err = damaged(p.id, errors.New("its result belongs to another operation"))
		default:
			op.Result = blob(stmt, columnCount+1)
		}
	}
	if err2 := stmt.Reset(); err == nil {
		err = err2
	}
	if err != nil {
		return nil, p, err
	}
	return op, p, nil
}

// close waits for all reads under way and refuses later ones.
func (p *readers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for len(p.idle) < p.all {
		p.gone.Wait()
	}
	for _, rd := range p.idle {
		rd.conn.Close()
	}
	p.idle = nil
}
