package justonce

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"
)

// ReportOptions select what [Runner.Report] tells of. Nil is the zero value.
type ReportOptions struct {
	Tenant   string    // whose calls were observed; defaults to DefaultTenant
	Since    time.Time // intents first seen at or after; defaults to all
	Examples int       // of each tool; defaults to 3; negative: none
}

// A Report sums up what was observed: see [Runner.Observe].
type Report struct {
	Tenant string       `json:"tenant"`
	Since  time.Time    `json:"since,omitzero"`
	Tools  []ToolReport `json:"tools"` // most duplicates first
}

// A ToolReport tells of the observed calls of one tool.
type ToolReport struct {
	Tool  string `json:"tool"`
	Calls int    `json:"calls"` // first ones and duplicates
	First int    `json:"first"` // intents
	// Would counts the duplicates, by what would have become of them.
	Would map[Decided]int `json:"would"`
	// Unknown counts the first calls whose outcome nobody learnt: a person would
	// have had to decide.
	Unknown int `json:"unknown"`
	// Full counts the intents with more duplicates than are recorded, about 1000:
	// the other numbers are too low then.
	Full     int             `json:"full,omitempty"`
	Examples []ReportExample `json:"examples,omitempty"` // newest intents first
}

// Duplicates returns how many calls would have been held back.
func (t *ToolReport) Duplicates() int { return t.Calls - t.First }

// A ReportExample is a duplicate that was observed.
type ReportExample struct {
	Key         string    `json:"key"`
	Tool        string    `json:"tool"`
	FirstAt     time.Time `json:"first_at"`
	DuplicateAt time.Time `json:"duplicate_at"`
	Decided     Decided   `json:"decided"` // what would have become of the duplicate
	// Arguments are the first call's, at most 300 bytes of them; empty where they
	// are no longer kept.
	Arguments string   `json:"arguments"`
	Paths     []string `json:"paths,omitempty"` // what differs, of a conflict
}

// maxExample bounds the arguments of an example, in bytes.
const maxExample = 300

// Report sums up what was observed, from the ledger alone: whichever process
// observed it, and whether or not the tools are registered here. It reads all
// observed operations since o.Since, and the histories of those with duplicates.
func (r *Runner) Report(ctx context.Context, o *ReportOptions) (*Report, error) {
	if o == nil {
		o = &ReportOptions{}
	}
	rep := &Report{Tenant: cmp.Or(o.Tenant, DefaultTenant), Since: o.Since}
	tools := make(map[string]*ToolReport)
	f := Filter{Tenant: ObservedTenant(o.Tenant), Since: o.Since, Limit: 1000}
	for {
		page, err := r.store.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, op := range page.Operations {
			t := tools[op.Tool]
			if t == nil {
				t = &ToolReport{Tool: op.Tool, Would: make(map[Decided]int)}
				tools[op.Tool] = t
			}
			if err := r.addTo(ctx, t, op, cmp.Or(o.Examples, 3)); err != nil {
				return nil, err
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	rep.Tools = make([]ToolReport, 0, len(tools))
	for _, t := range tools {
		rep.Tools = append(rep.Tools, *t)
	}
	slices.SortFunc(rep.Tools, func(a, b ToolReport) int {
		return cmp.Or(cmp.Compare(b.Duplicates(), a.Duplicates()), cmp.Compare(a.Tool, b.Tool))
	})
	return rep, nil
}

// addTo counts an observed operation and its duplicates.
func (r *Runner) addTo(ctx context.Context, t *ToolReport, op *Operation, examples int) error {
	t.Calls++
	t.First++
	if op.State == Review || op.State.Open() && !op.Leased(r.store.Now()) {
		t.Unknown++
	}
	if op.Version > maxObserved {
		t.Full++
	}
	// Its arrival was one write and its end another.
	if op.Version < 2 || op.Version == 2 && op.State.Ended() {
		return nil
	}
	history, err := r.store.History(ctx, op.Ref)
	if err != nil {
		return err
	}
	shown := false
	for i := range history {
		e := &history[i]
		if e.Kind != EntryObserved {
			continue
		}
		t.Calls++
		t.Would[Decided(e.Note)]++
		if shown || len(t.Examples) >= examples {
			continue
		}
		shown = true // one of each operation
		x := ReportExample{Key: op.Key, Tool: op.Tool, FirstAt: op.CreatedAt, DuplicateAt: e.At, Decided: Decided(e.Note)}
		if history[0].Kind == EntryArrived {
			x.Arguments = clip(string(history[0].Body), maxExample)
		}
		json.Unmarshal([]byte(e.Evidence[observedPaths]), &x.Paths) // none but for conflicts
		t.Examples = append(t.Examples, x)
	}
	return nil
}

// clip returns at most limit bytes of s, cut between characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const more = "…"
	limit -= len(more)
	for limit > 0 && s[limit]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit] + more
}
