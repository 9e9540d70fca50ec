package postgres

import (
	"crypto/sha256"
	"encoding/binary"
)

// A hash addresses a key, an identity or a reference within its tenant: the
// first half of a SHA-256. It takes the place of texts in indexes, which stay
// small and of one width; the text beside it is compared when it is read.
type hash [16]byte

func keyHash(tenant, key string) hash             { return sum('k', tenant, key) }
func identityHash(tenant, identity string) hash   { return sum('i', tenant, identity) }
func referenceHash(tenant, reference string) hash { return sum('r', tenant, reference) }

// sum is stored in databases: it must never change.
func sum(kind byte, tenant, value string) (h hash) {
	var buf [256]byte
	b := append(buf[:0], kind)
	b = binary.AppendUvarint(b, uint64(len(tenant)))
	b = append(b, tenant...)
	b = append(b, value...)
	s := sha256.Sum256(b)
	copy(h[:], s[:])
	return h
}

// lock returns the number of an advisory lock.
func (h hash) lock() int64 { return int64(binary.BigEndian.Uint64(h[:8])) }
