package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/canon"
)

func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "a" : [1, {"b":"}"}] , "c\"\\" : "x" } `, `{"":{"":""}}`, `[1]`, `{"a":`, `{"a"}`, "{\"a\":\n1\t}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got := map[string]string{}
		for name, raw := range members(doc) { // must not panic on anything
			got[name] = string(trim(raw))
		}
		if canon.Valid(doc, nil) != nil || trim(doc)[0] != '{' {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d members, want %d", doc, len(got), len(want))
		}
		for name, raw := range want {
			if got[name] != string(raw) {
				t.Errorf("%q: %q is %q, want %q", doc, name, got[name], raw)
			}
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "é\u2028\U0001f600", "\xff\xc3", "a\xffb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString([]byte("x"), s)
		var got string
		if err := json.Unmarshal(b[1:], &got); err != nil || b[0] != 'x' {
			t.Fatalf("%q: %s: %v", s, b, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); got != want && len(got) != len(strings.ToValidUTF8(s, "")) {
			// ToValidUTF8 makes one of several bad bytes; encoding/json does not.
			enc, _ := json.Marshal(s)
			var std string
			json.Unmarshal(enc, &std)
			if got != std {
				t.Errorf("%q became %q", s, got)
			}
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`abc`, `"abc"`, `"a\"b\\"`, `"a";x=1`, `"a", "b"`, ``, `"`, `""`, `"\`, ` a `, "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, err := parseKey([]string{line})
		if err != nil {
			return
		}
		if justonce.CheckKey(key) != nil {
			t.Fatalf("%q gave %q", line, key)
		}
		again, err := parseKey([]string{quoteKey(key)})
		if err != nil || again != key {
			t.Errorf("%q quoted gave %q, %v", key, again, err)
		}
	})
}

// The hand-written encoder says what the described types say.
func TestEncode(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 1, time.FixedZone("", 3600))
	op := &justonce.Operation{
		Ref: justonce.Ref{Tenant: justonce.DefaultTenant, Key: `k"1`}, KeySource: justonce.KeyGiven, Scope: "ann", RunID: "r", Tool: "charge", IntentSeq: 2,
		Identity: "id", Fingerprint: "fp", Algorithm: justonce.Algorithm, WireKey: "wk", Result: json.RawMessage(" [1 , \"<&>\"]\n"),
		Failure: &justonce.Failure{Code: "c", Message: "<é\n>"}, Note: "n", TraceParent: "tp", CreatedAt: at, UpdatedAt: at.Add(time.Hour),
	}
	op.State, op.Reason, op.Reference, op.Attempts, op.Lookups, op.Due = justonce.Succeeded, justonce.ReasonRejected, "ref", 3, 4, at
	for _, change := range []func(){
		func() {},
		func() { op.State, op.Accepted = justonce.Running, true },
		func() { op.State, op.Accepted, op.Incident = justonce.Review, false, true },
		func() { op.Result, op.Failure, op.Due = nil, nil, time.Time{} },
	} {
		change()
		a := &justonce.Answer{Operation: op, Replayed: true, Joined: true, MatchedBy: justonce.MatchIdentity}
		var o object
		o.answer(a)
		got, err := decodeAnswer(o.b)
		if err != nil {
			t.Fatalf("%s: %v", o.b, err)
		}
		utc := *op
		utc.CreatedAt, utc.UpdatedAt, utc.Due = op.CreatedAt.UTC(), op.UpdatedAt.UTC(), op.Due.UTC()
		if op.Due.IsZero() {
			utc.Due = time.Time{}
		}
		want := &justonce.Answer{Operation: &utc, Replayed: true, Joined: true, MatchedBy: justonce.MatchIdentity}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		dec := json.NewDecoder(bytes.NewReader(o.b))
		dec.DisallowUnknownFields()
		if err := dec.Decode(new(wireAnswer)); err != nil {
			t.Errorf("%s: %v", o.b, err)
		}
	}

	e := justonce.Entry{Kind: justonce.EntryAttempt, At: at, Started: at, Fence: 2, State: justonce.Failed, Outcome: justonce.EventRejected, Reference: "r",
		Failure: &justonce.Failure{Code: "c"}, Actor: "a", Note: "n", Evidence: map[string]string{"b": "2", "a": "1"}, Body: json.RawMessage(`{ }`), IsResult: true}
	for _, e := range []justonce.Entry{e, {}} {
		var o object
		o.entry(&e)
		var got, want justonce.Entry
		dec := json.NewDecoder(bytes.NewReader(o.b))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("%s: %v", o.b, err)
		}
		std, _ := json.Marshal(e)
		json.Unmarshal(std, &want)
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b json.RawMessage) bool { return json.Valid(a) == json.Valid(b) }),
			cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); d != "" {
			t.Error(d)
		}
	}
}

