package entries_test

import (
	"encoding/hex"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/entries"
	"github.com/justonce-dev/justonce/internal/packed"
)

const noLimit = math.MaxInt

func history() []justonce.Entry {
	at := time.Unix(1_700_000_000, 123456789).UTC()
	return []justonce.Entry{
		{Kind: justonce.EntryArrived, State: justonce.Pending, At: at, Body: []byte(`{"a":1}`)},
		{Kind: justonce.EntryAttempt, State: justonce.Succeeded, Outcome: justonce.EventSucceeded, At: at,
			Started: at.Add(-time.Second), Fence: 2, IsResult: true, Reference: "ch_1",
			Evidence: map[string]string{"b": "2", "a": "0123456789abcdef"}, Body: []byte("result")},
		{Kind: justonce.EntryDecision, State: justonce.Failed, Outcome: justonce.EventCancelled, At: at, Actor: "ann", Note: "nö",
			Failure: &justonce.Failure{Code: "cancelled", Message: "m"}},
		{Kind: justonce.EntryKind("later"), Outcome: "later still", Fence: math.MinInt64, Body: []byte{}},
	}
}

// stored is the history as databases have it.
const stored = "0200000098010001020117979cfe3d85cd1500087b2261223a317d011b03060617979cfe3d85cd150417979cfe01eb031508" +
	"63685f310000020261110123456789abcdef0262023207726573756c74011408071317979cfe3d85cd15000006616e6e066e" +
	"c3b61263616e63656c6c6564026d000100000a6c617465720100166c61746572207374696c6c8000000000000000ffffffff" +
	"ffffffffff0101"

func chunk(tb testing.TB, version int64, list ...justonce.Entry) []byte {
	tb.Helper()
	var e packed.Encoder
	if _, err := entries.AppendChunk(&e, version, list, noLimit); err != nil || e.Err != nil {
		tb.Fatal(err, e.Err)
	}
	return e.B
}

func TestStoredForm(t *testing.T) {
	t.Parallel()
	if got := hex.EncodeToString(chunk(t, 1, history()...)); got != stored {
		t.Errorf("got  %s\nwant %s", got, stored)
	}
	old, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	var h entries.History
	if err := h.Add(old); err != nil {
		t.Fatal(err)
	}
	got, err := h.Entries()
	if diff := cmp.Diff(history(), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestAppendChunk(t *testing.T) {
	t.Parallel()
	body := []byte("1234")
	for _, test := range []struct {
		list      []justonce.Entry
		limit     int
		hasResult bool
		tooLarge  bool
	}{
		{nil, 0, false, false},
		{[]justonce.Entry{{Body: body}}, 4, false, false},
		{[]justonce.Entry{{Body: body}}, 3, false, true},
		{[]justonce.Entry{{Body: body}, {Body: body}}, 7, false, true},
		{[]justonce.Entry{{Body: body, IsResult: true}, {Body: body}}, 8, true, false},
		{[]justonce.Entry{{IsResult: true}}, 8, false, false},
	} {
		var e packed.Encoder
		hasResult, err := entries.AppendChunk(&e, 1, test.list, test.limit)
		var invalid *justonce.InvalidError
		tooLarge := errors.As(err, &invalid) && invalid.TooLarge
		if hasResult != test.hasResult || tooLarge != test.tooLarge || !tooLarge && err != nil {
			t.Errorf("%d entries, at most %d bytes: %v, %v", len(test.list), test.limit, hasResult, err)
		}
	}
	var e packed.Encoder
	_, err := entries.AppendChunk(&e, 1, []justonce.Entry{{At: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}}, noLimit)
	if err != nil || e.Err == nil {
		t.Errorf("a time beyond nanoseconds: %v, %v", err, e.Err)
	}
}

// Chunks come in any order, alone or one behind the other; what is read stays
// when they are overwritten.
func TestHistory(t *testing.T) {
	t.Parallel()
	want := history()
	late := append(chunk(t, 7, want[2], want[3]), chunk(t, 3, want[1])...)
	early := chunk(t, 1, want[0])
	var h entries.History
	for _, chunks := range [][]byte{late, nil, early} {
		if err := h.Add(chunks); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.Entries()
	clear(late)
	clear(early)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestResultAndArguments(t *testing.T) {
	t.Parallel()
	all := history()
	chunks := append(chunk(t, 1, all[0]), chunk(t, 2, all[1], all[2])...)
	for version, want := range map[int64]string{1: "", 2: "result", 3: ""} {
		got, err := entries.Result(chunks, version)
		if string(got) != want || (got == nil) != (want == "") || err != nil {
			t.Errorf("version %d: %q, %v, want %q", version, got, err, want)
		}
	}
	got, err := entries.Arguments(chunks)
	if string(got) != `{"a":1}` || err != nil {
		t.Errorf("arguments %q, %v", got, err)
	}
	if got, err := entries.Arguments(nil); got != nil || err != nil {
		t.Errorf("arguments of nothing: %q, %v", got, err)
	}
}

// What is there and cannot be read is an error.
func TestDamage(t *testing.T) {
	t.Parallel()
	all := history()
	whole := chunk(t, 2, all[1])
	for n := 1; n < len(whole); n++ {
		var h entries.History
		if err := h.Add(whole[:n:n]); !errors.Is(err, packed.ErrShort) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
		if got, err := entries.Arguments(whole[:n:n]); err == nil {
			t.Errorf("%d of %d bytes: arguments %q", n, len(whole), got)
		}
	}
	whole[5]++ // the entry's encoding
	var h entries.History
	err := h.Add(whole)
	got, err2 := h.Entries()
	if err != nil || err2 == nil || got != nil {
		t.Errorf("an unknown encoding is read: %v, %v, %v", err, got, err2)
	}
	if got, err := entries.Result(whole, 2); err == nil {
		t.Errorf("the result of an unknown encoding is %q", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(chunk(f, 1, history()...), int64(1))
	f.Add([]byte{2, 0, 0, 0, 1, 1}, int64(1))
	f.Fuzz(func(t *testing.T, chunks []byte, version int64) {
		var h entries.History
		if h.Add(chunks) == nil {
			_, _ = h.Entries()
		}
		_, _ = entries.Result(chunks, version)
		_, _ = entries.Arguments(chunks)
	})
}
