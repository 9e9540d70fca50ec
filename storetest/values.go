package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// Values come back as they were given, and belong to who has them.
func (s *suite) values(t *testing.T) {
	s.test(t, "GivenAreNotKept", valuesGiven)
	s.test(t, "ReturnedAreNotKept", valuesReturned)
	s.test(t, "ClaimedAreNotKept", valuesClaimed)
	s.test(t, "BigBodies", valuesBig)
	s.test(t, "BodiesByteForByte", valuesBodies)
	s.test(t, "Strings", valuesStrings)
	s.test(t, "Times", valuesTimes)
	s.test(t, "Numbers", valuesNumbers)
}

// spoil changes everything that op refers to.
func spoil(op *justonce.Operation) {
	for _, b := range [][]byte{op.Arguments, op.Result} {
		for i := range b {
			b[i] = 'x'
		}
	}
	if op.Failure != nil {
		op.Failure.Code, op.Failure.Message = "x", "x"
	}
}

func spoilEntries(entries []justonce.Entry) {
	for i := range entries {
		e := &entries[i]
		for i := range e.Body {
			e.Body[i] = 'x'
		}
		if e.Failure != nil {
			e.Failure.Code = "x"
		}
		for k := range e.Evidence {
			e.Evidence[k] = "x"
		}
		if e.Evidence != nil {
			e.Evidence["x"] = "x"
		}
	}
}

func valuesGiven(l *ledger) {
	op := l.newOp("k")
	op.Failure = &justonce.Failure{Code: "none yet"}
	first := arrived(op)
	first.Body = bytes.Clone(first.Body)
	first.Evidence = map[string]string{"a": "b"}
	l.mustBeginWith(op, first)
	before := l.snapshot(op.Ref)
	spoil(op)
	spoilEntries([]justonce.Entry{first})
	l.want("the ledger after what Begin was given changed", l.snapshot(op.Ref), before)
	if got := l.mustClaim(justonce.Due{Limit: 1}, take); string(got[0].Arguments) != string(l.newOp("k").Arguments) {
		l.t.Errorf("Claim returned the changed arguments %s", got[0].Arguments)
	}

	op = l.mustGet(op.Ref)
	full(op, l.clock.now())
	entries := []justonce.Entry{fullEntry(l.clock.now()), fullEntry(l.clock.now())}
	l.mustUpdate(op, entries...)
	before = l.snapshot(op.Ref)
	spoil(op)
	spoilEntries(entries)
	entries[0].Note = "x"
	l.want("the ledger after what Update was given changed", l.snapshot(op.Ref), before)
}

// mustBeginWith records op with a first entry.
func (l *ledger) mustBeginWith(op *justonce.Operation, first justonce.Entry) {
	l.t.Helper()
	a, err := l.Begin(l.ctx, op, first)
	if err != nil || !a.Fresh {
		l.t.Fatalf("Begin(%s) = %+v, %v, want it to be fresh", op.Key, a, err)
	}
}

func valuesReturned(l *ledger) {
	op := l.newOp("k")
	a := l.mustBegin(op)
	full(op, l.clock.now())
	l.mustUpdate(op, fullEntry(l.clock.now()))
	before := l.snapshot(op.Ref)
	spoil(a)
	spoil(l.mustGet(op.Ref))
	spoil(l.mustMeet(l.newOp("k")).Operation)
	spoil(l.mustList(justonce.Filter{Tenant: "acme"}).Operations[0])
	spoilEntries(l.mustHistory(op.Ref))
	l.want("the ledger after what was returned changed", l.snapshot(op.Ref), before)
	s := l.mustStats()
	if s.Count != nil {
		s.Count[justonce.Failed] = 99
	}
	if got := l.mustStats().Count[justonce.Failed]; got != 1 {
		l.t.Errorf("after what Stats returned changed it counts %d failed operations, want 1", got)
	}
}

func valuesClaimed(l *ledger) {
	op := l.newOp("k")
	l.mustBegin(op)
	var given *justonce.Operation
	var entries []justonce.Entry
	claimed := l.mustClaim(justonce.Due{Limit: 1}, func(o *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		take(o, now)
		o.Failure = &justonce.Failure{Code: "f"}
		given = o
		entries = []justonce.Entry{fullEntry(now)}
		return entries, true
	})
	before := l.snapshot(op.Ref)
	spoil(given)
	spoilEntries(entries)
	spoil(claimed[0])
	l.want("the ledger after what Claim handled changed", l.snapshot(op.Ref), before)
	l.clock.advance(lease)
	if got := l.mustClaim(justonce.Due{Limit: 1}, take); string(got[0].Arguments) != string(l.newOp("k").Arguments) {
		l.t.Errorf("Claim returned the changed arguments %.80s", got[0].Arguments)
	}
}

func valuesBig(l *ledger) {
	big := func(c string) json.RawMessage { return json.RawMessage(`"` + strings.Repeat(c, 1<<20) + `"`) }
	op := l.newOp("k", func(op *justonce.Operation) { op.Arguments = big("a") })
	l.mustBegin(op)
	e := fullEntry(l.clock.now())
	e.Body = big("é")
	e.Evidence = map[string]string{"page": strings.Repeat("<", 1<<18)}
	l.mustUpdate(op, e)
	l.want("the result", l.mustGet(op.Ref).Result, e.Body)
	l.want("history", l.mustHistory(op.Ref), []justonce.Entry{arrived(op), e})
	claimed := l.mustClaim(justonce.Due{Limit: 1}, take)
	l.want("the arguments", claimed[0].Arguments, op.Arguments)
}

