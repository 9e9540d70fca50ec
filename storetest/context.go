package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// A call whose context is done may succeed or fail. If it returns nil its
// effect is recorded as ever. If it returns an error its effect is recorded
// wholly or not at all; that error is none of those which tell the caller that
// something is there or not. The store works on.
func (s *suite) context(t *testing.T) {
	s.test(t, "DoneBefore", func(l *ledger) {
		ctx, cancel := context.WithCancel(l.ctx)
		cancel()
		l.contextDone(ctx)
	})
	s.test(t, "DeadlineBefore", func(l *ledger) {
		ctx, cancel := context.WithDeadline(l.ctx, time.Unix(1, 0))
		defer cancel()
		l.contextDone(ctx)
	})
	s.test(t, "DoneMeanwhile", contextDoneMeanwhile)
}

// wantNoVerdict reports an error that claims more than a failure.
func (l *ledger) wantNoVerdict(method string, err error) {
	l.t.Helper()
	for _, verdict := range []error{
		justonce.ErrNotFound, justonce.ErrStale, justonce.ErrReferenceTaken, justonce.ErrInvalid, justonce.ErrConflict,
	} {
		if errors.Is(err, verdict) {
			l.t.Errorf("%s with a context that is done: error %v is %q", method, err, verdict)
		}
	}
}

func (l *ledger) contextDone(ctx context.Context) {
	there := l.newOp("there")
	l.mustBegin(there)

	op := l.newOp("k", withIdentity("i"))
	a, err := l.Begin(ctx, op, arrived(op))
	l.wantNoVerdict("Begin", err)
	if err == nil && !a.Fresh {
		l.t.Error("Begin with a context that is done is neither fresh nor an error")
	}
	l.wantWhole(op, err == nil)
	// Whatever happened, the same call again settles it.
	if a := l.mustMeet(l.newOp("k", withIdentity("i"))); a.Operation.Key != "k" {
		l.t.Errorf("Begin again met %s", a.Operation.Key)
	}

	before := l.mustGet(there.Ref)
	mine := *before
	mine.Note = "updated"
	err = l.Update(ctx, &mine, justonce.Entry{Kind: justonce.EntryDecision, Note: "updated"})
	l.wantNoVerdict("Update", err)
	after, history := l.mustGet(there.Ref), l.mustHistory(there.Ref)
	switch {
	case after.Version == 2 && after.Note == "updated" && len(history) == 2:
	case err != nil && after.Version == 1 && after.Note == "" && len(history) == 1:
	default:
		l.t.Errorf("Update returned %v and left version %d with note %q and %d entries", err, after.Version, after.Note, len(history))
	}

	ops, err := l.Claim(ctx, justonce.Due{Ref: &there.Ref, Limit: 1}, take)
	l.wantNoVerdict("Claim", err)
	was := after
	after, history = l.mustGet(there.Ref), l.mustHistory(there.Ref)
	switch claimed := after.Fence == 1; {
	case claimed && after.Version == was.Version+1 && history[len(history)-1].Kind == justonce.EntryClaimed && (err != nil || len(ops) == 1):
	case !claimed && err != nil && after.Version == was.Version:
	default:
		l.t.Errorf("Claim returned %d operations and %v, and left fence %d and version %d", len(ops), err, after.Fence, after.Version)
	}

	if op, err := l.Get(ctx, there.Ref); err == nil {
		l.want("Get with a context that is done", op, after)
	} else {
		l.wantNoVerdict("Get", err)
	}
	_, err = l.List(ctx, justonce.Filter{Tenant: "acme"})
	l.wantNoVerdict("List", err)
	_, err = l.History(ctx, there.Ref)
	l.wantNoVerdict("History", err)
	_, err = l.Stats(ctx)
	l.wantNoVerdict("Stats", err)
	_, err = l.Purge(ctx, l.clock.now(), 1)
	l.wantNoVerdict("Purge", err)
}

// wantWhole checks that op is recorded with its entry, or unless must not at
// all.
func (l *ledger) wantWhole(op *justonce.Operation, must bool) {
	l.t.Helper()
	got, err := l.Get(l.ctx, op.Ref)
	if err != nil {
		l.wantErr("Get", err, justonce.ErrNotFound)
		if must {
			l.t.Errorf("Begin(%s) returned nil and nothing is recorded", op.Key)
		}
		return
	}
	l.want("the operation", got, recorded(op, 1))
	l.want("its history", l.mustHistory(op.Ref), []justonce.Entry{arrived(op)})
}

// contextDoneMeanwhile cancels while Begin is under way.
func contextDoneMeanwhile(l *ledger) {
	for range 20 {
		l.clock.advance(1)
		op := l.newOp("k-" + l.clock.now().Format(time.RFC3339Nano))
		ctx, cancel := context.WithCancel(l.ctx)
		done := make(chan error)
		go func() {
			_, err := l.Begin(ctx, op, arrived(op))
			done <- err
		}()
		cancel()
		err := <-done
		l.wantNoVerdict("Begin", err)
		l.wantWhole(op, err == nil)
		if a := l.mustMeet(l.newOp(op.Key)); a.Operation.Key != op.Key {
			l.t.Errorf("Begin again met %s", a.Operation.Key)
		}
	}
}
