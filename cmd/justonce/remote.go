package main

import (
	"context"
	"errors"
	"net"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
)

const defaultURL = "http://127.0.0.1:7411"

// remote are the flags of commands that talk to a gateway.
type remote struct {
	URL string `name:"url" help:"The gateway." default:"${default_url}" env:"JUSTONCE_URL"`
}

// ledger are the flags of commands that read and decide, which works with the
// ledger itself, too: they need to know nothing about tools.
type ledger struct {
	remote
	Store string `help:"Open this ledger directly instead: ${ledger_names}." env:"JUSTONCE_LEDGER,JUSTONCE_STORE" placeholder:"STORE"`
}

// flags returns how to say once more where l looks, as far as that is no secret.
func (l *ledger) flags() string {
	switch {
	case l.Store == "" && l.URL != defaultURL:
		return " --url " + shellWord(l.URL)
	case l.Store == "":
		return ""
	case shownStore(l.Store) != l.Store:
		return " --store …"
	}
	return " --store " + shellWord(l.Store)
}

// open returns the service and what to call when done with it.
func (l *ledger) open(ctx context.Context, to access) (justonce.Service, func(), error) {
	if l.Store == "" {
		svc, err := l.remote.open()
		return svc, func() {}, err
	}
	name, err := namedStore(ctx, l.Store)
	if err != nil {
		return nil, nil, err
	}
	st, err := openExistingStore(ctx, name, to)
	if err != nil {
		return nil, nil, err
	}
	run, err := justonce.New(st, nil)
	if err != nil {
		st.Close()
		return nil, nil, err
	}
	return run, func() {
		run.Shutdown(ctx) // nothing is under way; it may still listen
		st.Close()
	}, nil
}

func (r *remote) open() (*reaching, error) {
	c, err := gateway.NewClient(r.URL, nil)
	if err != nil {
		return nil, hint(&usageError{err}, "--url wants an address such as %s", defaultURL)
	}
	return &reaching{Service: c, client: c, url: r.URL}, nil
}

// reaching adds a hint where nobody listens.
type reaching struct {
	justonce.Service
	client *gateway.Client
	url    string
}

func (r *reaching) hint(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return hint(err, "nobody listens at %s: start 'justonce serve', or name the gateway with --url or JUSTONCE_URL; calls of 'justonce mcp' are in a file: --store \"$(justonce mcp --where)\"", r.url)
	}
	return err
}

func (r *reaching) Do(ctx context.Context, c justonce.Call) (*justonce.Answer, error) {
	a, err := r.Service.Do(ctx, c)
	return a, r.hint(err)
}

func (r *reaching) Wait(ctx context.Context, ref justonce.Ref) (*justonce.Answer, error) {
	a, err := r.Service.Wait(ctx, ref)
	return a, r.hint(err)
}

func (r *reaching) Get(ctx context.Context, ref justonce.Ref) (*justonce.Answer, error) {
	a, err := r.Service.Get(ctx, ref)
	return a, r.hint(err)
}

func (r *reaching) List(ctx context.Context, f justonce.Filter) (*justonce.Page, error) {
	p, err := r.Service.List(ctx, f)
	return p, r.hint(err)
}

func (r *reaching) Decide(ctx context.Context, ref justonce.Ref, d justonce.Decision) (*justonce.Answer, error) {
	a, err := r.Service.Decide(ctx, ref, d)
	return a, r.hint(err)
}

func (r *reaching) Explain(ctx context.Context, c justonce.Call) (*justonce.Explanation, error) {
	x, err := r.client.Explain(ctx, c)
	return x, r.hint(err)
}