func valuesBodies(l *ledger) {
	for i, body := range []string{
		``, `null`, `{}`, ` { } `, `""`, "[1,\t2,\n3]", `1.0`, `1e0`, `12345678901234567890.10`, `-0`,
		`{"b":1,"a":2,"b":3}`, `"\u0000\u001f\ud83d\ude00"`, `"é\u00e9😀<>&\/"`, "\"\u2028\u2029\"",
	} {
		op := l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) {
			op.Arguments = json.RawMessage(body)
			op.Due = op.Due.Add(-time.Hour)
		})
		l.mustBegin(op)
		e := justonce.Entry{Kind: justonce.EntryAttempt, Body: json.RawMessage(body), IsResult: true}
		l.mustUpdate(op, e)
		for _, b := range []struct {
			name string
			got  json.RawMessage
		}{
			{"the result from Get", l.mustGet(op.Ref).Result},
			{"the result from Begin", l.mustMeet(l.newOp(op.Key)).Operation.Result},
			{"the first entry's body", l.mustHistory(op.Ref)[0].Body},
			{"the second entry's body", l.mustHistory(op.Ref)[1].Body},
			{"the arguments from Claim", l.mustClaim(justonce.Due{Ref: &op.Ref, Limit: 1}, take)[0].Arguments},
		} {
			if string(b.got) != body {
				l.t.Errorf("%s: got %q, want %q", b.name, b.got, body)
			}
		}
	}
}

func valuesStrings(l *ledger) {
	for i, s := range []string{
		"'; DROP TABLE operations; --", `"quoted" and \escaped\`, "two\nlines\r\n\tand a tab", " spaces around ",
		"é e\u0301 \u00df ẞ 日本語 😀 \u202eabc", "%_*?[a-z]", "\x01\x7f\u0085\ufeff\ufffd", "null", "0", "{}", "~",
		strings.Repeat("long ", 2000),
	} {
		op := l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) {
			op.Tenant, op.Scope, op.RunID, op.Tool, op.TraceParent = s, s, s, s, s
			op.Identity, op.Fingerprint, op.Algorithm, op.WireKey = s, s, s, s
		})
		first := arrived(op)
		l.mustBegin(op)
		full(op, l.clock.now())
		// Texts that come from elsewhere may hold anything that UTF-8 can.
		text := s + "\x00"
		op.Failure = &justonce.Failure{Code: s, Message: text}
		op.Note, op.Reference, op.Digest = text, s, s
		e := fullEntry(l.clock.now())
		e.Failure, e.Actor, e.Note, e.Reference = op.Failure, s, text, s
		e.Evidence = map[string]string{"": s, s: text, "empty": ""}
		l.mustUpdate(op, e)

		want := recorded(op, 2)
		want.Result = e.Body
		l.want("the operation", l.mustGet(op.Ref), want)
		l.want("history", l.mustHistory(op.Ref), []justonce.Entry{first, e})
		l.wantList(justonce.Filter{Tenant: s, Tool: s, Scope: s, RunID: s, Reference: s}, op.Key)
	}
	var printable strings.Builder
	for c := byte(0x20); c < 0x7f; c++ {
		printable.WriteByte(c)
	}
	key := printable.String()
	key += strings.Repeat("~", 255-len(key))
	op := l.newOp(key, func(op *justonce.Operation) { op.Arguments = nil })
	l.mustBegin(op)
	l.want("the operation with every printable character in its key", l.mustGet(op.Ref), recorded(op, 1))
	l.wantMatch(op, recorded(op, 1), justonce.MatchKey)
}

func valuesTimes(l *ledger) {
	for i, at := range []time.Time{
		{},
		time.Unix(0, 1),
		time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC),
		time.Date(2026, 6, 1, 12, 0, 0, 1, time.FixedZone("", -9*3600)),
		time.Date(2200, 1, 1, 0, 0, 0, 123456789, time.UTC),
		time.Now(), // with a monotonic reading
	} {
		op := l.newOp(fmt.Sprint("k", i), func(op *justonce.Operation) {
			op.Due, op.UpdatedAt = at, at
			if !at.IsZero() {
				op.CreatedAt = at
			}
		})
		first := arrived(op)
		l.mustBegin(op)
		l.want("the operation", l.mustGet(op.Ref), recorded(op, 1))
		op.State = justonce.Review
		op.LeaseUntil, op.FirstSent, op.UnknownAt, op.DedupeUntil = at, at, at, at
		e := justonce.Entry{Kind: justonce.EntryLookup, At: at, Started: at}
		l.mustUpdate(op, e)
		got := l.mustGet(op.Ref)
		l.want("the operation", got, recorded(op, 2))
		l.want("history", l.mustHistory(op.Ref), []justonce.Entry{first, e})
		if got.Due.IsZero() != at.IsZero() {
			l.t.Errorf("Due.IsZero() = %v for %v", got.Due.IsZero(), at)
		}
	}
}

func valuesNumbers(l *ledger) {
	const big = 1 << 40
	op := l.newOp("k", func(op *justonce.Operation) { op.IntentSeq, op.Series = 1<<31-1, 1<<31-1 })
	l.mustBegin(op)
	op.Fence, op.Attempts, op.Lookups, op.Unknowns = big, 1<<31-1, 1<<31-1, 1<<31-1
	e := justonce.Entry{Kind: justonce.EntryAttempt, Fence: big}
	l.mustUpdate(op, e)
	l.want("the operation", l.mustGet(op.Ref), recorded(op, 2))
	l.want("history", l.mustHistory(op.Ref), []justonce.Entry{arrived(op), e})
}
