package sandbox

import (
	"encoding/json"
	"strings"
	"time"
)

// Effect is one thing that the provider really did. There is exactly one per execution: replays,
// refusals and declines have none.
type Effect struct {
	Seq       int64           `json:"seq"`                 // 1, 2, 3 … over all services; goes on after Reset
	Time      time.Time       `json:"time"`                // by the provider's clock, UTC
	Service   string          `json:"service"`             // Payment, Ticket, …
	ID        string          `json:"id"`                  // what GET knows it by
	Key       string          `json:"key,omitempty"`       // the Idempotency-Key it was done under
	Reference string          `json:"reference,omitempty"` // order_id, external_id, to or channel
	Status    int             `json:"status"`              // HTTP status sent to the client; 0: not one byte was sent
	Fault     string          `json:"fault,omitempty"`     // the faults it met, joined by commas
	Intent    json.RawMessage `json:"intent"`              // the request body, members sorted; members over 4 KiB are clipped
}

// Field returns a member of the intent as text: strings bare, everything else as JSON.
func (e Effect) Field(name string) (string, bool) { return member(e.Intent, name) }

func member(intent []byte, name string) (string, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(intent, &fields) != nil {
		return "", false
	}
	raw, ok := fields[name]
	if !ok {
		return "", false
	}
	var text string
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	return string(raw), true
}

// Group is a set of effects of one service that have the same values in some members of their intent.
type Group struct {
	Service string   `json:"service"`
	Values  []string `json:"values"` // in the order of the members asked for
	Count   int      `json:"count"`
	IDs     []string `json:"ids"` // oldest first
}

// groups sorts effects into groups, in the order of each group's first effect. Effects that lack one
// of the members are in no group. Text and number are different values ("1" and 1).
func (v view) groups(by string) []Group {
	names := strings.Split(by, ",")
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = string(encode(name)) // as the intent, encoded by the same function, has it
	}
	at := map[string]int{}
	var all []Group
	for i := range v.entries {
		e := &v.entries[i]
		fields, ok := rawMembers(e.intent, names, quoted)
		if !ok {
			continue
		}
		key := services[e.service].name + "\x00" + strings.Join(fields, "\x00")
		n, ok := at[key]
		if !ok {
			n = len(all)
			at[key] = n
			g := Group{Service: services[e.service].name}
			for _, name := range names {
				text, _ := member([]byte(e.intent), name)
				g.Values = append(g.Values, text)
			}
			all = append(all, g)
		}
		all[n].Count++
		all[n].IDs = append(all[n].IDs, v.id(i))
	}
	return all
}

func rawMembers(intent string, names, quoted []string) ([]string, bool) {
	for _, name := range quoted { // spare the decoding where a look is enough
		if !strings.Contains(intent, name) {
			return nil, false
		}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(intent), &fields) != nil {
		return nil, false
	}
	raw := make([]string, len(names))
	for i, name := range names {
		v, ok := fields[name]
		if !ok {
			return nil, false
		}
		raw[i] = string(v)
	}
	return raw, true
}

// Effects returns everything done since the start or the last Reset, oldest first.
func (p *Provider) Effects() []Effect {
	v := p.tally.view()
	all := make([]Effect, len(v.entries))
	for i := range v.entries {
		all[i] = v.effect(i)
	}
	return all
}

// Count returns how many effects a service has had, or all of them for "". An unknown service has none.
func (p *Provider) Count(service string) int {
	counts := p.tally.countAll()
	if service == "" {
		sum := 0
		for _, n := range counts {
			sum += n
		}
		return sum
	}
	if s := serviceNamed(service); s != nil {
		return counts[s.index]
	}
	return 0
}

// Groups sorts all effects by service and the named members of their intent (several are joined by
// commas: "to,subject"), in the order of each group's first effect.
func (p *Provider) Groups(by string) []Group { return p.tally.view().groups(by) }

// Duplicates returns the groups with more than one effect: empty means that no intent was executed
// twice, as far as the named members tell intents apart.
func (p *Provider) Duplicates(by string) []Group { return atLeast(p.Groups(by), 2) }

func atLeast(all []Group, n int) []Group {
	var some []Group
	for _, g := range all {
		if g.Count >= n {
			some = append(some, g)
		}
	}
	return some
}

// Reset forgets all effects, keys, references and jobs. Requests being executed are counted when
// they have their effect, and ids are not used again. Armed faults stay.
func (p *Provider) Reset() error { return p.tally.reset(p.opt.Now()) }
