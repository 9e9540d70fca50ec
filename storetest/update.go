package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

func (s *suite) update(t *testing.T) {
	s.test(t, "ReplacesTheRow", updateReplaces)
	s.test(t, "ClearsFields", updateClears)
	s.test(t, "AppendsEntries", updateAppends)
	s.test(t, "Stale", updateStale)
	s.test(t, "Missing", updateMissing)
	s.test(t, "NeverChanges", updateNeverChanges)
	s.test(t, "Archived", updateArchived)
	s.test(t, "Result", updateResult)
	s.test(t, "OneOfManyWins", updateOneWins)
}

// full sets every field that may change after arrival.
func full(op *justonce.Operation, now time.Time) {
	op.WireKey, op.Series = "fedcba9876543210fedcba9876543210", 2
	op.Status = justonce.Status{
		State: justonce.Failed, Reason: justonce.ReasonExhausted,
		Fence: 7, Attempts: 3, Lookups: 4, Unknowns: 2,
		Doubt: true, Accepted: true, Incident: true,
		LeaseUntil: now.Add(1), Due: now.Add(2), FirstSent: now.Add(3), UnknownAt: now.Add(4),
		Reference: "ch_1", Digest: "digest",
	}
	op.Failure = &justonce.Failure{Code: "timeout", Message: "no answer within 30s"}
	op.Note = "a note"
	op.UpdatedAt = now.Add(5)
	op.DedupeUntil = now.Add(6)
	op.Exclusive = true
}

// fullEntry has a value in every field.
func fullEntry(now time.Time) justonce.Entry {
	return justonce.Entry{
		Kind: justonce.EntryAttempt, At: now.Add(7), Started: now.Add(8), Fence: 7,
		State: justonce.Failed, Outcome: justonce.EventNotExecuted, Reference: "ch_1",
		Failure: &justonce.Failure{Code: "timeout", Message: "no answer"},
		Actor:   "worker-1", Note: "an entry's note",
		Evidence: map[string]string{"status": "504", "request_id": "req_1"},
		Body:     json.RawMessage(`{"a": 1}`), IsResult: true,
	}
}

func updateReplaces(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	first := arrived(op)
	l.mustBegin(op)
	now := l.clock.advance(time.Second)
	full(op, now)
	l.mustUpdate(op, fullEntry(now))
	if op.Version != 2 {
		l.t.Errorf("the operation given has Version %d afterwards, want 2", op.Version)
	}
	want := recorded(op, 2)
	want.Result = fullEntry(now).Body
	l.want("the operation", l.mustGet(op.Ref), want)
	l.want("history", l.mustHistory(op.Ref), []justonce.Entry{first, fullEntry(now)})
}

func updateClears(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	full(op, l.clock.now())
	l.mustUpdate(op)
	op.WireKey, op.Series, op.Status = "", 0, justonce.Status{State: justonce.Review}
	op.Failure, op.Note, op.Exclusive = nil, "", false
	op.UpdatedAt, op.DedupeUntil = time.Time{}, time.Time{}
	l.mustUpdate(op)
	got := l.mustGet(op.Ref)
	l.want("the operation", got, recorded(op, 3))
	for name, at := range map[string]time.Time{
		"LeaseUntil": got.LeaseUntil, "Due": got.Due, "FirstSent": got.FirstSent,
		"UnknownAt": got.UnknownAt, "UpdatedAt": got.UpdatedAt, "DedupeUntil": got.DedupeUntil,
	} {
		if !at.IsZero() {
			l.t.Errorf("%s.IsZero() is false for %v", name, at)
		}
	}
}

func updateAppends(l *ledger) {
	op := l.newOp("k")
	want := []justonce.Entry{arrived(op)}
	l.mustBegin(op)
	for i := range 4 {
		var entries []justonce.Entry
		for j := range i { // none at first
			e := fullEntry(l.clock.now())
			e.Note = fmt.Sprint(i, j)
			entries = append(entries, e)
		}
		l.mustUpdate(op, entries...)
		want = append(want, entries...)
	}
	if op.Version != 5 {
		l.t.Errorf("Version = %d after four updates, want 5", op.Version)
	}
	l.want("history", l.mustHistory(op.Ref), want)
}

func updateStale(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	l.mustUpdate(op)
	before := l.snapshot(op.Ref)
	for _, version := range []int64{0, 1, 3, -1} {
		stale := *op
		stale.Version = version
		full(&stale, l.clock.now())
		err := l.Update(l.ctx, &stale, fullEntry(l.clock.now()))
		l.wantErr(fmt.Sprintf("Update of version %d when 2 is recorded", version), err, justonce.ErrStale)
		if stale.Version != version {
			l.t.Errorf("a refused Update made Version %d of %d", stale.Version, version)
		}
	}
	l.want("the ledger after refused updates", l.snapshot(op.Ref), before)
	l.mustUpdate(op)
}

