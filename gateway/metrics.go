package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/justonce-dev/justonce"
)

// maxTools bounds the values of the label tool. Those of more tools are
// counted under otherTools.
const (
	maxTools   = 1000
	otherTools = "_other"
)

// Metrics counts what happens, for Prometheus. It has a registry of its own.
// It is an [http.Handler] that serves the page, and safe for concurrent use.
//
//	justonce_calls_total{tool,decision}             calls, by what became of them on arrival
//	justonce_call_duration_seconds{tool,decision}   how long callers waited
//	justonce_attempts_total{tool,outcome}           sends
//	justonce_attempt_duration_seconds{tool}
//	justonce_lookups_total{tool,outcome}            questions put to providers
//	justonce_lookup_duration_seconds{tool}
//	justonce_late_total{tool,outcome}               reports under an old fence
//	justonce_observed_total{tool,would}             calls that were observed only, by what would have been
//	justonce_ledger_errors_total                    writes that failed and are tried again
//	justonce_refused_total{status,reason}           requests answered with a problem
//	justonce_operations{state}                      as the ledger has them
//	justonce_oldest_operation_age_seconds{state}
//	justonce_outbox_lag_seconds                     how long the most overdue has been due
//	justonce_ledger_up                              whether the ledger answered the last three
type Metrics struct {
	registry *prometheus.Registry
	page     http.Handler
	ledger   *ledgerCollector

	calls, attempts, lookups, late, refused    *prometheus.CounterVec
	observed                                   *prometheus.CounterVec
	callSeconds, attemptSeconds, lookupSeconds *prometheus.HistogramVec
	ledgerErrors                               prometheus.Counter

	mu    sync.RWMutex
	tools map[string]*toolMetrics
}

// toolMetrics keeps the series of one tool, which need not be looked up by
// their labels again.
type toolMetrics struct {
	name  string
	calls sync.Map // justonce.Decided to callSeries
}

type callSeries struct {
	total   prometheus.Counter
	seconds prometheus.Observer
}

// NewMetrics returns Metrics that nothing feeds yet: give Observer to a Runner,
// and the Metrics to a [Server].
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), tools: map[string]*toolMetrics{}, ledger: newLedgerCollector()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "justonce_" + name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "justonce_" + name, Help: help,
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, labels)
		m.registry.MustRegister(h)
		return h
	}
	m.calls = counter("calls_total", "Calls of tools, by what became of them on arrival.", "tool", "decision")
	m.attempts = counter("attempts_total", "Sends to providers, by what they proved.", "tool", "outcome")
	m.lookups = counter("lookups_total", "Questions put to providers, by the event they led to.", "tool", "outcome")
	m.late = counter("late_total", "Reports that came under an old fence.", "tool", "outcome")
	m.observed = counter("observed_total", "Calls that were observed only, by what would have become of them.", "tool", "would")
	m.refused = counter("refused_total", "Requests answered with a problem, by status and kind.", "status", "reason")
	m.callSeconds = histogram("call_duration_seconds", "How long calls took, waiting included.", "tool", "decision")
	m.attemptSeconds = histogram("attempt_duration_seconds", "How long sends to providers took.", "tool")
	m.lookupSeconds = histogram("lookup_duration_seconds", "How long questions put to providers took.", "tool")
	m.ledgerErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "justonce_ledger_errors_total",
		Help: "Writes to the ledger that failed and are tried again."})
	m.registry.MustRegister(m.ledgerErrors, m.ledger, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.page = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return m
}

// ServeHTTP serves the metrics in the formats that Prometheus reads.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.page.ServeHTTP(w, r) }

// Observer returns what counts the doings of a Runner.
func (m *Metrics) Observer() justonce.Observer {
	return justonce.Observer{
		Call: func(tool string, d justonce.Decided, took time.Duration) {
			s := m.call(m.tool(tool), d)
			s.total.Inc()
			s.seconds.Observe(took.Seconds())
		},
		Observed: func(tool string, would justonce.Decided) {
			m.observed.WithLabelValues(m.tool(tool).name, string(would)).Inc()
		},
		Attempt: func(tool string, outcome justonce.OutcomeKind, took time.Duration) {
			name := m.tool(tool).name
			m.attempts.WithLabelValues(name, outcome.String()).Inc()
			m.attemptSeconds.WithLabelValues(name).Observe(took.Seconds())
		},
		Lookup: func(tool string, outcome justonce.EventKind, took time.Duration) {
			name := m.tool(tool).name
			m.lookups.WithLabelValues(name, string(outcome)).Inc()
			m.lookupSeconds.WithLabelValues(name).Observe(took.Seconds())
		},
		Late: func(tool string, outcome justonce.EventKind) {
			m.late.WithLabelValues(m.tool(tool).name, string(outcome)).Inc()
		},
		Ledger: func(error) { m.ledgerErrors.Inc() },
	}
}

// tool returns the series of a tool. Runners tell of registered tools only, so
// that there are few; the bound is for other services.
func (m *Metrics) tool(name string) *toolMetrics {
	m.mu.RLock()
	t := m.tools[name]
	m.mu.RUnlock()
	if t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tools) >= maxTools {
		name = otherTools
	}
	if t = m.tools[name]; t == nil {
		t = &toolMetrics{name: name}
		m.tools[name] = t
	}
	return t
}

func (m *Metrics) call(t *toolMetrics, d justonce.Decided) callSeries {
	if s, ok := t.calls.Load(d); ok {
		return s.(callSeries)
	}
	s := callSeries{m.calls.WithLabelValues(t.name, string(d)), m.callSeconds.WithLabelValues(t.name, string(d))}
	t.calls.Store(d, s)
	return s
}

func (m *Metrics) refuse(status int, reason string) {
	m.refused.WithLabelValues(strconv.Itoa(status), reason).Inc()
}

// watch has the ledger's summary read at each scrape.
func (m *Metrics) watch(st stater) { m.ledger.watch(st) }
