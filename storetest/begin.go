package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/justonce-dev/justonce"
)

func (s *suite) begin(t *testing.T) {
	s.test(t, "Fresh", beginFresh)
	s.test(t, "MatchesKey", beginMatchesKey)
	s.test(t, "MatchesIdentity", beginMatchesIdentity)
	s.test(t, "KeyComesFirst", beginKeyComesFirst)
	s.test(t, "EmptyIdentitiesNeverMeet", beginEmptyIdentities)
	s.test(t, "TenantsNeverMeet", beginTenants)
	s.test(t, "KeysAreExact", beginKeysAreExact)
	s.test(t, "MatchCarriesResult", beginMatchCarriesResult)
	s.test(t, "OneFreshByKey", func(l *ledger) {
		l.oneFresh(func(i int, op *justonce.Operation) {})
	})
	s.test(t, "OneFreshByIdentity", func(l *ledger) {
		l.oneFresh(func(i int, op *justonce.Operation) {
			op.Identity = "identity of " + op.Key
			op.Key = fmt.Sprintf("%s-%d", op.Key, i)
		})
	})
	s.test(t, "OneFreshByKeyOrIdentity", func(l *ledger) {
		l.oneFresh(func(i int, op *justonce.Operation) {
			op.Identity = "identity of " + op.Key
			if i%2 == 0 {
				op.Key = fmt.Sprintf("%s-%d", op.Key, i)
			}
		})
	})
}

// withIdentity gives an operation an identity.
func withIdentity(hash string) func(*justonce.Operation) {
	return func(op *justonce.Operation) { op.Identity = hash }
}

// recorded returns how op reads once it is recorded with a version: without
// its arguments.
func recorded(op *justonce.Operation, version int64) *justonce.Operation {
	c := *op
	c.Arguments = nil
	c.Version = version
	return &c
}

func beginFresh(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	entry := arrived(op)
	a, err := l.Begin(l.ctx, op, entry)
	if err != nil {
		l.t.Fatal(err)
	}
	if !a.Fresh || a.MatchedBy != "" {
		l.t.Errorf("Fresh, MatchedBy = %v, %q, want true and nothing", a.Fresh, a.MatchedBy)
	}
	if op.Version != 1 {
		l.t.Errorf("the operation given has Version %d afterwards, want 1", op.Version)
	}
	if a.Operation != nil {
		l.t.Errorf("Begin returned an operation with a Fresh one: %+v", a.Operation)
	}
	l.want("the operation that Get returns", l.mustGet(op.Ref), recorded(op, 1))
	l.want("history", l.mustHistory(op.Ref), []justonce.Entry{entry})
}

// wantMatch calls Begin with op, which must meet was and change nothing.
func (l *ledger) wantMatch(op *justonce.Operation, was *justonce.Operation, by justonce.Match) {
	l.t.Helper()
	stats := l.mustStats()
	history := l.mustHistory(was.Ref)
	version := op.Version
	a := l.mustMeet(op)
	if a.Fresh || a.MatchedBy != by {
		l.t.Errorf("Begin(%s): Fresh, MatchedBy = %v, %q, want false, %q", op.Key, a.Fresh, a.MatchedBy, by)
	}
	if op.Version != version {
		l.t.Errorf("Begin(%s): the operation given has Version %d afterwards, want %d still", op.Key, op.Version, version)
	}
	l.want("the operation met", a.Operation, was)
	l.want("the operation as recorded", l.mustGet(was.Ref), was)
	l.want("the history of the operation met", l.mustHistory(was.Ref), history)
	l.want("stats", l.mustStats(), stats)
}

func beginMatchesKey(l *ledger) {
	was := l.mustBegin(l.newOp("k"))
	l.clock.advance(1)
	l.wantMatch(l.newOp("k"), was, justonce.MatchKey)
	// Whether it is the same call is for others to say.
	l.wantMatch(l.newOp("k", func(op *justonce.Operation) {
		op.Tool, op.Scope, op.Fingerprint, op.Identity = "mail", "account-2", "another", "j"
	}), was, justonce.MatchKey)
	// Nothing of the calls above may have left a trace.
	l.mustBegin(l.newOp("k2", withIdentity("j")))
}

func beginMatchesIdentity(l *ledger) {
	was := l.mustBegin(l.newOp("k", withIdentity("i")))
	l.clock.advance(1)
	l.wantMatch(l.newOp("k2", withIdentity("i")), was, justonce.MatchIdentity)
	l.wantMatch(l.newOp("k", withIdentity("i")), was, justonce.MatchKey)
	l.mustBegin(l.newOp("k2", withIdentity("j")))
}

