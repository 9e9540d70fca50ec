package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	justonce "github.com/justonce-dev/justonce"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A hasher finds where the slot of a key or an identity is looked for first.
type hasher struct {
	seed []byte
	bits int // hashBits but in tests
}

func readSeed(conn *sqlite.Conn) (h hasher, err error) {
	h.bits = hashBits
	err = sqlitex.ExecuteTransient(conn, "SELECT value FROM seed", &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error { h.seed = blob(stmt, 0); return nil },
	})
	if err == nil && len(h.seed) != 16 {
		err = errors.New("the seed of the hash table is missing")
	}
	return h, err
}

const hashBits = 35 // as the schema says

func (h hasher) key(tenant, key string) int64           { return h.sum('k', tenant, key) }
func (h hasher) identity(tenant, identity string) int64 { return h.sum('i', tenant, identity) }

// sum is stored in files: it must never change.
func (h hasher) sum(kind byte, tenant, value string) int64 {
	var buf [256]byte
	b := append(buf[:0], h.seed...)
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(len(tenant)))
	b = append(b, tenant...)
	b = append(b, value...)
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]) >> (64 - h.bits))
}

func (h hasher) fill(r *request) {
	r.keyHash = h.key(r.row.tenant, r.row.key)
	if r.row.identity != "" {
		r.idHash = h.identity(r.row.tenant, r.row.identity)
	}
}

func isKey(tenant, key string) func(*justonce.Operation) bool {
	return func(op *justonce.Operation) bool { return op.Key == key && op.Tenant == tenant }
}

func isIdentity(tenant, identity string) func(*justonce.Operation) bool {
	return func(op *justonce.Operation) bool { return op.Identity == identity && op.Tenant == tenant }
}

// lookUp returns the operation that is meant, found from hash on with a
// selectBySlot, or nil.
func lookUp(stmt *sqlite.Stmt, scratch *[]byte, hash int64, isMeant func(*justonce.Operation) bool) (*justonce.Operation, place, error) {
	for ; ; hash++ {
		stmt.BindInt64(1, hash)
		op, at, err := readOne(stmt, scratch)
		at.slot = hash
		if err != nil || op == nil || isMeant(op) {
			return op, at, err
		}
	}
}

func (w *writer) lookUp(hash int64, isMeant func(*justonce.Operation) bool) (*justonce.Operation, place, error) {
	if err := w.flush(); err != nil {
		return nil, place{}, err
	}
	return lookUp(w.stmts.bySlot, &w.scratch, hash, isMeant)
}

// takeSlots takes the first slots of r's key and identity for the next
// operation if both are free, else none.
func (w *writer) takeSlots(r *request) (bool, error) {
	ok, err := w.takeSlot(r.keyHash, w.lastOp+1)
	if err != nil || !ok || r.row.identity == "" {
		return ok, err
	}
	ok, err = w.takeSlot(r.idHash, w.lastOp+1)
	if err != nil || ok {
		return ok, err
	}
	w.stmts.leaveSlot.BindInt64(1, r.keyHash)
	return false, run(w.stmts.leaveSlot)
}

func (w *writer) takeSlot(hash, op int64) (bool, error) {
	stmt := w.stmts.takeSlot
	stmt.BindInt64(1, hash)
	stmt.BindInt64(2, op)
	if err := run(stmt); err != nil {
		return false, err
	}
	return w.conn.Changes() == 1, nil
}

// placeInSlot gives the next operation the slot of an archived one, or the
// first that is free.
func (w *writer) placeInSlot(hash int64, archived bool, at place) error {
	if !archived {
		return w.probeSlot(hash, w.lastOp+1)
	}
	stmt := w.stmts.setSlot
	stmt.BindInt64(1, at.slot)
	stmt.BindInt64(2, w.lastOp+1)
	if err := run(stmt); err != nil {
		return err
	}
	if w.conn.Changes() != 1 {
		return errors.New("a slot has gone")
	}
	return nil
}

func (w *writer) probeSlot(hash, op int64) error {
	for ; ; hash++ {
		if ok, err := w.takeSlot(hash, op); err != nil || ok {
			return err
		}
	}
}
