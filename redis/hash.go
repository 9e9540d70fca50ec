package redis

import (
	"crypto/sha256"
	"encoding/binary"
)

// A hash addresses a key, an identity or a reference within its tenant: the
// first half of a SHA-256. The text beside it is compared when it is read.
type hash [16]byte

func keyHash(tenant, key string) hash             { return sum('k', tenant, key) }
func identityHash(tenant, identity string) hash   { return sum('i', tenant, identity) }
func referenceHash(tenant, reference string) hash { return sum('r', tenant, reference) }

// toolHash stands for a tool in the members of indexes.
func toolHash(tool string) (h [8]byte) {
	s := sum('t', "", tool)
	copy(h[:], s[:])
	return h
}

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
