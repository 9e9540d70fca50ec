package postgres

import (
	"bytes"
	"context"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/recent"
)

// MayHave implements [justonce.Guesser] with what this process has seen. It may
// be false of what another process recorded.
func (s *Store) MayHave(ref justonce.Ref) bool { return s.seen.MayHave(keyHash(ref.Tenant, ref.Key)) }

// fillSeen reads what was recorded before, a little at a time, in the order of
// the hashes. Of a ledger with more than a filter holds it reads a part.
func (s *Store) fillSeen(ctx context.Context) {
	const some, atMost = 5000, recent.Full / 2
	var from hash
	st := s.st.plain("recorded", `SELECT hash FROM $schema.op WHERE hash > $1 ORDER BY hash LIMIT $2`, oidUUID, oidInt8)
	for n := 0; n < atMost; {
		rows := 0
		ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
		err := s.connected(ctx, func(c *conn) error {
			return c.exchange(ctx, query{st, [][]byte{bytes.Clone(from[:]), int64Param(some)}, func(v [][]byte) error {
				from = hash(v[0])
				s.seen.Add(from)
				rows++
				return nil
			}})
		})
		cancel()
		if err != nil || rows < some {
			if err != nil && ctx.Err() == nil {
				s.o.Logger.Warn("ledger: reading what was recorded before", "error", err)
			}
			return
		}
		n += rows
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond): // in nobody's way
		}
	}
}
