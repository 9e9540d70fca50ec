package redis_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/redis"
)

func due(limit int) justonce.Due { return justonce.Due{Limit: limit} }

// freeCandidates ends all reservations of claims as time would.
func freeCandidates(t *testing.T, s *redis.Store) {
	t.Helper()
	do(t, server(t), "DEL", "{"+s.Prefix()+"}:taken")
}

// What one claim has in hand another passes over, by any way it comes.
func TestClaimsPassOver(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	other := open(t, server(t).URL(), &redis.Options{Prefix: s.Prefix()})
	one, two := begin(t, s, "k1"), begin(t, s, "k2")
	claimed, err := s.Claim(t.Context(), due(1), func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		if ops, err := other.Claim(t.Context(), justonce.Due{Ref: &one.Ref, Limit: 1}, take); err != nil || len(ops) != 0 {
			t.Errorf("Claim of what another has in hand: %d, %v", len(ops), err)
		}
		if ops, err := other.Claim(t.Context(), due(5), take); err != nil || len(ops) != 1 || ops[0].Key != two.Key {
			t.Errorf("Claim beside another: %+v, %v, want the next", ops, err)
		}
		return take(op, now)
	})
	if err != nil || len(claimed) != 1 || claimed[0].Key != one.Key {
		t.Errorf("Claim: %+v, %v", claimed, err)
	}
	wantIntegrity(t, s)
}

// A claim that was slower than its reservation has lost: the versions decide.
func TestClaimLosesToAnother(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	other := open(t, server(t).URL(), &redis.Options{Prefix: s.Prefix()})
	begin(t, s, "k1")
	begin(t, s, "k2")
	first := true
	claimed, err := s.Claim(t.Context(), due(2), func(op *justonce.Operation, now time.Time) ([]justonce.Entry, bool) {
		if first {
			first = false
			freeCandidates(t, s)
			if ops, err := other.Claim(t.Context(), due(1), take); err != nil || len(ops) != 1 || ops[0].Key != "k1" {
				t.Errorf("Claim after the reservation: %+v, %v", ops, err)
			}
		}
		return take(op, now)
	})
	if err != nil || len(claimed) != 1 || claimed[0].Key != "k2" {
		t.Errorf("Claim: %+v, %v, want the one that is left", claimed, err)
	}
	for _, key := range []string{"k1", "k2"} {
		if op, err := s.Get(t.Context(), justonce.Ref{Key: key}); err != nil || op.Version != 2 || op.Fence != 2 {
			t.Errorf("%s: %+v, %v, want one claim", key, op, err)
		}
	}
	wantIntegrity(t, s)
}

// A reservation ends with the claim, also of what it refuses.
func TestReservationEnds(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	begin(t, s, "k")
	for range 3 {
		calls := 0
		ops, err := s.Claim(t.Context(), due(1), func(*justonce.Operation, time.Time) ([]justonce.Entry, bool) { calls++; return nil, false })
		if err != nil || len(ops) != 0 || calls != 1 {
			t.Errorf("Claim: %d, %v after %d calls of advance", len(ops), err, calls)
		}
	}
	if n := do(t, server(t), "EXISTS", "{"+s.Prefix()+"}:taken"); n != "0" {
		t.Error("a reservation is left")
	}
}

// A reservation that was left behind ends by itself.
func TestReservationRunsOut(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	begin(t, s, "k")
	errCrash := errors.New("crash")
	func() {
		defer func() {
			if r := recover(); r != errCrash {
				t.Errorf("recovered %v", r)
			}
		}()
		s.Claim(t.Context(), due(1), func(*justonce.Operation, time.Time) ([]justonce.Entry, bool) { panic(errCrash) })
	}()
	if ops, err := s.Claim(t.Context(), due(1), take); err != nil || len(ops) != 0 {
		t.Errorf("Claim at once: %d, %v", len(ops), err)
	}
	await(t, func() bool {
		ops, err := s.Claim(t.Context(), due(1), take)
		if err != nil {
			t.Fatal(err)
		}
		return len(ops) == 1
	})
}

// Many that are due and not to be had do not hide those behind them.
func TestClaimLooksBehindMany(t *testing.T) {
	t.Parallel()
	s := openNew(t, redis.Options{})
	long := s.Now().Add(-time.Hour)
	fill(5000, func(n int64) {
		op := pendingOp(fmt.Sprint("k", n), long)
		if op.LeaseUntil = s.Now().Add(time.Hour); n%2 == 0 {
			op.Tool, op.LeaseUntil = "mail", time.Time{}
		}
		if _, err := s.Begin(t.Context(), op, arrived(op)); err != nil {
			t.Error(err)
		}
	})
	begin(t, s, "last")
	ops, err := s.Claim(t.Context(), justonce.Due{Tools: []string{"charge"}, Limit: 3}, take)
	if err != nil || len(ops) != 1 || ops[0].Key != "last" {
		t.Errorf("Claim: %d, %v", len(ops), err)
	}
	if ops, err = s.Claim(t.Context(), due(3000), take); err != nil || len(ops) != 2500 {
		t.Errorf("Claim of all: %d, %v, want 2500", len(ops), err)
	}
	wantIntegrity(t, s)
}
