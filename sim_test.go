package justonce_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/inmem"
)

// A bug is planted in a simulation; the zero bug is none.
type bug struct {
	name       string
	level      string // the only one that shows it
	transition transition
	noIdentity bool
	bias       bias // what makes it show sooner
	renewed    bool // shows only where leases are renewed
}

// A bias makes a history rougher than usual, also with equal intents.
type bias int

const (
	noBias bias = iota
	lateRefusals
	slowEffects
)

// A sim is one history: a few intents, callers that retry, processes that
// crash and freeze, a ledger and a provider that fail, all drawn from a seed.
// It runs in a synctest bubble.
type sim struct {
	draw      *draw
	bug       bug
	tool      *justonce.Tool
	level     string
	bias      bias
	canLookup bool
	byList    bool
	renewed   bool // attempts outlast leases
	ledger    *inmem.Store
	provider  *simProvider
	start     time.Time
	healed    atomic.Bool
	booted    int

	mu       sync.Mutex
	nodes    []*node
	answers  []*justonce.Answer
	fences   map[string]int64 // the highest seen of each operation
	problems []string
	trace    []string
	tracing  bool
}

var simLevels = []string{"key", "key then reference", "reference", "list retried", "list", "none"}

func newSim(seed uint64, b bug) *sim {
	s := &sim{draw: newDraw(seed), bug: b, ledger: inmem.New(nil), start: time.Now(), fences: make(map[string]int64)}
	s.provider = &simProvider{sim: s, stored: make(map[string]*simStored), sent: make(map[string][]*simSend)}
	rng := s.draw.about("tool")
	s.level = simLevels[rng.IntN(len(simLevels))]
	if b.level != "" {
		s.level = b.level
	}
	if s.bias = b.bias; b.name == "" && in(rng, 30) {
		s.bias = bias(rng.IntN(3))
	}
	p := justonce.Policy{Timeout: simTimeout, Lease: simLease, Settle: simSettle, Window: simWindow,
		MaxAttempts: 6, MaxLookups: 8, BackoffBase: 200 * time.Millisecond, BackoffCap: 10 * time.Second}
	if s.renewed = b.renewed; b.name == "" && in(rng, 30) {
		s.renewed = true
	}
	if s.renewed {
		p.Timeout, p.Lease = simLong, simShort
	}
	switch s.level {
	case "key":
		p.Capability = justonce.ByKey
	case "key then reference":
		p.Capability, p.Fallback = justonce.ByKey, justonce.ByReference
	case "reference":
		p.Capability = justonce.ByReference
	case "none":
		p.Capability = justonce.ByNothing
	case "list retried", "list":
		p.Capability, p.RetryAbsent = justonce.ByList, s.level == "list retried"
		s.byList = true
	}
	s.canLookup = s.level != "key" && s.level != "none"
	s.tool = &justonce.Tool{Name: "charge", Identity: []string{"/order_id"}, Ignore: []string{"/trace"},
		DedupeFor: 1000 * time.Hour, Policy: p}
	return s
}

// trouble reports whether things may still go wrong.
func (s *sim) trouble() bool { return !s.healed.Load() }

func (s *sim) note(format string, a ...any) {
	if !s.tracing {
		return
	}
	line := fmt.Sprintf("%12s ", time.Since(s.start)) + fmt.Sprintf(format, a...)
	s.mu.Lock()
	s.trace = append(s.trace, line)
	s.mu.Unlock()
}

func (s *sim) problem(format string, a ...any) {
	s.mu.Lock()
	s.problems = append(s.problems, fmt.Sprintf(format, a...))
	s.mu.Unlock()
}

// fence sees to it that an operation's never falls, whoever writes.
func (s *sim) fence(op *justonce.Operation) {
	id := fmt.Sprintf("%s %s %d", op.Tool, op.Fingerprint, op.CreatedAt.UnixNano())
	s.mu.Lock()
	was := s.fences[id]
	s.fences[id] = max(was, op.Fence)
	s.mu.Unlock()
	if op.Fence < was {
		s.problem("the fence of %s fell from %d to %d", op.Key, was, op.Fence)
	}
}

// An intent is what somebody wants once.
type intent struct {
	order string
	seq   int
}

