package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	justonce "github.com/justonce-dev/justonce"
)

// A Write is one write of an operation: as it is then, and the entry.
type Write struct {
	Op    justonce.Operation
	Entry justonce.Entry
}

// Copy records n operations past the calls, as their writes leave them: the
// first that of Begin, the others those of Update.
func (s *Store) Copy(ctx context.Context, conn *pgx.Conn, n int64, writes func(i int64) []Write) error {
	i := int64(-1)
	_, err := conn.CopyFrom(ctx, pgx.Identifier{s.o.Schema, "op"}, copiedColumns, pgx.CopyFromFunc(func() ([]any, error) {
		if i++; i == n {
			return nil, nil
		}
		return copied(writes(i))
	}))
	return err
}

// Watch records what [Store.Copy] leaves out: that n operations are there, and
// which of them have not succeeded.
func (s *Store) Watch(ctx context.Context, conn *pgx.Conn, n int64) error {
	_, err := conn.Exec(ctx, `INSERT INTO `+s.st.schema+`.watch (due, id, created, lease, hash, state, tenant, tool)
		SELECT watch, id, created, lease, hash, state, tenant, tool FROM `+s.st.schema+`.op WHERE watch IS NOT NULL`)
	if err == nil {
		_, err = conn.Exec(ctx, `INSERT INTO `+s.st.schema+`.tally (n) VALUES ($1)`, n)
	}
	return err
}

var copiedColumns = []string{"version", "created", "updated", "lease", "watch", "result", "hash", "ident", "state",
	"tenant", "key", "tool", "scope", "run", "fixed", "data", "first", "log"}

func copied(writes []Write) ([]any, error) {
	var first, last row
	log := []byte{} // NULL is something else
	result := int64(0)
	for i := range writes {
		w := &writes[i]
		last = row{}
		if err := last.encode(&w.Op, int64(i)+1, []justonce.Entry{w.Entry}); err != nil {
			return nil, err
		}
		if i == 0 {
			first = last
			continue
		}
		log = append(log, last.chunk...)
		if last.hasResult {
			result = last.version
		}
	}
	op := &writes[len(writes)-1].Op
	return []any{int64(len(writes)), last.created, last.updated, last.lease, watchOf(&last), result, [16]byte(last.hash), identParam(last.ident), last.state,
		op.Tenant, op.Key, op.Tool, op.Scope, op.RunID, first.fixed, last.data, first.chunk, log}, nil
}

// watchOf is what array.watch adds for r.
func watchOf(r *row) any {
	var a array
	a.reset(oidInt8s)
	if a.watch(r); r.state == stEnded {
		return nil
	}
	return int64At([][]byte{a.b[len(a.b)-8:]}, 0)
}
