package redis

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// The server serves nobody else while a script runs, and a long one keeps
// everybody waiting.
const (
	maxGroup = 128     // writes of one script
	maxBytes = 1 << 20 // of their arguments, about
)

const (
	// maxUnderway is how many groups of a kind are under way at once.
	maxUnderway = 2
	// together is how many make it worth while to go beside another group. Fewer
	// wait for its end, and go with those who come meanwhile.
	together = 64
)

// A gatherer lets the writes of many callers share a script, a round trip and a
// flush of the server's file. Whoever finds nobody under way goes at once.
type gatherer struct {
	store  *Store
	script *script

	mu       sync.Mutex
	waiting  []*gathered
	underway int
}

// A gathered is one write in a group.
type gathered struct {
	args   []string
	until  time.Time     // when its time is up
	done   chan struct{} // closed when it is answered
	answer rueidis.RedisMessage
	err    error
}

// errTurn is certain: nothing of the write was sent.
var errTurn = errors.New("the server is too slow: there was too little time left for this write, and it was not sent")

// do returns what the script answers to one write until a time, or an error that
// leaves open whether it was done.
func (g *gatherer) do(args []string, until time.Time) (rueidis.RedisMessage, error) {
	w := &gathered{args: args, until: until, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	goes := g.ready()
	if goes {
		g.underway++
	}
	g.mu.Unlock()
	if goes {
		g.send()
	}
	<-w.done
	return w.answer, w.err
}

// ready reports whether those who wait should go.
func (g *gatherer) ready() bool {
	return g.underway == 0 || g.underway < maxUnderway && len(g.waiting) >= together
}

// send sends a group, and lets the next one go.
func (g *gatherer) send() {
	if group := g.take(); len(group) > 0 {
		answers, err := g.ask(group)
		for i, w := range group {
			if w.err = err; err == nil {
				w.answer, w.err = answers[i], answers[i].Error()
			}
			close(w.done)
		}
	}
	g.mu.Lock()
	g.underway--
	goes := len(g.waiting) > 0 && g.ready()
	if goes {
		g.underway++
	}
	g.mu.Unlock()
	if goes {
		go g.send()
	}
}

// take returns those who go together. Whoever has waited so long that there may
// be no time left for the answer is refused.
func (g *gatherer) take() (group []*gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := time.Now().Add(g.store.o.Timeout / 2)
	n, size := 0, 0
	for _, w := range g.waiting {
		if len(group) == maxGroup || size > maxBytes {
			break
		}
		n++
		if w.until.Before(late) {
			w.err = errTurn
			close(w.done)
			continue
		}
		for _, arg := range w.args {
			size += len(arg)
		}
		group = append(group, w)
	}
	rest := copy(g.waiting, g.waiting[n:])
	clear(g.waiting[rest:])
	g.waiting = g.waiting[:rest]
	return group
}

// ask sends a group, and returns an answer for each. All wait as long as the one
// that has the least time left.
func (g *gatherer) ask(group []*gathered) ([]rueidis.RedisMessage, error) {
	now, err := g.store.timeArg()
	if err != nil {
		return nil, err
	}
	args := make([]string, 0, 2+len(group)*len(group[0].args))
	args = append(args, now, strconv.Itoa(len(group)))
	until := group[0].until
	for _, w := range group {
		args = append(args, w.args...)
		if w.until.Before(until) {
			until = w.until
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	m, err := g.store.writeWithin(ctx, g.script, args)
	if err != nil {
		return nil, err
	}
	return answersOf(m, len(group))
}
