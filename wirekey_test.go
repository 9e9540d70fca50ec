package justonce_test

import (
	"context"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/bubble"
)

// Once a derived key stands for a new operation, the provider must not take it
// for the old one, whose key it still remembers.
func TestWireKey_NewOperation(t *testing.T) {
	for _, form := range []justonce.WireKeyForm{justonce.WireKeyHash, justonce.WireKeyRaw} {
		bubble.Test(t, func(t *testing.T) {
			p := &provider{keyed: true}
			tool := charge(p, justonce.ByKey)
			tool.Dedupe, tool.WireKey = justonce.UntilDelivered, form
			r := newRunner(t, tool)
			call := justonce.Call{Tool: "charge", Arguments: order("1", 1)}
			a := mustDo(t, r, call)
			if err := r.Delivered(t.Context(), a.Operation); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // in the bubble
			b := mustDo(t, r, call)
			if n := len(b.Operation.WireKey); n > len(b.Operation.Key) {
				t.Errorf("%s: the wire key has %d characters, more than the key", form, n)
			}
			if b.Replayed || p.count() != 2 || b.Operation.Reference == a.Operation.Reference {
				t.Errorf("%s: %d effects, want 2; the second call got %s", form, p.count(), b.Operation.Result)
			}
		})
	}
}

// A given key never stands for another operation, and its wire key is the same
// even where the ledger was lost.
func TestWireKey_Given(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		keys := map[string]bool{}
		for range 2 {
			p := &provider{}
			r := newRunner(t, charge(p, justonce.ByKey))
			keys[mustDo(t, r, justonce.Call{Tool: "charge", Key: "k", Arguments: order("1", 1)}).Operation.WireKey] = true
			time.Sleep(time.Second) // in the bubble
		}
		if len(keys) != 1 {
			t.Errorf("the wire keys %v of one given key differ", keys)
		}
	})
}

// A tool whose repetition is harmless runs every time, also where the provider
// remembers keys.
func TestWireKey_Idempotent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &provider{keyed: true}
		tool := charge(p, justonce.ByNothing)
		tool.Effect = justonce.Idempotent
		r := newRunner(t, tool)
		for range 2 {
			mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
			time.Sleep(time.Second) // in the bubble
		}
		if p.count() != 2 {
			t.Errorf("%d effects, want 2", p.count())
		}
	})
}

// vague finds what was sent but does not say what.
type vague struct{ *provider }

func (vague) Lookup(context.Context, *justonce.Attempt) justonce.Finding {
	return justonce.Finding{Kind: justonce.FindingFound}
}

// What was found is not absent, even if the connector does not say what it is.
func TestLookup_FoundWithoutMatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := vague{&provider{lose: 1}}
		r := newRunner(t, charge(p, justonce.ByReference))
		a := mustDo(t, r, justonce.Call{Tool: "charge", Arguments: order("1", 1)})
		if a.Operation.State != justonce.Review || p.count() != 1 {
			t.Errorf("%s with %d effects, want review with 1", a.Operation.State, p.count())
		}
	})
}
