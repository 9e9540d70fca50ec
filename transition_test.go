package justonce_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A variant is a policy under which the table is looked at.
type variant struct {
	name   string
	policy justonce.Policy
}

func variants() []variant {
	with := func(name string, p justonce.Policy) variant { return variant{name, p.WithDefaults()} }
	return []variant{
		with("key", justonce.Policy{Capability: justonce.ByKey}),
		with("key, then reference", justonce.Policy{Capability: justonce.ByKey, Fallback: justonce.ByReference, CanLookup: true}),
		with("reference", justonce.Policy{Capability: justonce.ByReference, CanLookup: true}),
		with("list, retried", justonce.Policy{Capability: justonce.ByList, CanLookup: true, RetryAbsent: true}),
		with("list", justonce.Policy{Capability: justonce.ByList, CanLookup: true}),
		with("none", justonce.Policy{Capability: justonce.ByNothing}),
	}
}

// A situation is a status that an operation can be in at t0.
type situation struct {
	name   string
	status justonce.Status
}

// situations returns at least one situation of every state.
func situations() []situation {
	at := func(ago time.Duration) time.Time { return t0.Add(-ago) }
	leased := func(s justonce.Status, until time.Time) justonce.Status {
		s.LeaseUntil, s.Due = until, until
		return s
	}
	running := justonce.Status{State: justonce.Running, Fence: 2, Attempts: 1, FirstSent: at(time.Second)}
	doubtful := justonce.Status{State: justonce.Running, Fence: 2, Attempts: 2, Unknowns: 1, Doubt: true, FirstSent: at(time.Minute), UnknownAt: at(30 * time.Second)}
	polled := justonce.Status{State: justonce.Running, Fence: 2, Attempts: 1, Accepted: true, Reference: "r", FirstSent: at(time.Minute), Due: t0}
	unknown := justonce.Status{State: justonce.Unknown, Fence: 2, Attempts: 1, Unknowns: 1, Doubt: true, FirstSent: at(time.Minute), UnknownAt: at(30 * time.Second), Due: t0}
	asking := leased(unknown, t0.Add(time.Minute))
	asking.Lookups = 1
	thrice, over := unknown, unknown
	thrice.Attempts, thrice.Unknowns = 3, 3
	over.FirstSent = at(25 * time.Hour)
	review := unknown
	review.State, review.Due = justonce.Review, time.Time{}
	used := justonce.Status{State: justonce.Pending, Fence: 9, Attempts: 8, Due: t0}
	return []situation{
		{"pending", justonce.Status{State: justonce.Pending, Fence: 2, Due: t0}},
		{"used up", used},
		{"running", leased(running, t0.Add(time.Minute))},
		{"expired", leased(running, t0)},
		{"doubtful", leased(doubtful, t0.Add(time.Minute))},
		{"accepted", polled},
		{"polling", leased(polled, t0.Add(time.Minute))},
		{"unknown", unknown},
		{"thrice", thrice},
		{"window over", over},
		{"asking", asking},
		{"review", review},
		{"incident", justonce.Status{State: justonce.Review, Fence: 2, Attempts: 1, Incident: true, Reference: "r", Digest: "d"}},
		{"succeeded", justonce.Status{State: justonce.Succeeded, Fence: 2, Attempts: 1, Reference: "r", Digest: "d"}},
		{"failed", justonce.Status{State: justonce.Failed, Reason: justonce.ReasonRejected, Fence: 2, Attempts: 1}},
	}
}

// A happening is an event as the table of expectations names it. Reports
// carry the current fence unless they are late.
type happening struct {
	name  string
	event justonce.Event
	late  bool
}

func (h happening) at(s justonce.Status) justonce.Event {
	e := h.event
	e.Fence = s.Fence
	if h.late {
		e.Fence--
	}
	return e
}

func happenings() []happening {
	var all []happening
	add := func(name string, e justonce.Event, late bool) { all = append(all, happening{name, e, late}) }
	for _, k := range eventKinds() {
		e := justonce.Event{Kind: k, Asked: t0}
		add(string(k), e, false)
		switch k {
		case justonce.EventRejected:
			e.Conclusive = true
			add("rejected, conclusive", e, false)
		case justonce.EventAbsent, justonce.EventFound:
			e.Asked = t0.Add(-25 * time.Second)
			add(string(k)+", asked early", e, false)
		}
	}
	for _, k := range eventKinds() {
		if !isReport(k) {
			continue
		}
		e := justonce.Event{Kind: k, Asked: t0, Conclusive: true}
		add("late "+string(k), e, true)
		if k == justonce.EventSucceeded || k == justonce.EventFound || k == justonce.EventAccepted {
			e.Reference, e.Digest = "r", "d"
			add("late "+string(k)+" r", e, true)
			e.Reference, e.Digest = "other", "other"
			add("late "+string(k)+" other", e, true)
		}
	}
	return all
}