func TestPrefer(t *testing.T) {
	t.Parallel()
	s := NewServer(nil, nil)
	for _, test := range []struct {
		lines   []string
		wait    time.Duration
		applied string
	}{
		{nil, 10 * time.Second, ""},
		{[]string{"wait=0"}, 0, "wait=0"},
		{[]string{"wait=5"}, 5 * time.Second, "wait=5"},
		{[]string{`Wait = "5"`}, 5 * time.Second, "wait=5"},
		{[]string{"wait=600"}, time.Minute, "wait=60"},
		{[]string{"wait=99999999999999999999"}, 10 * time.Second, ""},
		{[]string{"wait=-1"}, 10 * time.Second, ""},
		{[]string{"wait=1.5"}, 10 * time.Second, ""},
		{[]string{"wait"}, 10 * time.Second, ""},
		{[]string{"respond-async"}, 0, "respond-async"},
		{[]string{"respond-async, wait=3"}, 3 * time.Second, "wait=3"},
		{[]string{"handling=lenient", "foo; bar=1, wait=3;x, wait=4"}, 3 * time.Second, "wait=3"},
	} {
		got := s.prefer(http.Header{"Prefer": test.lines})
		if got.wait != test.wait || got.applied != test.applied {
			t.Errorf("%q: %v, want %v %q", test.lines, got, test.wait, test.applied)
		}
	}
	for v, want := range map[string]time.Duration{"30": 30 * time.Second, "1.5s": 1500 * time.Millisecond, "0": 0, "1h": time.Minute, "99999999999": time.Minute} {
		if got, err := s.parseWait(v); err != nil || got != want {
			t.Errorf("wait=%s: %v, %v, want %v", v, got, err, want)
		}
	}
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if traceParent([]string{good}) != good {
		t.Error("a good one was dropped")
	}
	for _, bad := range [][]string{nil, {good, good}, {strings.ToUpper(good)}, {"ff" + good[2:]}, {good + "-x"}, {good[:54]},
		{"00-00000000000000000000000000000000-b7ad6b7169203331-01"}, {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}} {
		if traceParent(bad) != "" {
			t.Errorf("%q was kept", bad)
		}
	}
}

// Every kind of problem is whole, and every error of the root has one.
func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range kindTable {
		if k.status < 400 || k.title == "" || k.advice.Code == "" || k.advice.Text == "" || seen[k.slug] {
			t.Errorf("%+v", k)
		}
		seen[k.slug] = true
	}
	for _, err := range []error{justonce.ErrNotFound, justonce.ErrUnknownTool, justonce.ErrInvalid, justonce.ErrConflict, justonce.ErrUnavailable, justonce.ErrLedgerGone, justonce.ErrNotAllowed} {
		for _, what := range []deed{calling, reading, deciding} {
			p := problemFor(what, err)
			if p.slug() == slugInternal || !p.Is(err) {
				t.Errorf("%v became %+v", err, p)
			}
		}
	}
}
