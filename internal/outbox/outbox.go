// Package outbox is what the stores that record within an application's own
// transaction have in common. Like the package entries it knows the domain.
package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/canon"
)

// Enqueue fills in what op, which must be pending, leaves to its default.
func Enqueue(op *justonce.Operation, now time.Time) error {
	if op.State != justonce.Pending {
		return &justonce.InvalidError{Field: "state", Detail: fmt.Sprintf("must be %s to be enqueued, not %q", justonce.Pending, op.State)}
	}
	date(op, now)
	if op.Due.IsZero() {
		op.Due = op.CreatedAt
	}
	return nil
}

// Start makes op one whose effect runs within the transaction. It needs no lease:
// nobody sees it before its end.
func Start(op *justonce.Operation, now time.Time) {
	date(op, now)
	op.Status = justonce.Status{State: justonce.Running, Fence: 1, Attempts: 1, FirstSent: op.CreatedAt}
}

func date(op *justonce.Operation, now time.Time) {
	if op.CreatedAt.IsZero() {
		op.CreatedAt = now
	}
	if op.UpdatedAt.IsZero() {
		op.UpdatedAt = op.CreatedAt
	}
}

// Arrived is the entry of op's arrival.
func Arrived(op *justonce.Operation) justonce.Entry {
	return justonce.Entry{Kind: justonce.EntryArrived, At: op.CreatedAt, State: op.State, Fence: op.Fence, Body: op.Arguments}
}

// Finish makes op, which Start began, one that has succeeded, and returns the
// entry that says so; its Body is the result. No result is null.
func Finish(op *justonce.Operation, result json.RawMessage, now time.Time) (justonce.Entry, error) {
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	if !json.Valid(result) {
		return justonce.Entry{}, &justonce.InvalidError{Field: "result", Detail: "must be JSON"}
	}
	digest := sha256.Sum256(result)
	op.Status = justonce.Status{State: justonce.Succeeded, Fence: 1, Attempts: 1, FirstSent: op.FirstSent, Digest: hex.EncodeToString(digest[:])}
	op.UpdatedAt = now
	return justonce.Entry{
		Kind: justonce.EntryAttempt, At: now, Started: op.FirstSent, Fence: 1, State: op.State,
		Outcome: justonce.EventSucceeded, Body: result, IsResult: true,
	}, nil
}

// Conflict returns a [justonce.ConflictError] if op is not what it has met, whose
// history recorded reads. Here nobody knows the tool's rules: Paths may name
// arguments that they ignore, too.
func Conflict(met *justonce.Arrival, op *justonce.Operation, recorded func() ([]justonce.Entry, error)) error {
	if met.Operation.Fingerprint == op.Fingerprint {
		return nil
	}
	e := &justonce.ConflictError{Operation: met.Operation, MatchedBy: met.MatchedBy}
	if met.Operation.Tool != op.Tool {
		e.Differs = append(e.Differs, "tool")
	} else {
		history, err := recorded()
		if err != nil && !errors.Is(err, justonce.ErrNotFound) {
			return err
		}
		e.Paths = differing(history, op)
	}
	if met.Operation.Scope != op.Scope {
		e.Differs = append(e.Differs, "scope")
	}
	if e.Differs == nil && e.Paths == nil {
		e.Differs = []string{"arguments"}
	}
	return e
}

// differing returns where op's arguments differ from those that arrived first;
// nil if these are no longer kept.
func differing(history []justonce.Entry, op *justonce.Operation) []string {
	i := slices.IndexFunc(history, func(e justonce.Entry) bool { return e.Kind == justonce.EntryArrived })
	if i < 0 || len(history[i].Body) == 0 {
		return nil
	}
	paths, err := canon.Diff(history[i].Body, op.Arguments, nil)
	if err != nil { // what op says is no JSON
		return nil
	}
	return paths
}