// isReport reports whether events of kind k carry a fence that counts.
func isReport(k justonce.EventKind) bool {
	switch k {
	case justonce.EventClaimed, justonce.EventLeaseExpired, justonce.EventDeferred, justonce.EventContested,
		justonce.EventHappened, justonce.EventRetry, justonce.EventCancelled, justonce.EventRedriven:
		return false
	}
	return true
}

// eventKinds reads the kinds of events out of the source, so that none can be
// added without an expectation.
func eventKinds() []justonce.EventKind {
	file, err := parser.ParseFile(token.NewFileSet(), "transition.go", nil, 0)
	if err != nil {
		panic(err)
	}
	var kinds []justonce.EventKind
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Type != nil {
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == "EventKind" {
				for _, x := range v.Values {
					kinds = append(kinds, justonce.EventKind(strings.Trim(x.(*ast.BasicLit).Value, `"`)))
				}
			}
		}
		return true
	})
	return kinds
}

// code writes a result the way the table of expectations does.
func code(before, after justonce.Status, step justonce.Step, err error) string {
	if err != nil {
		return "-"
	}
	if before == after && step == justonce.StepNone {
		return "="
	}
	c := map[justonce.State]string{justonce.Pending: "P", justonce.Running: "R", justonce.Unknown: "U",
		justonce.Review: "V", justonce.Succeeded: "S", justonce.Failed: "F"}[after.State]
	switch {
	case after.Reason == justonce.ReasonExhausted:
		c = "X"
	case after.Reason == justonce.ReasonCancelled:
		c = "C"
	case after.State == justonce.Running && after.Accepted:
		c = "A"
	case after.Incident:
		c = "I"
	}
	if step != justonce.StepNone {
		c += string(step[0])
	}
	return c
}

// cell returns the results under all variants, "/" between them unless they
// are all the same.
func cell(s justonce.Status, h happening) string {
	var codes []string
	for _, v := range variants() {
		after, step, err := justonce.Transition(s, h.at(s), v.policy, t0)
		codes = append(codes, code(s, after, step, err))
	}
	if len(slices.Compact(slices.Clone(codes))) == 1 {
		return codes[0]
	}
	return strings.Join(codes, "/")
}

