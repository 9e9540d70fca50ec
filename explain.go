package justonce

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// An Explanation tells which operation a call means, and why.
type Explanation struct {
	Tool        string          `json:"tool"`
	Key         string          `json:"key"`
	KeySource   KeySource       `json:"key_source"`
	Parts       []KeyPart       `json:"parts"`             // what the key was made of
	Ignored     []string        `json:"ignored,omitempty"` // arguments that count for nothing
	Canonical   json.RawMessage `json:"canonical"`         // the arguments that count, in canonical form
	Fingerprint string          `json:"fingerprint"`

	// The operation that the call would meet; Meets is its key, "" where the
	// call would be new.
	Meets     string    `json:"meets,omitempty"`
	MatchedBy Match     `json:"matched_by,omitempty"`
	State     State     `json:"state,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	// Conflict: the call would be refused, since these paths and names differ.
	Conflict bool     `json:"conflict,omitempty"`
	Paths    []string `json:"paths,omitempty"`
	Differs  []string `json:"differs,omitempty"`
}

// A KeyPart is one of the things that a key was made of.
type KeyPart struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Explain works out which operation a call means and whether one is there,
// without running or recording anything. ErrUnknownTool, ErrInvalid.
func (r *Runner) Explain(ctx context.Context, c Call) (*Explanation, error) {
	t := r.tool(c.Tool)
	if t == nil {
		return nil, unknownTool(c.Tool)
	}
	if len(c.Arguments) == 0 {
		c.Arguments = emptyArguments
	}
	in, err := t.identify(ctx, &c)
	if err != nil {
		return nil, err
	}
	x := &Explanation{Tool: t.Name, Key: in.Key, KeySource: in.KeySource, Parts: in.parts(t.Tool),
		Ignored: t.Ignore, Canonical: in.Canonical, Fingerprint: in.Fingerprint}
	op, by, err := r.find(ctx, in)
	if op == nil || err != nil {
		return x, err
	}
	x.Meets, x.MatchedBy, x.State, x.Since = op.Key, by, op.State, op.CreatedAt
	if op.Fingerprint != in.Fingerprint {
		e := (*ConflictError)(nil)
		switch err := r.conflict(ctx, t, &c, in, op, by); {
		case errors.As(err, &e):
			x.Conflict, x.Paths, x.Differs = true, e.Paths, e.Differs
		case err != nil:
			return nil, err
		}
	}
	return x, nil
}

// find returns the operation that in would meet now, or nil.
func (r *Runner) find(ctx context.Context, in *Intent) (*Operation, Match, error) {
	over := func(op *Operation) bool { return op.outlived(r.store.Now()) }
	switch op, err := r.store.Get(ctx, in.Ref); {
	case err == nil && !over(op):
		return op, MatchKey, nil
	case err != nil && !errors.Is(err, ErrNotFound):
		return nil, "", err
	}
	if in.Identity == "" {
		return nil, "", nil
	}
	page, err := r.store.List(ctx, Filter{Tenant: in.Tenant, Identity: in.Identity, Limit: 1})
	if err != nil || len(page.Operations) == 0 || over(page.Operations[0]) {
		return nil, "", err
	}
	return page.Operations[0], MatchIdentity, nil
}

func (in *Intent) parts(t *Tool) []KeyPart {
	if in.KeySource == KeyGiven || in.KeySource == KeyInherited {
		return []KeyPart{{"key", in.Key}}
	}
	parts := []KeyPart{{"tenant", in.Tenant}, {"scope", in.Scope}, {"tool", t.Name}, {"intent_seq", strconv.Itoa(in.IntentSeq)}}
	if in.KeySource == KeyContent {
		return append(parts, KeyPart{"run_id", in.RunID}, KeyPart{"arguments", string(in.Canonical)})
	}
	for i, v := range in.IdentityValues {
		parts = append(parts, KeyPart{t.Identity[i], string(v)})
	}
	return parts
}
