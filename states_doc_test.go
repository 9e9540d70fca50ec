package justonce_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce"
)

var update = flag.Bool("update", false, "write docs/states.md anew")

const statesIntro = `# States

This page is drawn from the state table itself: ` + "`go test -run StatesDoc -update .`" + ` runs
the function [Transition](../transition.go) on every pair and writes down what it did.

Each call of a tool that must not act twice becomes one **operation**, one row in the ledger. It is
in one of six states:

| state | meaning | who moves it on |
|---|---|---|
| pending | accepted; no effect yet | a worker sends it |
| running | an attempt holds the lease, or the provider works on an accepted job | the attempt's report; the end of the lease; polling |
| unknown | an attempt ended without proof: the reply was lost, the process died | a worker sends again or asks, by level |
| review | nothing can tell any more, or what is known contradicts itself | a person |
| succeeded | the effect happened; its result is recorded and replayed | nobody |
| failed | proven: no effect. Rejected, exhausted (never executed, attempts used up) or cancelled (by a person, or withdrawn) | a person may redrive it |

**Levels.** What happens to an unknown outcome depends on what the provider offers. Level 1, *key*:
it honours an idempotency key, so the same key again is the question. Level 2, *reference*: a unique
reference can be fetched. Level 3, *list*: only recent effects can be listed and matched by their
fields. Level 4, *none*: nothing can be known, so nothing is ever sent again without proof or a
person's word.

**Fence and lease.** A claim gives a worker the lease, the right to act until a time, and raises the
fence, a number. Only the report of the newest fence moves the operation. A report under an older
one is *late*: it is kept as evidence and changes nothing, unless it tells of an effect: a late
success is always believed. At level 3 a late match is none: another operation may own it. A lease that
is shorter than an attempt may last is *renewed* by its holder while it is at work, so that a crash
shows within seconds even where an attempt takes an hour. A lease that somebody took over does not
come back.

**safe_until.** A provider remembers a key for its window only. A key is sent again only before
first send + window - margin; afterwards the tool's fallback counts: a lookup, or a person. The
first send counts from the first whose outcome nobody learnt, also after a person's retry, for the
key stays the same; a redrive has a new one.

**Settle.** A lookup that shows nothing proves nothing while the request may still be under way.
Absence counts only if it was asked for after the last send was given up and the settle time had
passed. At level 3 the same holds for a match, which before may be an equal operation's. Where leases
are renewed a lost process may have been at it until the timeout, and the settle time starts there.

**Doubt.** After an unknown outcome an earlier send may have had its effect. A later "that one did
nothing" says nothing about the earlier one: the operation stays unknown. Only the provider's stored
answer for the key (a *conclusive* rejection), a success or a lookup settles the doubt.

**Withdrawn.** A send that certainly had no effect and that nobody shall repeat unasked: its caller
took it back before it was dispatched, or has to come again with other credentials. The operation
ends as failed and cancelled, and gives way: the next equal call is a new one, with a given key, too.

**Incident.** Where a report contradicts what was recorded, say a second success with another
reference or a success after a failure, the operation goes to review and is marked. The recorded
result stays until a person decides; sending again is refused.

`

const statesLegend = `## Every pair

Each cell is the state afterwards. · nothing changes; – not possible; later: the same state, due
again later. Where providers differ: 1 to 4 are the levels, 1+2 is level 1 with a lookup as fallback,
3+ is level 3 for tools that may be sent once more after absence. Reports are those of the newest
fence; where nobody holds a lease, they count as late.

`

// levels are short names of the variants.
var levels = map[string]string{"key": "1", "key, then reference": "1+2", "reference": "2", "list, retried": "3+", "list": "3", "none": "4"}

// A column of the page is a state, as seen by each event where it matters.
type column struct {
	title  string
	idle   string // situation for what needs no lease
	leased string // situation for reports
}

var statesColumns = []column{
	{"pending", "pending", "pending"},
	{"running", "running", "running"},
	{"running, in doubt", "doubtful", "doubtful"},
	{"accepted job", "accepted", "polling"},
	{"unknown", "unknown", "asking"},
	{"review", "review", "review"},
	{"incident", "incident", "incident"},
	{"succeeded", "succeeded", "succeeded"},
	{"failed", "failed", "failed"},
}

func named(name string) justonce.Status {
	all := situations()
	i := slices.IndexFunc(all, func(s situation) bool { return s.name == name })
	return all[i].status
}

