package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		// Not 1: that says that nothing happened.
		{fmt.Errorf("%w: EOF", gateway.ErrNoAnswer), exitOpen},
		{context.DeadlineExceeded, exitOpen},
		{fmt.Errorf("%w: refused", justonce.ErrUnavailable), exitUnavailable},
		{&usageError{fmt.Errorf("x")}, exitUsage},
		{fmt.Errorf("x"), exitFailed},
	} {
		var out bytes.Buffer
		if got := newOutput(&world{stdout: &out, stderr: &out}, true).fail(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

// What a provider answers must not steer the operator's terminal.
func TestTerminal(t *testing.T) {
	t.Parallel()
	const steer = "a\x1b]0;title\x07\x1b[2J\u009b2J\u202eb\nc"
	op := &justonce.Operation{Ref: justonce.Ref{Key: "k"}, Tool: "t", Note: steer, CreatedAt: time.Unix(0, 0),
		Failure: &justonce.Failure{Code: "c", Message: steer}, Result: []byte(`"` + "\u009b2J" + `"`)}
	op.State, op.Reference = justonce.Succeeded, steer
	a := &justonce.Answer{Operation: op}
	var out bytes.Buffer
	o := newOutput(&world{stdout: &out, stderr: &out}, false)
	if err := o.answer(a); err != nil {
		t.Fatal(err)
	}
	o.timeline(a, []justonce.Entry{{Kind: justonce.EntryDecision, Actor: steer, Reference: steer,
		Evidence: map[string]string{"error": steer}}}, "")
	o.fail(fmt.Errorf("answered: %s", steer))
	if s := out.String(); bytes.ContainsAny(out.Bytes(), "\x1b\x07\u009b\u202e") || bytes.Contains(out.Bytes(), []byte("b\nc\n  ")) {
		t.Errorf("got %q", s)
	}
}

// The command that show proposes is safe to copy.
func TestProposedCommand(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"shop-1:order-123":    "justonce resolve shop-1:order-123 happened",
		"a; rm -rf ~ $(b) 'c": `justonce resolve 'a; rm -rf ~ $(b) '\''c' happened`,
	} {
		op := &justonce.Operation{Ref: justonce.Ref{Key: key}}
		op.State = justonce.Review
		var out bytes.Buffer
		newOutput(&world{stdout: &out}, false).timeline(&justonce.Answer{Operation: op}, nil, "")
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("got %s, want %s in it", &out, want)
		}
	}
}
