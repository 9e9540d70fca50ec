package httpconn

import (
	"context"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/httpask"
)

// A finder is a connector whose provider can be asked.
type finder struct {
	*connector
	lookup *httpask.Finder
}

// Lookup implements [justonce.Finder].
func (f *finder) Lookup(ctx context.Context, a *justonce.Attempt) justonce.Finding {
	ctx, cancel := f.bound(ctx)
	defer cancel()
	found := f.lookup.Find(ctx, f.client, f.options.Secrets, operation(a), f.config.EvidenceHeaders)
	out := justonce.Finding{Kind: kinds[found.Kind], Result: found.Result, Reference: found.Reference,
		RetryAfter: found.RetryAfter, Evidence: found.Evidence}
	for _, m := range found.Matches {
		out.Matches = append(out.Matches, justonce.Found{Reference: m.Reference, Result: m.Result})
	}
	if found.Kind == httpask.Failed {
		out.Failure = &justonce.Failure{Code: found.Code, Message: found.Message}
	}
	return out
}

var kinds = map[httpask.Kind]justonce.FindingKind{
	httpask.NoAnswer: justonce.FindingNoAnswer, httpask.Found: justonce.FindingFound, httpask.Absent: justonce.FindingAbsent,
	httpask.Failed: justonce.FindingFailed, httpask.Progress: justonce.FindingProgress,
}
