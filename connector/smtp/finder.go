package smtpconn

import (
	"context"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/httpask"
)

// A finder is a connector whose provider can be asked.
type finder struct {
	*connector
	lookup *httpask.Finder
	client *httpask.Client
}

// Lookup implements [justonce.Finder].
func (f *finder) Lookup(ctx context.Context, a *justonce.Attempt) justonce.Finding {
	ctx, cancel := f.bound(ctx)
	defer cancel()
	found := f.lookup.Find(ctx, f.client, f.options.Secrets, f.operation(a), nil)
	out := justonce.Finding{Kind: kinds[found.Kind], Result: found.Result, Reference: found.Reference,
		RetryAfter: found.RetryAfter, Evidence: found.Evidence}
	for _, m := range found.Matches {
		if m.Reference == "" {
			m.Reference = f.messageID(a.WireKey)
		}
		out.Matches = append(out.Matches, justonce.Found{Reference: m.Reference, Result: m.Result})
	}
	if found.Kind == httpask.Failed {
		out.Failure = &justonce.Failure{Code: found.Code, Message: found.Message}
	}
	return out
}

// Close closes idle connections.
func (f *finder) Close() error {
	f.client.Close()
	return nil
}

var kinds = map[httpask.Kind]justonce.FindingKind{
	httpask.NoAnswer: justonce.FindingNoAnswer, httpask.Found: justonce.FindingFound, httpask.Absent: justonce.FindingAbsent,
	httpask.Failed: justonce.FindingFailed, httpask.Progress: justonce.FindingProgress,
}
