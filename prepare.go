package justonce

import (
	"context"
	"fmt"
)

// Prepare returns the operation that a call would record, pending, with its keys,
// fingerprint and wire key, and records nothing: for stores that take operations
// in the caller's own transaction. A retry of the call gives the same Ref and
// Fingerprint. ErrUnknownTool, or ErrInvalid, also for tools that are not
// recorded. The operation is the caller's.
//
// DedupeUntil of a derived key counts from now. It matters where the store itself
// ends the operation; a Runner sets it anew at the end.
func (r *Runner) Prepare(ctx context.Context, c Call) (*Operation, error) {
	t := r.tool(c.Tool)
	if t == nil {
		return nil, unknownTool(c.Tool)
	}
	if !t.recorded() {
		return nil, &InvalidError{Field: "tool", Detail: fmt.Sprintf("calls of %s are not recorded, since its effect is %s; use Do", t.Name, t.Effect)}
	}
	if len(c.Arguments) == 0 {
		c.Arguments = emptyArguments
	}
	in, err := t.identify(ctx, &c)
	if err != nil {
		return nil, err
	}
	if err := t.validate(&c); err != nil {
		return nil, err
	}
	op := r.newOperation(t, &c, in, false)
	if op.KeySource.derived() {
		op.DedupeUntil = op.CreatedAt.Add(t.DedupeFor)
	}
	return op, nil
}
