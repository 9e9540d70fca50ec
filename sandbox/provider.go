// Package sandbox is a small third-party provider to prove retry safety against.
//
// It takes payments, tickets, mails, posts and long-running jobs, each with a different amount of
// help against duplicates, breaks its connections on demand, and counts truthfully what it did.
// It knows nothing of the program that calls it and imports nothing of it: what it says about
// effects can be held against anybody's own records.
//
//	payment  level 1  an Idempotency-Key is honoured for a window, then forgotten
//	ticket   level 2  external_id is unique and can be fetched
//	mail     level 3  no deduplication; recent mails can be listed, perhaps with a lag
//	post     level 4  no deduplication and nothing to read back
//	job      level 3  started once per request, runs a while, can be listed by external_id
//
// A Provider is an http.Handler. Behind net/http's own server a fault really closes or resets the
// TCP connection; behind anything that cannot hijack, the handler panics with http.ErrAbortHandler.
// There is no authentication: listen on the loopback interface.
package sandbox

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Options configure a Provider. A nil pointer and the zero value mean the defaults.
type Options struct {
	// Journal is a file to which each effect is appended before it is answered, so that a
	// restarted sandbox still counts it, knows its keys and keeps its ids. It survives a killed
	// process, not a power failure (it is not fsynced). One process at a time may use it.
	// Default: none, everything is in memory.
	Journal string
	// Window is how long an Idempotency-Key is remembered, from its first use. Default 24 h.
	Window time.Duration
	// DeclineOver is the largest payment amount that is not declined. Default 1000000.
	DeclineOver int64
	// MailLag is how old a mail must be before GET /mails shows it. Default 0.
	MailLag time.Duration
	// JobDuration is how long a job runs before it is done by itself. Default 10 s; a negative
	// value means that only FinishJob ends it.
	JobDuration time.Duration
	// Seed makes ids and the probabilities of faults repeatable for requests made one after the
	// other. Default 0: a random seed, shown by GET /faults.
	Seed uint64
	// Now is the clock. It is called concurrently. Default time.Now.
	Now func() time.Time
	// After is the timer behind slow and slow_reply. It is called concurrently. Default time.After.
	After func(time.Duration) <-chan time.Time
}

// Provider is the sandbox. Its methods may be called concurrently with each other and with requests.
type Provider struct {
	opt    Options
	mux    *http.ServeMux
	tally  *tally
	faults *faultBook

	once   sync.Once
	closed chan struct{}
}

var _ http.Handler = (*Provider)(nil)

// New returns a Provider that has read its journal, if it was given one. A last line cut short by a
// killed process is dropped (it was never answered); any other damage is an error.
func New(opt *Options) (*Provider, error) {
	p := &Provider{mux: http.NewServeMux(), closed: make(chan struct{})}
	if opt != nil {
		p.opt = *opt
	}
	if p.opt.Window < 0 || p.opt.DeclineOver < 0 || p.opt.MailLag < 0 {
		return nil, fmt.Errorf("sandbox: window, decline limit and mail lag must not be negative")
	}
	if p.opt.Window == 0 {
		p.opt.Window = 24 * time.Hour
	}
	if p.opt.DeclineOver == 0 {
		p.opt.DeclineOver = 1_000_000
	}
	if p.opt.JobDuration == 0 {
		p.opt.JobDuration = 10 * time.Second
	}
	for p.opt.Seed == 0 {
		p.opt.Seed = rand.Uint64() >> 12 // exact in a JSON number
	}
	if p.opt.Now == nil {
		p.opt.Now = time.Now
	}
	if p.opt.After == nil {
		p.opt.After = time.After
	}
	rng := rand.New(rand.NewPCG(p.opt.Seed, 0x73616e64626f78))
	epoch := strconv.FormatUint(rng.Uint64()>>24, 36)
	p.faults = &faultBook{rng: rng, fired: map[Kind]int{}}
	p.tally = newTally(epoch)
	if p.opt.Journal != "" {
		if err := p.tally.open(p.opt.Journal, p.opt.Now()); err != nil {
			return nil, fmt.Errorf("sandbox: journal %s: %w", p.opt.Journal, err)
		}
	}
	p.routes()
	return p, nil
}

func (p *Provider) routes() {
	for i := range services {
		s := &services[i]
		p.mux.HandleFunc("POST /"+s.path, func(w http.ResponseWriter, r *http.Request) { p.write(w, r, s) })
		if s.name == Post {
			continue
		}
		p.mux.HandleFunc("GET /"+s.path, func(w http.ResponseWriter, r *http.Request) { p.read(w, r, s, p.list) })
		if s.name != Mail {
			p.mux.HandleFunc("GET /"+s.path+"/{id}", func(w http.ResponseWriter, r *http.Request) { p.read(w, r, s, p.get) })
		}
	}
	p.mux.HandleFunc("GET /payments/count", func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, http.StatusOK, map[string]int{"count": p.Count(Payment)})
	})
	p.mux.HandleFunc("POST /jobs/{id}/finish", p.serveFinish)
	p.mux.HandleFunc("GET /effects", p.serveEffects)
	p.mux.HandleFunc("DELETE /effects", p.serveReset)
	p.mux.HandleFunc("GET /effects/count", p.serveCount)
	p.mux.HandleFunc("GET /effects/groups", p.serveGroups)
	p.mux.HandleFunc("GET /effects/duplicates", p.serveGroups)
	p.mux.HandleFunc("GET /faults", p.serveFaults)
	p.mux.HandleFunc("POST /faults", p.serveInject)
	p.mux.HandleFunc("DELETE /faults", p.serveDisarm)
	p.mux.HandleFunc("GET /{$}", p.servePage)
	p.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		sendError(w, errorf(http.StatusNotFound, "not_found", "no_such_endpoint",
			"There is no %s %s here.", r.Method, r.URL.Path))
	})
}

// ServeHTTP answers one request; see the package comment for what the services promise.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Close ends delayed requests (those that have had no effect yet never will), refuses further
// effects and closes the journal. What was counted can still be read. Close may be called twice.
func (p *Provider) Close() error {
	var err error
	p.once.Do(func() {
		close(p.closed)
		err = p.tally.close()
	})
	return err
}
