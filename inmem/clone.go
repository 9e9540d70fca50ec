package inmem

import (
	"bytes"
	"maps"

	"github.com/justonce-dev/justonce"
)

// cloneOperation returns a copy that shares nothing with op.
func cloneOperation(op *justonce.Operation) *justonce.Operation {
	c := *op
	c.Arguments = bytes.Clone(op.Arguments)
	c.Result = bytes.Clone(op.Result)
	c.Failure = cloneFailure(op.Failure)
	return &c
}

// cloneEntries returns copies that share nothing with entries.
func cloneEntries(entries []justonce.Entry) []justonce.Entry {
	c := make([]justonce.Entry, len(entries))
	for i, e := range entries {
		e.Failure = cloneFailure(e.Failure)
		e.Evidence = maps.Clone(e.Evidence)
		e.Body = bytes.Clone(e.Body)
		c[i] = e
	}
	return c
}

func cloneFailure(f *justonce.Failure) *justonce.Failure {
	if f == nil {
		return nil
	}
	c := *f
	return &c
}

// withResult is what Begin and Get return.
func (r *row) withResult() *justonce.Operation {
	c := cloneOperation(r.op)
	c.Arguments = nil
	return c
}

// bare is what List returns.
func (r *row) bare() *justonce.Operation {
	c := r.withResult()
	c.Result = nil
	return c
}