func beginKeyComesFirst(l *ledger) {
	byKey := l.mustBegin(l.newOp("k", withIdentity("i")))
	byIdentity := l.mustBegin(l.newOp("k2", withIdentity("i2")))
	l.wantMatch(l.newOp("k", withIdentity("i2")), byKey, justonce.MatchKey)
	l.wantMatch(l.newOp("k2", withIdentity("i")), byIdentity, justonce.MatchKey)
	l.wantMatch(l.newOp("k3", withIdentity("i")), byKey, justonce.MatchIdentity)
}

func beginEmptyIdentities(l *ledger) {
	for i := range 3 {
		l.mustBegin(l.newOp(fmt.Sprint("k", i)))
	}
}

func beginTenants(l *ledger) {
	var all []*justonce.Operation
	for _, tenant := range []string{"acme", "globex", "Acme", "acme ", ""} {
		op := l.newOp("k", withIdentity("i"), func(op *justonce.Operation) {
			op.Tenant = tenant
			op.Fingerprint = "of " + tenant
		})
		all = append(all, l.mustBegin(op))
	}
	for _, op := range all {
		again := l.newOp("k2", withIdentity("i"), func(o *justonce.Operation) { o.Tenant = op.Tenant })
		l.wantMatch(again, op, justonce.MatchIdentity)
		if _, err := l.Get(l.ctx, again.Ref); err == nil {
			l.t.Errorf("tenant %q has key k2, which was never recorded", op.Tenant)
		}
	}
}

func beginKeysAreExact(l *ledger) {
	for _, key := range []string{"k", "K", "k ", " k", "k~", "k~1", "k%", "k_", "k'", `k"`, `k\`, "k/1", "0", "00", "0.0"} {
		op := l.mustBegin(l.newOp(key, withIdentity("i"+key), func(op *justonce.Operation) { op.Arguments = nil }))
		if got := l.mustGet(op.Ref); got.Key != key {
			l.t.Errorf("Get(%q) returned the operation with key %q", key, got.Key)
		}
	}
}

func beginMatchCarriesResult(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	l.mustBegin(op)
	ended := l.mustEnd(op)
	if string(ended.Result) != string(resultOf("k")) {
		l.t.Fatalf("Result = %s, want %s", ended.Result, resultOf("k"))
	}
	l.wantMatch(l.newOp("k"), ended, justonce.MatchKey)
	l.wantMatch(l.newOp("k2", withIdentity("i")), ended, justonce.MatchIdentity)
}

// oneFresh lets many goroutines begin what is one operation after edit, and
// wants one of them to be told that it is fresh and all the same operation.
func (l *ledger) oneFresh(edit func(i int, op *justonce.Operation)) {
	const rounds, callers = 8, 12
	for round := range rounds {
		arrivals := make([]*justonce.Arrival, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range callers {
			op := l.newOp(fmt.Sprint("k", round))
			edit(i, op)
			wg.Go(func() {
				<-start
				arrivals[i], errs[i] = l.Begin(l.ctx, op, arrived(op))
				if errs[i] == nil && arrivals[i].Fresh {
					arrivals[i].Operation = recorded(op, 1)
				}
			})
		}
		close(start)
		wg.Wait()
		l.clock.advance(1)

		fresh := 0
		for i, a := range arrivals {
			switch {
			case errs[i] != nil:
				l.t.Fatalf("Begin: %v", errs[i])
			case a.Fresh:
				fresh++
			case a.MatchedBy == "":
				l.t.Errorf("round %d, caller %d: neither Fresh nor MatchedBy", round, i)
			}
			if a.Operation.Ref != arrivals[0].Operation.Ref {
				l.t.Errorf("round %d: callers were given %v and %v, want one operation", round, arrivals[0].Operation.Ref, a.Operation.Ref)
			}
		}
		if fresh != 1 {
			l.t.Fatalf("round %d: %d of %d concurrent calls are Fresh, want 1", round, fresh, callers)
		}
		if got, want := len(l.mustHistory(arrivals[0].Operation.Ref)), 1; got != want {
			l.t.Errorf("round %d: %d entries in the history, want %d", round, got, want)
		}
	}
	if got := l.mustStats().Count[justonce.Pending]; got != rounds {
		l.t.Errorf("%d operations are recorded, want %d", got, rounds)
	}
}