func updateMissing(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	for _, ref := range []justonce.Ref{{Tenant: "acme", Key: "k2"}, {Tenant: "globex", Key: "k"}} {
		missing := *op
		missing.Ref = ref
		l.wantErr("Update of what is not there", l.Update(l.ctx, &missing), justonce.ErrStale)
		_, err := l.Get(l.ctx, ref)
		l.wantErr("Get after it", err, justonce.ErrNotFound)
	}
}

func updateNeverChanges(l *ledger) {
	op := l.newOp("k", withIdentity("i"))
	want := recorded(op, 2)
	l.mustBegin(op)
	l.mustBegin(l.newOp("k2", withIdentity("j")))
	changed := *op
	changed.Identity = "j"
	changed.Fingerprint = "another"
	changed.Arguments = json.RawMessage(`{"another": true}`)
	l.mustUpdate(&changed)
	l.want("the operation", l.mustGet(op.Ref), want)
	claimed := l.mustClaim(justonce.Due{Ref: &op.Ref, Limit: 1}, take)
	if len(claimed) != 1 || string(claimed[0].Arguments) != string(op.Arguments) {
		l.t.Errorf("Claim does not return the first arguments: %+v", claimed)
	}
	if a := l.mustMeet(l.newOp("k3", withIdentity("i"))); a.Fresh || a.Operation.Key != "k" {
		l.t.Errorf("the first identity no longer leads to it but to %s", a.Operation.Key)
	}
}

// Whoever still holds an archived operation must not write to the one that has
// its key now, whose Version may be the same.
func updateArchived(l *ledger) {
	old := l.newOp("k")
	l.mustBegin(old)
	old.State, old.Due, old.DedupeUntil = justonce.Succeeded, time.Time{}, l.clock.now().Add(1)
	l.mustUpdate(old)
	held := *old
	l.clock.advance(time.Second)
	now := l.newOp("k")
	l.mustBegin(now)
	now.Note = "the later one"
	l.mustUpdate(now)
	want := l.mustGet(now.Ref)
	held.Version = now.Version
	held.Note = "the earlier one"
	if err := l.Update(l.ctx, &held); !errors.Is(err, justonce.ErrStale) {
		l.t.Errorf("Update with an archived operation = %v, want ErrStale", err)
	}
	l.want("the later operation", l.mustGet(now.Ref), want)
}

func updateResult(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	body := func(s string, isResult bool) justonce.Entry {
		return justonce.Entry{Kind: justonce.EntryAttempt, At: l.clock.now(), Body: json.RawMessage(s), IsResult: isResult}
	}
	for _, step := range []struct {
		name    string
		entries []justonce.Entry
		result  json.RawMessage // what op.Result is when Update is called
		want    string
	}{
		{"none recorded, op.Result is ignored", nil, json.RawMessage(`"ignored"`), ""},
		{"a body alone is no result", []justonce.Entry{body(`"no"`, false)}, nil, ""},
		{"IsResult without a body is none", []justonce.Entry{body("", true)}, nil, ""},
		{"the body of an entry with IsResult", []justonce.Entry{body(` {"n": 1.0} `, true)}, nil, ` {"n": 1.0} `},
		{"it stays when op.Result is nil", []justonce.Entry{body(`"no"`, false)}, nil, ` {"n": 1.0} `},
		{"it stays when op.Result differs", nil, json.RawMessage(`"ignored"`), ` {"n": 1.0} `},
		{"it stays when IsResult has no body", []justonce.Entry{body("", true)}, nil, ` {"n": 1.0} `},
		{"a later result replaces it", []justonce.Entry{body(`"no"`, false), body(`2`, true), body(`"no"`, false)}, nil, `2`},
		{"the last of two", []justonce.Entry{body(`3`, true), body(`null`, true)}, nil, `null`},
	} {
		op.Result = step.result
		l.mustUpdate(op, step.entries...)
		if string(op.Result) != string(step.result) {
			l.t.Errorf("%s: Update changed the Result of the operation given to %s", step.name, op.Result)
		}
		if got := l.mustGet(op.Ref).Result; string(got) != step.want {
			l.t.Errorf("%s: Result = %q, want %q", step.name, got, step.want)
		}
	}
}

func updateOneWins(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	const callers, rounds = 8, 8
	for round := range rounds {
		current := l.mustGet(op.Ref)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range callers {
			mine := *current
			mine.Note = fmt.Sprint(round, i)
			wg.Go(func() {
				<-start
				errs[i] = l.Update(l.ctx, &mine, justonce.Entry{Kind: justonce.EntryDecision, At: l.clock.now(), Note: mine.Note})
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case err == nil:
				l.t.Fatalf("round %d: two updates of one version were accepted", round)
			case !errors.Is(err, justonce.ErrStale):
				l.t.Fatalf("Update: error %v, want ErrStale", err)
			}
		}
		if winner < 0 {
			l.t.Fatalf("round %d: no update was accepted", round)
		}
		want := fmt.Sprint(round, winner)
		history := l.mustHistory(op.Ref)
		if got := l.mustGet(op.Ref).Note; got != want || history[len(history)-1].Note != want || len(history) != round+2 {
			l.t.Fatalf("round %d: note %q and %d entries, want those of the accepted update %q", round, got, len(history), want)
		}
	}
}
