package justonce_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
)

// An exploration visits every state that a model can reach, nearest first.
type exploration struct {
	m         *model
	symmetric bool // workers that could change places are one state
	limit     int

	seen   map[mstate]uint32
	states []mstate
	parent []uint32
	edges  []edge // that need no fault
}

type edge struct{ from, to uint32 }

// run returns what was wrong first, with the shortest schedule that leads
// there, or nothing.
func (x *exploration) run() (wrong, schedule string, err error) {
	x.seen = make(map[mstate]uint32, 1<<16)
	x.add(x.m.start(), 0)
	for at := 0; at < len(x.states) && wrong == ""; at++ {
		if len(x.states) > x.limit {
			return "", "", fmt.Errorf("more than %d states", x.limit)
		}
		from, quiet := x.states[at], true
		x.m.moves(from, func(mv move, to mstate) {
			if wrong != "" {
				return
			}
			if w := x.m.judge(&from, &to); w != "" {
				wrong, schedule = w, x.schedule(uint32(at))+"\t"+mv.String()+"\n"
				return
			}
			id := x.add(to, uint32(at))
			if !mv.fault {
				quiet = false
				x.edges = append(x.edges, edge{uint32(at), id})
			}
		})
		if wrong == "" && quiet && !settled(&from) {
			wrong, schedule = "nothing moves any more, and it is neither ended nor in review", x.schedule(uint32(at))
		}
	}
	if wrong == "" {
		wrong, schedule = x.stuck()
	}
	return wrong, schedule, nil
}

func (x *exploration) add(s mstate, parent uint32) uint32 {
	if x.symmetric {
		s = s.ordered()
	}
	id, ok := x.seen[s]
	if !ok {
		id = uint32(len(x.states))
		x.seen[s] = id
		x.states = append(x.states, s)
		x.parent = append(x.parent, parent)
	}
	return id
}

func settled(s *mstate) bool {
	for i := range s.rows {
		if r := &s.rows[i]; r.exists && justonce.States()[r.state].Open() {
			return false
		}
	}
	return s.rows[0].exists
}

// stuck looks for a state from which no end and no review can be reached
// without a further fault.
func (x *exploration) stuck() (wrong, schedule string) {
	back := make([][]uint32, len(x.states))
	for _, e := range x.edges {
		back[e.to] = append(back[e.to], e.from)
	}
	ok := make([]bool, len(x.states))
	var todo []uint32
	for i := range x.states {
		if settled(&x.states[i]) {
			ok[i] = true
			todo = append(todo, uint32(i))
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, j := range back[i] {
			if !ok[j] {
				ok[j] = true
				todo = append(todo, j)
			}
		}
	}
	for i := range ok {
		if !ok[i] {
			return "no end and no review can be reached", x.schedule(uint32(i))
		}
	}
	return "", ""
}

// schedule tells how to get to a state.
func (x *exploration) schedule(id uint32) string {
	var lines []string
	for id != 0 {
		from := x.parent[id]
		line := ""
		x.m.moves(x.states[from], func(mv move, to mstate) {
			if x.symmetric {
				to = to.ordered()
			}
			if line == "" && to == x.states[id] {
				line = "\t" + mv.String() + "\n"
			}
		})
		lines = append(lines, line)
		id = from
	}
	var b strings.Builder
	for i := len(lines) - 1; i >= 0; i-- {
		b.WriteString(lines[i])
	}
	return b.String()
}

// models returns the providers that are explored. The two with most means have
// a narrower bound; if narrow, all have.
func models(narrow bool) []*model {
	both := newModel("key then reference", justonce.Policy{Capability: justonce.ByKey, Fallback: justonce.ByReference, CanLookup: true})
	both.policy.MaxAttempts, both.decisions, both.faults = 2, 0, 0
	long := newModel("long-running", justonce.Policy{Capability: justonce.ByReference})
	long.longRunning = true
	long.policy.MaxAttempts, long.decisions = 2, 0
	keyed := newModel("key then reference renewed", both.policy).renewing()
	keyed.policy.MaxAttempts, keyed.decisions, keyed.faults = 2, 0, 0
	all := []*model{
		newModel("key", justonce.Policy{Capability: justonce.ByKey}),
		both,
		newModel("reference", justonce.Policy{Capability: justonce.ByReference}),
		newModel("list retried", justonce.Policy{Capability: justonce.ByList, RetryAbsent: true}),
		newModel("list", justonce.Policy{Capability: justonce.ByList}),
		newModel("none", justonce.Policy{Capability: justonce.ByNothing}),
		long,
		newModel("reference renewed", justonce.Policy{Capability: justonce.ByReference}).renewing(),
		newModel("none renewed", justonce.Policy{Capability: justonce.ByNothing}).renewing(),
		keyed,
	}
	for _, m := range all {
		if narrow {
			m.policy.MaxAttempts, m.policy.MaxLookups, m.decisions = 2, 1, 0
		}
	}
	return all
}

// Every interleaving of two workers, a provider and a person, within the bound:
// one crash or one commit that seems to fail, two or three sends, one retry by
// a person, any number of lost requests and replies, freezes of any length.
func TestInterleavings(t *testing.T) {
	narrow := underRace || testing.Short()
	var total atomic.Int64
	t.Run("models", func(t *testing.T) {
		for _, m := range models(narrow) {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				x := &exploration{m: m, symmetric: true, limit: 3_000_000}
				wrong, schedule, err := x.run()
				if err != nil {
					t.Fatal(err)
				}
				if wrong != "" {
					t.Errorf("%s:\n%s", wrong, schedule)
				}
				t.Logf("%d states in %v", len(x.states), time.Since(start).Round(time.Millisecond))
				total.Add(int64(len(x.states)))
			})
		}
	})
	t.Logf("%d states in all", total.Load())
	if total.Load() < 500_000 && !narrow {
		t.Error("the models have become too small to mean anything")
	}
}