// expectations is what Transition must do with every happening in every
// situation. Codes: P pending, R running, A running and accepted, U unknown,
// V review, I review with an incident, S succeeded, F failed (X exhausted, C
// cancelled), with the step: s send, l lookup; "=" nothing changes, "-" it is
// refused. Six codes stand for the six variants in order: key; key, then
// reference; reference; list, retried; list; none.
const expectations = `
pending
	Rs: claimed
	-: lease_expired; happened; retry; redriven
	=: released; rejected; rejected, conclusive; not_executed; unknown; found_failed; progress; absent;
		absent, asked early; ambiguous; lookup_failed; late released; late rejected; late not_executed;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	P: deferred
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	V/A/A/A/A/V: accepted; late accepted; late accepted r; late accepted other
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other
	C: cancelled

used up
	X: claimed
	-: lease_expired; happened; retry; redriven
	=: released; rejected; rejected, conclusive; not_executed; unknown; found_failed; progress; absent;
		absent, asked early; ambiguous; lookup_failed; late released; late rejected; late not_executed;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	P: deferred
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	V/A/A/A/A/V: accepted; late accepted; late accepted r; late accepted other
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other
	C: cancelled

running
	-: claimed; lease_expired; deferred; happened; retry; cancelled; redriven
	P: released; not_executed
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	F: rejected; rejected, conclusive
	V/A/A/A/A/V: accepted
	U/U/U/U/U/V: unknown
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other
	=: found_failed; progress; absent; absent, asked early; ambiguous; lookup_failed; late released;
		late rejected; late not_executed; late accepted; late accepted r; late accepted other;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		late withdrawn; late renewed
	R: renewed
	C: withdrawn

expired
	-: claimed; deferred; happened; retry; cancelled; redriven
	U/U/U/U/U/V: lease_expired; unknown
	P: released; not_executed
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	F: rejected; rejected, conclusive
	V/A/A/A/A/V: accepted
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other
	=: found_failed; progress; absent; absent, asked early; ambiguous; lookup_failed; late released;
		late rejected; late not_executed; late accepted; late accepted r; late accepted other;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		late withdrawn; late renewed
	R: renewed
	C: withdrawn

doubtful
	-: claimed; lease_expired; deferred; happened; retry; cancelled; redriven
	U: released
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	U/U/U/U/U/V: rejected; not_executed; unknown; withdrawn
	F: rejected, conclusive
	V/A/A/A/A/V: accepted
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other
	=: found_failed; progress; absent; absent, asked early; ambiguous; lookup_failed; late released;
		late rejected; late not_executed; late accepted; late accepted r; late accepted other;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		late withdrawn; late renewed
	R: renewed

accepted
	Al: claimed
	-: lease_expired; deferred; happened; retry; cancelled; redriven
	=: released; rejected; rejected, conclusive; not_executed; accepted; unknown; found_failed; progress;
		absent; absent, asked early; ambiguous; lookup_failed; late released; late rejected;
		late not_executed; late accepted; late accepted r; late unknown; late found_failed; late progress;
		late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	S: succeeded; late succeeded; late succeeded r
	I: contested; late succeeded other; late accepted other
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other

polling
	-: claimed; lease_expired; deferred; happened; retry; cancelled; redriven
	A: released; absent; absent, asked early; lookup_failed; renewed
	S: succeeded; found; found, asked early; late succeeded; late succeeded r
	=: rejected; rejected, conclusive; not_executed; accepted; unknown; late released; late rejected;
		late not_executed; late accepted; late accepted r; late unknown; late found_failed; late progress;
		late absent; late ambiguous; late lookup_failed;
		withdrawn; late withdrawn; late renewed
	I: contested; late succeeded other; late accepted other
	F: found_failed
	V/A/A/A/A/V: progress
	V: ambiguous
	S/S/S/=/=/S: late found; late found r; late found other

unknown
	Rs/Rs/Ul/Ul/Ul/V: claimed
	-: lease_expired; happened; retry; cancelled; redriven
	=: released; rejected; rejected, conclusive; not_executed; unknown; found_failed; progress; absent;
		absent, asked early; ambiguous; lookup_failed; late released; late rejected; late not_executed;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	U: deferred
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	V/A/A/A/A/V: accepted; late accepted; late accepted r; late accepted other
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other

thrice
	V/Ul/Ul/Ul/Ul/V: claimed
	-: lease_expired; happened; retry; cancelled; redriven
	=: released; rejected; rejected, conclusive; not_executed; unknown; found_failed; progress; absent;
		absent, asked early; ambiguous; lookup_failed; late released; late rejected; late not_executed;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	U: deferred
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	V/A/A/A/A/V: accepted; late accepted; late accepted r; late accepted other
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other

window over
	V/Ul/Ul/Ul/Ul/V: claimed
	-: lease_expired; happened; retry; cancelled; redriven
	=: released; rejected; rejected, conclusive; not_executed; unknown; found_failed; progress; absent;
		absent, asked early; ambiguous; lookup_failed; late released; late rejected; late not_executed;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	U: deferred
	S: succeeded; late succeeded; late succeeded r; late succeeded other
	V/A/A/A/A/V: accepted; late accepted; late accepted r; late accepted other
	I: contested
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other

asking
	-: claimed; lease_expired; deferred; happened; retry; cancelled; redriven
	U: released; absent, asked early; lookup_failed; renewed
	S: succeeded; found; late succeeded; late succeeded r; late succeeded other
	S/S/S/U/U/S: found, asked early
	=: rejected; rejected, conclusive; not_executed; unknown; late released; late rejected;
		late not_executed; late unknown; late found_failed; late progress; late absent; late ambiguous;
		late lookup_failed;
		withdrawn; late withdrawn; late renewed
	V/A/A/A/A/V: accepted; progress; late accepted; late accepted r; late accepted other
	I: contested
	F: found_failed
	V/P/P/P/V/V: absent
	V: ambiguous
	S/S/S/=/=/S: late found; late found r; late found other

review
	-: claimed; lease_expired; deferred; contested; redriven
	=: released; rejected; rejected, conclusive; not_executed; unknown; found_failed; progress; absent;
		absent, asked early; ambiguous; lookup_failed; late released; late rejected; late not_executed;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	S: succeeded; happened; late succeeded; late succeeded r; late succeeded other
	=/A/A/A/A/=: accepted; late accepted
	S/S/S/=/=/S: found; found, asked early; late found; late found r; late found other
	P: retry
	C: cancelled
	V/A/A/A/A/V: late accepted r; late accepted other

incident
	-: claimed; lease_expired; deferred; contested; retry; redriven
	=: released; succeeded; rejected; rejected, conclusive; not_executed; accepted; unknown; found; found, asked early;
		found_failed; progress; absent; absent, asked early; ambiguous; lookup_failed; late released;
		late succeeded; late succeeded r; late succeeded other; late rejected; late not_executed;
		late accepted; late accepted r; late accepted other; late unknown; late found; late found r;
		late found other; late found_failed; late progress; late absent; late ambiguous;
		late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	S: happened
	C: cancelled

succeeded
	-: claimed; lease_expired; deferred; contested; happened; retry; cancelled; redriven
	=: released; succeeded; rejected; rejected, conclusive; not_executed; accepted; unknown; found; found, asked early;
		found_failed; progress; absent; absent, asked early; ambiguous; lookup_failed; late released;
		late succeeded; late succeeded r; late rejected; late not_executed; late accepted; late accepted r;
		late unknown; late found; late found r; late found_failed; late progress; late absent;
		late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	I: late succeeded other; late accepted other
	I/I/I/=/=/I: late found other

failed
	-: claimed; lease_expired; deferred; contested; happened; retry; cancelled
	=: released; rejected; rejected, conclusive; not_executed; unknown; found_failed; progress; absent;
		absent, asked early; ambiguous; lookup_failed; late released; late rejected; late not_executed;
		late unknown; late found_failed; late progress; late absent; late ambiguous; late lookup_failed;
		withdrawn; renewed; late withdrawn; late renewed
	I: succeeded; accepted; late succeeded; late succeeded r; late succeeded other; late accepted;
		late accepted r; late accepted other
	I/I/I/=/=/I: found; found, asked early; late found; late found r; late found other
	P: redriven
`

