package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
	"github.com/justonce-dev/justonce/inmem"
)

// scrape returns the value of every series.
func scrape(t *testing.T, url string) map[string]float64 {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	series := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		series[line[:i]] = v
	}
	return series
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	m := gateway.NewMetrics()
	now := time.Now()
	r := newRunner(t, p, &inmem.Options{Now: func() time.Time { return now.Add(-time.Hour) }}, m)
	url := start(t, gateway.NewServer(r, &gateway.Options{Metrics: m}))
	c := newClient(t, url, nil)
	do := func(call justonce.Call) { c.Do(t.Context(), call) }
	do(justonce.Call{Tool: "charge", Arguments: order("1", 1)})
	do(justonce.Call{Tool: "charge", Arguments: order("1", 1)})
	do(justonce.Call{Tool: "charge", Arguments: order("1", 2)})
	do(justonce.Call{Tool: "charge"})
	do(justonce.Call{Tool: "lose"})
	do(justonce.Call{Tool: "lose"})
	do(justonce.Call{Tool: "lookup"})
	do(justonce.Call{Tool: "nope"})
	got := scrape(t, url)
	for series, want := range map[string]float64{
		`justonce_calls_total{decision="executed",tool="charge"}`:                 1,
		`justonce_calls_total{decision="replayed",tool="charge"}`:                 1,
		`justonce_calls_total{decision="conflict",tool="charge"}`:                 1,
		`justonce_calls_total{decision="refused",tool="charge"}`:                  1,
		`justonce_calls_total{decision="joined",tool="lose"}`:                     1,
		`justonce_calls_total{decision="passed",tool="lookup"}`:                   1,
		`justonce_call_duration_seconds_count{decision="replayed",tool="charge"}`: 1,
		`justonce_attempts_total{outcome="succeeded",tool="charge"}`:              1,
		`justonce_attempts_total{outcome="unknown",tool="lose"}`:                  1,
		`justonce_attempt_duration_seconds_count{tool="charge"}`:                  1,
		`justonce_refused_total{reason="conflict",status="409"}`:                  1,
		`justonce_refused_total{reason="arguments",status="422"}`:                 1,
		`justonce_refused_total{reason="unknown-tool",status="404"}`:              1,
		`justonce_operations{state="succeeded"}`:                                  1,
		`justonce_operations{state="review"}`:                                     1,
		`justonce_operations{state="pending"}`:                                    0,
		`justonce_oldest_operation_age_seconds{state="pending"}`:                  0,
		`justonce_outbox_lag_seconds`:                                             0,
		`justonce_ledger_up`:                                                      1,
		`justonce_ledger_errors_total`:                                            0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", series, v, ok, want)
		}
	}
	if age := got[`justonce_oldest_operation_age_seconds{state="review"}`]; age < 3600 || age > 7200 {
		t.Errorf("the oldest in review is %vs old, want an hour", age)
	}
	if got["go_goroutines"] == 0 || got["process_start_time_seconds"] == 0 {
		t.Error("nothing of the process")
	}
}

// Summaries are read at a scrape, and shared by those that follow closely.
func TestMetrics_LedgerIsReadRarely(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	stats := make(chan struct{}, 10)
	r := newRunner(t, p, &inmem.Options{Fault: func(method string) error {
		if method == "Stats" {
			stats <- struct{}{}
			return errors.New("no disk")
		}
		return nil
	}}, nil)
	url := start(t, gateway.NewServer(r, nil))
	for range 3 {
		got := scrape(t, url)
		if up, ok := got["justonce_ledger_up"]; !ok || up != 0 {
			t.Errorf("up is %v (there: %v), want 0", up, ok)
		}
		if _, ok := got[`justonce_operations{state="review"}`]; ok {
			t.Error("numbers that nobody knows")
		}
	}
	if n := len(stats); n != 1 {
		t.Errorf("%d readings, want 1", n)
	}
	resp, err := http.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if pr := readProblem(t, resp); pr.Status != 503 || strings.Contains(pr.Detail, "disk") {
		t.Errorf("readyz: %+v", pr)
	}
}

// However many tools a service tells of, there are not so many series.
func TestMetrics_Bounded(t *testing.T) {
	t.Parallel()
	m := gateway.NewMetrics()
	o := m.Observer()
	for i := range 3000 {
		o.Call("tool"+strconv.Itoa(i), justonce.CallExecuted, time.Millisecond)
	}
	r, err := justonce.New(inmem.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Shutdown(context.Background())
	n, other := 0, 0.0
	for series, v := range scrape(t, start(t, gateway.NewServer(r, &gateway.Options{Metrics: m}))) {
		if strings.HasPrefix(series, "justonce_calls_total{") {
			n++
			if strings.Contains(series, `"_other"`) {
				other = v
			}
		}
	}
	if n != 1001 || other != 2000 {
		t.Errorf("%d series, %v calls of others", n, other)
	}
}
