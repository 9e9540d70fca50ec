package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/internal/canon"
)

// Options configure a [Server]. The zero value of each field is its documented
// default.
type Options struct {
	// Tenant is whose calls these are. Defaults to justonce.DefaultTenant.
	Tenant string

	// DefaultWait is how long a call that says nothing waits for its end.
	// Defaults to 10s; negative: not at all. In whole seconds.
	DefaultWait time.Duration
	// MaxWait bounds what a call may ask for; more is taken for this. Defaults
	// to 60s.
	MaxWait time.Duration
	// MaxBody bounds the body of a request, in bytes. Defaults to 1 MiB, the
	// bound of arguments, and 64 KiB.
	MaxBody int64

	// Hosts are names, without port, that the Host header may have beside
	// loopback addresses and localhost. "*": any.
	Hosts []string
	// Origins are the origins, such as https://console.example, whose pages may
	// send requests beside those of the server's own.
	Origins []string

	// Handle serves further paths beside the gateway's own, by pattern of
	// [http.ServeMux]. Checking Host and Origin, and bounding bodies and times, is
	// up to these handlers. Their requests' contexts end when Serve is told to stop.
	Handle map[string]http.Handler
	// ConnContext and ConnState are hooks of the [http.Server] that Serve runs.
	ConnContext func(ctx context.Context, c net.Conn) context.Context
	ConnState   func(net.Conn, http.ConnState)

	// Grace is how long Serve lets requests finish once ctx has ended.
	// Defaults to 30s.
	Grace time.Duration

	Metrics *Metrics     // defaults to a new one
	Logger  *slog.Logger // defaults to discarding
	Version string       // of the program, for /openapi.json; defaults to "0"
}

// A Server serves a Service over HTTP. It is safe for concurrent use. Run it
// with [Server.Serve]; in an [http.Server] of the caller's own, ending the
// BaseContext is what ends the waiting of calls.
//
// Where the service has the methods of Runner beyond [justonce.Service], they
// are served, too: Explain, Report, and Stats for readiness and metrics.
type Server struct {
	svc     justonce.Service
	o       Options
	log     *slog.Logger
	metrics *Metrics
	mux     *http.ServeMux
	others  *http.ServeMux // of Options.Handle; nil: none
	hosts   map[string]bool
	origins map[string]bool
	strict  *canon.Options // of bodies
	openAPI func() ([]byte, error)

	stopping atomic.Bool // Serve was told to stop
}

// Beyond justonce.Service; found by assertion.
type (
	explainer interface {
		Explain(ctx context.Context, c justonce.Call) (*justonce.Explanation, error)
	}
	reporter interface {
		Report(ctx context.Context, o *justonce.ReportOptions) (*justonce.Report, error)
	}
	stater interface {
		Stats(ctx context.Context) (*justonce.Stats, error)
	}
)

// NewServer returns a Server in front of svc, which stays the caller's.
func NewServer(svc justonce.Service, o *Options) *Server {
	s := &Server{svc: svc, mux: http.NewServeMux(), hosts: map[string]bool{}, origins: map[string]bool{}}
	if o != nil {
		s.o = *o
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&s.o.DefaultWait, 10*time.Second)
	def(&s.o.MaxWait, time.Minute)
	def(&s.o.Grace, 30*time.Second)
	s.o.DefaultWait = min(max(s.o.DefaultWait, 0), s.o.MaxWait).Truncate(time.Second)
	if s.o.MaxBody == 0 {
		s.o.MaxBody = 1<<20 + 64<<10
	}
	if s.o.Tenant == "" {
		s.o.Tenant = justonce.DefaultTenant
	}
	if s.o.Version == "" {
		s.o.Version = "0"
	}
	if s.log = s.o.Logger; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.metrics = s.o.Metrics; s.metrics == nil {
		s.metrics = NewMetrics()
	}
	if st, ok := svc.(stater); ok {
		s.metrics.watch(st)
	}
	for _, h := range s.o.Hosts {
		s.hosts[h] = true
	}
	for _, origin := range s.o.Origins {
		s.origins[origin] = true
	}
	s.strict = &canon.Options{MaxBytes: int(s.o.MaxBody), MaxDepth: maxDepth}
	s.openAPI = sync.OnceValues(s.document)
	s.route()
	if len(s.o.Handle) > 0 {
		s.others = http.NewServeMux()
		for pattern, h := range s.o.Handle {
			s.others.Handle(pattern, h)
		}
	}
	return s
}

// Observer returns what feeds the server's metrics. A Runner wants it before
// there is a Server: then make the [Metrics] first and give them to both.
func (s *Server) Observer() justonce.Observer { return s.metrics.Observer() }

// Headers that every answer carries. The slices are shared and never changed.
var (
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
	noContent   = []string{"default-src 'none'; frame-ancestors 'none'"}
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	isTrue      = []string{"true"}
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	if s.others != nil {
		if _, pattern := s.others.Handler(r); pattern != "" {
			http.NewResponseController(w).SetWriteDeadline(time.Time{}) // an error means that there is none
			s.others.ServeHTTP(w, r)
			return
		}
	}
	limitBody(w, r)
	h := w.Header()
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Content-Security-Policy"] = noContent
	if p := s.guard(r); p != nil {
		s.problem(w, p)
		return
	}
	if !clean(r.URL.EscapedPath()) { // the mux would redirect, to another operation perhaps
		s.problem(w, problemOf(slugPath, "the path has an empty or a dot segment"))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// clean reports whether p has neither empty nor dot segments.
func clean(p string) bool {
	c := path.Clean("/" + p)
	return c == p || c != "/" && c+"/" == p
}

// recover answers a request whose handler panicked. What a panic says may hold
// a caller's data, so only the runtime's own words are logged.
func (s *Server) recover(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	what := fmt.Sprintf("%T", v)
	if e, ok := v.(runtime.Error); ok {
		what = e.Error()
	}
	s.log.Error("a handler panicked", "method", r.Method, "route", r.Pattern, "panic", what, "stack", string(debug.Stack()))
	s.problem(w, problemOf(slugInternal, ""))
}

// tell writes body, which is whole, in one piece.
func tell(w http.ResponseWriter, status int, contentType []string, body []byte) {
	h := w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{itoa(len(body))}
	w.WriteHeader(status)
	w.Write(body) // an error means that the caller has gone
}