// expected parses expectations into situation, happening, code.
func expected(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := make(map[string]map[string]string)
	var cells map[string]string
	var code string
	for line := range strings.Lines(expectations) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			continue
		case line[0] != '\t':
			cells = make(map[string]string)
			all[line] = cells
			continue
		case !strings.HasPrefix(line, "\t\t"):
			code, line, _ = strings.Cut(line[1:], ": ")
		}
		for name := range strings.SplitSeq(line, ";") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if cells[name] != "" {
				t.Fatalf("two expectations for %q", name)
			}
			cells[name] = code
		}
	}
	return all
}

func TestTransition_EveryPair(t *testing.T) {
	want := expected(t)
	got := make(map[string]map[string]string)
	for _, s := range situations() {
		got[s.name] = make(map[string]string)
		for _, h := range happenings() {
			got[s.name][h.name] = cell(s.status, h)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("a missing cell has no expectation (-want +got):\n%s", d)
	}
	if n := len(eventKinds()); n < 22 {
		t.Errorf("only %d kinds of events were read from transition.go", n)
	}
	for _, state := range justonce.States() {
		if !slices.ContainsFunc(situations(), func(s situation) bool { return s.status.State == state }) {
			t.Errorf("no situation is %s", state)
		}
	}
}

// A refused pair changes nothing and says which pair it was.
func TestTransition_Refused(t *testing.T) {
	kinds := append(eventKinds(), "no such event")
	for _, s := range situations() {
		for _, v := range variants() {
			for _, k := range kinds {
				after, step, err := justonce.Transition(s.status, justonce.Event{Kind: k, Fence: s.status.Fence, Asked: t0}, v.policy, t0)
				if err == nil {
					continue
				}
				var te *justonce.TransitionError
				if !errors.Is(err, justonce.ErrNotAllowed) || !errors.As(err, &te) || te.State != s.status.State || te.Event != k || te.Why == "" {
					t.Errorf("%s, %s: error %#v", s.name, k, err)
				}
				if after != s.status || step != justonce.StepNone {
					t.Errorf("%s, %s: refused, and yet %+v, step %q", s.name, k, after, step)
				}
			}
		}
	}
	_, _, err := justonce.Transition(situations()[0].status, justonce.Event{Kind: "no such event"}, variants()[0].policy, t0)
	if err == nil {
		t.Error("an event that does not exist was let through")
	}
}
