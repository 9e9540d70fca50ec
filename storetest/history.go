package storetest

import (
	"testing"

	"github.com/justonce-dev/justonce"
)

func (s *suite) history(t *testing.T) {
	s.test(t, "NotFound", func(l *ledger) {
		l.mustBegin(l.newOp("k"))
		for _, ref := range []justonce.Ref{{Tenant: "acme", Key: "k2"}, {Tenant: "globex", Key: "k"}, {}} {
			h, err := l.History(l.ctx, ref)
			l.wantErr("History of an unknown key", err, justonce.ErrNotFound)
			if len(h) != 0 {
				l.t.Errorf("History(%+v) returned %d entries with its error", ref, len(h))
			}
		}
	})
	s.test(t, "InOrder", func(l *ledger) {
		// Neither times nor fences say anything of the order.
		one, two := l.newOp("k1"), l.newOp("k2")
		l.mustBegin(one)
		l.mustBegin(two)
		want := map[*justonce.Operation][]justonce.Entry{one: {arrived(one)}, two: {arrived(two)}}
		for i := range 6 {
			op := []*justonce.Operation{one, two}[i%2]
			e := fullEntry(epoch.Add(-1 << (i + 10)))
			e.Fence = int64(10 - i)
			bare := justonce.Entry{Kind: justonce.EntryLate}
			l.mustUpdate(op, e, bare, e)
			want[op] = append(want[op], e, bare, e)
		}
		for op, entries := range want {
			l.want("history of "+op.Key, l.mustHistory(op.Ref), entries)
		}
	})
}
