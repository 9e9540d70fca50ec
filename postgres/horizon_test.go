package postgres_test

import (
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/postgres"
)

// What nobody here takes up does not hold the horizon of others back, and is
// there for whoever asks for it.
func TestHorizonOfTools(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	retired := pendingOp("retired", s.Now().Add(-time.Hour))
	retired.Tool = "retired"
	if _, err := s.Begin(t.Context(), retired, arrived(retired)); err != nil {
		t.Fatal(err)
	}
	s = open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	claim := func(want int, tools ...string) {
		t.Helper()
		if ops, err := s.Claim(t.Context(), justonce.Due{Tools: tools, Limit: 10}, take); err != nil || len(ops) != want {
			t.Errorf("Claim for %v: %+v, %v, want %d", tools, ops, err, want)
		}
	}
	claim(0, "charge")
	if h := s.HorizonNow(); h.Before(s.Now().Add(-time.Minute)) {
		t.Errorf("the horizon is %v, want it about now", h)
	}
	claim(1, "charge", "retired")
}

// What another process committed late is found without a look from the
// beginning.
func TestDueLate(t *testing.T) {
	t.Parallel()
	s := openNew(t, postgres.Options{})
	other := open(t, server(t).URL("postgres"), &postgres.Options{Schema: s.Schema()})
	s.Horizon(true)
	late := pendingOp("late", s.Now().Add(-30*time.Second))
	if _, err := other.Begin(t.Context(), late, arrived(late)); err != nil {
		t.Fatal(err)
	}
	s.LateLook()
	if ops, err := s.Claim(t.Context(), justonce.Due{Limit: 10}, take); err != nil || len(ops) != 1 {
		t.Errorf("Claim: %+v, %v, want what was committed late", ops, err)
	}
}