// run lets the history happen and returns what was wrong with it.
func (s *sim) run() []string {
	rng := s.draw.about("plan")
	for range 2 + rng.IntN(2) {
		s.nodes = append(s.nodes, s.boot())
	}
	var intents []intent
	for i := range 1 + rng.IntN(3) {
		intents = append(intents, intent{fmt.Sprintf("o%d", i+1), 1})
	}
	if in(rng, 40) || s.bias != noBias { // two deliberate equal ones
		intents = append(intents, intent{"o1", 2})
	}
	var callers sync.WaitGroup
	for _, it := range intents {
		for c := range 1 + rng.IntN(3) {
			callers.Go(func() { s.caller(it, c) })
		}
	}
	trouble := make(chan struct{})
	go func() {
		defer close(trouble)
		s.disturb()
	}()
	callers.Wait()
	<-trouble
	s.heal()
	s.quiet("after the trouble")
	s.decide()
	s.quiet("after the decisions")
	s.final(intents)
	s.quiet("after the last calls") // new ones, of intents that were withdrawn
	s.mu.Lock()
	nodes := s.nodes
	s.mu.Unlock()
	for _, n := range nodes {
		n.end()
		<-n.worked
		n.runner.Shutdown(context.Background())
	}
	s.check(intents)
	return append(s.problems, s.provider.wrong...)
}

func (s *sim) node(i int) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[i%len(s.nodes)]
}

// caller is an agent that wants an intent done and loses patience.
func (s *sim) caller(it intent, c int) {
	name := fmt.Sprintf("caller %s.%d.%d", it.order, it.seq, c)
	rng := s.draw.about(name)
	key := ""
	if in(rng, 30) {
		key = fmt.Sprintf("key-%s-%d", it.order, it.seq)
	}
	time.Sleep(between(rng, 1, 20*time.Second))
	for try := range 1 + rng.IntN(4) {
		call := justonce.Call{Tool: "charge", Key: key, IntentSeq: it.seq, NoWait: in(rng, 15),
			Arguments: json.RawMessage(fmt.Sprintf(`{"order_id":%q,"amount":7,"trace":%d}`, it.order, rng.IntN(100)))}
		if in(rng, 25) {
			call.Key = fmt.Sprintf("fresh-%s-%d", name, try)
		}
		n := s.node(rng.IntN(8))
		ctx, cancel := context.WithTimeout(n.life, between(rng, 10*time.Millisecond, 40*time.Second))
		s.note("%s: calls %s with key %q", name, n.name, call.Key)
		s.ask(ctx, n, name, call)
		cancel()
		time.Sleep(between(rng, time.Millisecond, 10*time.Second))
	}
}

func (s *sim) ask(ctx context.Context, n *node, name string, call justonce.Call) *justonce.Answer {
	a, err := n.runner.Do(ctx, call)
	if n.dead.Load() {
		return nil // it told nobody
	}
	if err != nil {
		s.note("%s: %v", name, err)
		if ctx.Err() == nil && !strings.Contains(err.Error(), justonce.ErrUnavailable.Error()) {
			s.problem("%s: %v", name, err)
		}
		return nil
	}
	s.note("%s: is told %s %s, replayed %v, joined %v", name, a.Operation.Key, a.Operation.State, a.Replayed, a.Joined)
	s.mu.Lock()
	s.answers = append(s.answers, a)
	s.mu.Unlock()
	return a
}

// disturb crashes and freezes processes. A crashed one is replaced.
func (s *sim) disturb() {
	rng := s.draw.about("trouble")
	times := rng.IntN(5)
	if s.bias != noBias {
		times += 5
	}
	for range times {
		time.Sleep(between(rng, 1, 15*time.Second))
		n := s.node(rng.IntN(8))
		if in(rng, 50) {
			n.freeze(between(rng, 100*time.Millisecond, 60*time.Second))
			continue
		}
		n.crash()
		time.Sleep(between(rng, 1, 5*time.Second))
		fresh := s.boot()
		s.mu.Lock()
		for i := range s.nodes {
			if s.nodes[i] == n {
				s.nodes[i] = fresh
			}
		}
		s.mu.Unlock()
	}
}

func (s *sim) heal() {
	s.note("all heals")
	s.healed.Store(true)
	for _, n := range s.nodes {
		n.thaw()
	}
}

// quiet waits until nothing is open and whatever was late has come in.
func (s *sim) quiet(when string) {
	for range 120 {
		time.Sleep(30*time.Second + 13)
		if len(s.find(justonce.Pending, justonce.Running, justonce.Unknown)) == 0 {
			time.Sleep(2 * time.Minute) // replies may take one
			if len(s.find(justonce.Pending, justonce.Running, justonce.Unknown)) == 0 {
				return
			}
		}
	}
	for _, op := range s.find(justonce.Pending, justonce.Running, justonce.Unknown) {
		s.problem("an hour %s %s is still %s: %+v", when, op.Key, op.State, op.Status)
	}
}

func (s *sim) find(states ...justonce.State) []*justonce.Operation {
	page, err := s.ledger.List(context.Background(), justonce.Filter{Tenant: justonce.DefaultTenant, States: states, Limit: 1000})
	if err != nil {
		panic(err)
	}
	return page.Operations
}