func (c column) status(h happening) justonce.Status {
	switch {
	case h.event.Kind == justonce.EventLeaseExpired && c.idle == "running":
		return named("expired")
	case isReport(h.event.Kind):
		return named(c.leased)
	}
	return named(c.idle)
}

// outcome says what h does to s under each variant.
func outcome(s justonce.Status, h happening) string {
	var texts []string
	by := make(map[string][]string)
	for _, v := range variants() {
		after, step, err := justonce.Transition(s, h.at(s), v.policy, t0)
		text := "**" + string(after.State) + "**"
		switch {
		case err != nil:
			text = "–"
		case step == justonce.StepLookup:
			text = "look up"
		case step == justonce.StepSend:
			text = "**running**: send"
		case after == s:
			text = "·"
		case after.Incident:
			text = "**review**: incident"
		case after.State == justonce.Failed:
			text += ": " + string(after.Reason)
		case after.Accepted && !s.Accepted:
			text = "**running**: accepted"
		case after.State == s.State && after.State.Open():
			text = "later"
		}
		if by[text] == nil {
			texts = append(texts, text)
		}
		by[text] = append(by[text], levels[v.name])
	}
	if len(texts) == 1 {
		return texts[0]
	}
	var b []string
	for _, text := range texts {
		b = append(b, strings.Join(by[text], ", ")+": "+text)
	}
	return strings.Join(b, "<br>")
}

func statesPage() []byte {
	var b bytes.Buffer
	b.WriteString(statesIntro)
	b.WriteString("## The way of an operation\n\n```mermaid\nstateDiagram-v2\n    [*] --> pending: the call is recorded\n")
	for _, e := range arrows() {
		b.WriteString("    " + e + "\n")
	}
	b.WriteString("```\n\nLate reports and incidents are left out of the picture.\n\n")
	b.WriteString(statesLegend)
	table := func(late bool) (nothing []string) {
		b.WriteString("| event |")
		for _, c := range statesColumns {
			b.WriteString(" " + c.title + " |")
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(statesColumns)) + "\n")
		for _, h := range happenings() {
			if h.late != late {
				continue
			}
			var cells []string
			for _, c := range statesColumns {
				cells = append(cells, outcome(c.status(h), h))
			}
			if same := slices.Compact(slices.Clone(cells)); len(same) == 1 && same[0] == "·" {
				nothing = append(nothing, strings.TrimPrefix(h.name, "late "))
				continue
			}
			b.WriteString("| " + h.name + " | " + strings.Join(cells, " | ") + " |\n")
		}
		return nothing
	}
	table(false)
	b.WriteString("\n## Late reports\n\nUnder an older fence. The recorded reference, where there is one, is *r*.\n\n")
	fmt.Fprintf(&b, "\nWhatever else comes late changes nothing: %s.\n", strings.Join(table(true), ", "))
	b.WriteString("\n## An unknown operation is claimed\n\n| when | what happens |\n|---|---|\n")
	for _, row := range [][2]string{{"unknown", "before safe_until"}, {"window over", "at or after safe_until"}, {"thrice", "after three unknown outcomes in a row"}} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[1], outcome(named(row[0]), happening{event: justonce.Event{Kind: justonce.EventClaimed}}))
	}
	return b.Bytes()
}

// arrows returns the diagram's transitions between states.
func arrows() []string {
	var order []string
	events := make(map[string][]string)
	for _, c := range statesColumns {
		for _, h := range happenings() {
			s := c.status(h)
			for _, v := range variants() {
				after, _, err := justonce.Transition(s, h.at(s), v.policy, t0)
				// Reports count from an attempt or lookup under way only.
				if err != nil || after.State == s.State || h.late || after.Incident || isReport(h.event.Kind) && s.LeaseUntil.IsZero() {
					continue
				}
				arrow := string(s.State) + " --> " + string(after.State)
				if events[arrow] == nil {
					order = append(order, arrow)
				}
				if name := strings.ReplaceAll(string(h.event.Kind), "_", " "); !slices.Contains(events[arrow], name) {
					events[arrow] = append(events[arrow], name)
				}
			}
		}
	}
	for i, arrow := range order {
		order[i] += ": " + strings.Join(events[arrow], ", ")
	}
	return order
}

func TestStatesDoc(t *testing.T) {
	path := filepath.Join("docs", "states.md")
	want := statesPage()
	if *update {
		if err := os.MkdirAll("docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is not what the table does; run this test with -update (-want +got):\n%s", path, d)
	}
}
