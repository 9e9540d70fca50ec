package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// What every call carries, and what its effect answers.
var arguments = json.RawMessage(`{"order_id":"ord-0001234","amount":9900,"currency":"EUR","customer":"c-1001"}`)

func resultOf(key string) json.RawMessage {
	return fmt.Appendf(nil, `{"id":"ch_%s","status":"succeeded","amount":9900}`, key)
}

// A contestant is a way to run an effect once for a key, with how it is set up.
type contestant struct {
	name      string
	setup     string   // versions apart, what differs from its defaults
	servers   []string // what it needs, in the order of their start
	processes int      // that share the callers; 0 is 1
	replays   bool     // measured for its replays alone
	aside     string   // why it is measured only where it is named, and never published
	// open connects to what place names, creates what it needs there, and
	// returns what makes calls.
	open func(context.Context, *place) (caller, error)
}

// A caller makes calls. It is safe for concurrent use.
type caller interface {
	// Call runs the place's effect for key unless that was done before, and
	// returns its result, which is durable then. A duplicate waits for the
	// first call's end.
	Call(ctx context.Context, key string) (json.RawMessage, error)
	Close() error
}

// A replayer is a caller that is told that the key's call has ended. Only
// floors are: nobody tells the others.
type replayer interface {
	Replay(ctx context.Context, key string) (json.RawMessage, error)
}

// A place is where a contestant finds what it needs.
type place struct {
	Dir      string // of its own, on the disk that all use
	Postgres string // a database of its own
	Redis    string
	Restate  struct{ Ingress, Admin string }
	Temporal string

	effects atomic.Int64
}

// effect is what shall happen once for a key. It does nothing but count.
func (p *place) effect(key string) json.RawMessage {
	p.effects.Add(1)
	return resultOf(key)
}

// named tells of a contestant whether its name begins with one of the prefixes.
func named(prefixes ...string) func(contestant) bool {
	return func(c contestant) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c.name, p) })
	}
}

// contestants are all there are, in the order of the tables.
func contestants() []contestant {
	var all []contestant
	for _, some := range [][]contestant{pgxContestants, justonceContestants, redisContestants, dbosContestants, riverContestants, restateContestants, temporalContestants} {
		all = append(all, some...)
	}
	return all
}
