package storetest

import (
	"testing"

	"github.com/justonce-dev/justonce"
)

func (s *suite) get(t *testing.T) {
	s.test(t, "NotFound", func(l *ledger) {
		l.mustBegin(l.newOp("k"))
		for _, ref := range []justonce.Ref{
			{Tenant: "acme", Key: "k2"},
			{Tenant: "acme", Key: "K"},
			{Tenant: "acme", Key: "k "},
			{Tenant: "acme", Key: ""},
			{Tenant: "acme", Key: "%"},
			{Tenant: "globex", Key: "k"},
			{Tenant: "", Key: "k"},
			{},
		} {
			op, err := l.Get(l.ctx, ref)
			l.wantErr("Get of an unknown key", err, justonce.ErrNotFound)
			if op != nil {
				l.t.Errorf("Get(%+v) returned %v with its error", ref, op.Ref)
			}
		}
	})
	s.test(t, "ReturnsResultAndNoArguments", func(l *ledger) {
		op := l.newOp("k")
		l.mustBegin(op)
		l.mustEnd(op)
		got := l.mustGet(op.Ref)
		if string(got.Result) != string(resultOf("k")) {
			l.t.Errorf("Result = %s, want %s byte for byte", got.Result, resultOf("k"))
		}
		if got.Arguments != nil {
			l.t.Errorf("Arguments = %s, want none: only Claim returns them", got.Arguments)
		}
	})
}
