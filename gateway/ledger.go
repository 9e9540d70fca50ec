package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/justonce-dev/justonce"
)

const (
	ledgerFresh = 2 * time.Second // a summary serves all scrapes for so long
	ledgerTime  = 5 * time.Second // bounds the reading of one
)

// ledgerCollector reads the ledger's summary when somebody looks at it.
type ledgerCollector struct {
	operations, oldest, lag, up *prometheus.Desc

	mu    sync.Mutex // held while reading: scrapes share one summary
	svc   stater
	stats *justonce.Stats // nil: the last reading failed
	read  time.Time
}

func newLedgerCollector() *ledgerCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("justonce_"+name, help, labels, nil)
	}
	return &ledgerCollector{
		operations: desc("operations", "Operations in the ledger.", "state"),
		oldest:     desc("oldest_operation_age_seconds", "Age of the oldest operation that has not ended.", "state"),
		lag:        desc("outbox_lag_seconds", "How long the most overdue open operation has been due."),
		up:         desc("ledger_up", "1 if the ledger could be read, else 0."),
	}
}

func (c *ledgerCollector) watch(svc stater) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.svc, c.read = svc, time.Time{}
}

func (c *ledgerCollector) summary() (stats *justonce.Stats, watched bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.svc == nil {
		return nil, false
	}
	if c.read.IsZero() || time.Since(c.read) >= ledgerFresh {
		ctx, cancel := context.WithTimeout(context.Background(), ledgerTime)
		defer cancel()
		var err error
		if c.stats, err = c.svc.Stats(ctx); err != nil {
			c.stats = nil
		}
		c.read = time.Now()
	}
	return c.stats, true
}

// Describe implements [prometheus.Collector].
func (c *ledgerCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.operations
	ch <- c.oldest
	ch <- c.lag
	ch <- c.up
}

// Collect implements [prometheus.Collector].
func (c *ledgerCollector) Collect(ch chan<- prometheus.Metric) {
	stats, watched := c.summary()
	if !watched {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if stats == nil {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	gauge(c.lag, max(stats.Lag, 0).Seconds())
	for _, state := range justonce.States() {
		gauge(c.operations, float64(stats.Count[state]), string(state))
		if state.Ended() {
			continue
		}
		age := 0.0 // none
		if t := stats.Oldest[state]; !t.IsZero() {
			age = max(time.Since(t), 0).Seconds()
		}
		gauge(c.oldest, age, string(state))
	}
}
