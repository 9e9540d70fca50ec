// Package connectortest is the specification of a [justonce.Connector]: it runs
// one against a provider whose effects are counted, behind a proxy that breaks
// the connection at one byte after the other, and holds each outcome against
// the count.
//
// An outcome may always be unknown. What it must never be is wrong: not
// executed or rejected where the effect happened, succeeded where it did not.
package connectortest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
)

// A Provider is what a connector talks to: a server on a loopback socket that
// counts effects. [Serve] makes one.
type Provider interface {
	Addr() string
	// Effects waits until every connection made so far has ended, and returns
	// how many effects there have been.
	Effects() int
}

// A Suite says what to test.
type Suite struct {
	// Accepting starts a provider that carries out every request that reaches
	// it whole.
	Accepting func(t testing.TB) Provider
	// Refusing starts one that refuses every request for good. Nil skips.
	Refusing func(t testing.TB) Provider
	// Connector returns a connector to the provider at addr.
	Connector func(t testing.TB, addr string) justonce.Connector
	// Arguments of each attempt. Nil: {}.
	Arguments json.RawMessage
	// Secrets must appear in no outcome.
	Secrets []string
	// MaxCuts bounds how many positions are tried for each direction and kind of
	// break; they are spread evenly. Zero: every byte.
	MaxCuts int
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Run("whole", s.whole)
	t.Run("nobody listens", s.nobodyListens)
	t.Run("context is done", s.contextDone)
	t.Run("cut", func(t *testing.T) { s.cuts(t, s.Accepting) })
	t.Run("silence", s.silence)
	t.Run("many at once", s.many)
	if s.Refusing != nil {
		t.Run("refused", s.refused)
		t.Run("refusal cut", func(t *testing.T) { s.cuts(t, s.Refusing) })
	}
}

var serial atomic.Int64

// attempt returns a fresh attempt of a new operation.
func (s *Suite) attempt() *justonce.Attempt {
	n := serial.Add(1)
	args := s.Arguments
	if args == nil {
		args = json.RawMessage("{}")
	}
	return &justonce.Attempt{
		Ref: justonce.Ref{Tenant: justonce.DefaultTenant, Key: fmt.Sprintf("op-%d", n)}, Tool: "test", Arguments: args,
		WireKey: fmt.Sprintf("%032x", n), Number: 1, ID: fmt.Sprintf("at-%d", n),
		FirstSent: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// judge holds an outcome against the effects of its send.
func (s *Suite) judge(t testing.TB, where string, o justonce.Outcome, effects int) {
	t.Helper()
	happened := effects > 0
	switch o.Kind {
	case justonce.OutcomeSucceeded, justonce.OutcomeAccepted:
		if !happened {
			t.Errorf("%s: outcome %s, but nothing happened (%v)", where, o.Kind, o.Evidence)
		}
	case justonce.OutcomeRejected, justonce.OutcomeNotExecuted:
		if happened {
			t.Errorf("%s: outcome %s, but it happened (%v)", where, o.Kind, o.Evidence)
		}
	}
	if effects > 1 {
		t.Errorf("%s: one send had %d effects", where, effects)
	}
	b, err := json.Marshal(o)
	if err != nil {
		t.Errorf("%s: the outcome has no JSON: %v", where, err)
	}
	for _, secret := range s.Secrets {
		if strings.Contains(string(b), secret) {
			t.Errorf("%s: a secret is in the outcome: %s", where, b)
		}
	}
}
