package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/justonce-dev/justonce/sandbox"
)

// raw sends a payment over a socket of its own and returns every byte that came back.
func (w *world) raw(body string) (string, error) {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	data, err := io.ReadAll(conn)
	return string(data), err
}

func TestCuts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind    sandbox.Kind
		reset   bool
		effects int
		sent    int
	}{
		{sandbox.LostReply, false, 1, 0},
		{sandbox.LostReply, true, 1, 0},
		{sandbox.CutBefore, false, 0, 0},
		{sandbox.CutBefore, true, 0, 0},
		{sandbox.CutMid, false, 1, http.StatusCreated},
	} {
		t.Run(fmt.Sprintf("%s_%v", test.kind, test.reset), func(t *testing.T) {
			t.Parallel()
			w := start(t, nil)
			w.inject(sandbox.Fault{Service: sandbox.Payment, Kind: test.kind, Reset: test.reset})
			got, err := w.raw(payment)
			switch {
			case test.reset && !errors.Is(err, syscall.ECONNRESET):
				t.Errorf("got error %v, want a reset", err)
			case !test.reset && err != nil:
				t.Errorf("got error %v, want an orderly close", err)
			}
			if test.kind != sandbox.CutMid && got != "" {
				t.Errorf("got an answer: %q", got)
			}
			if test.kind == sandbox.CutMid && !strings.HasPrefix(got, "HTTP/1.1 201 Created\r\n") {
				t.Errorf("got %q, want the head of an answer", got)
			}
			w.count(sandbox.Payment, test.effects)
			for _, e := range w.Effects() {
				if e.Status != test.sent || e.Fault != string(test.kind) {
					t.Errorf("effect: got status %d fault %q", e.Status, e.Fault)
				}
			}
			if got, err = w.raw(payment); err != nil || !strings.Contains(got, "201 Created") {
				t.Errorf("the fault is not spent: %q, %v", got, err)
			}
		})
	}
}

func TestCutMidIsSeenByClients(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	whole := w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusCreated)
	r := w.post("/payments", payment, "Idempotency-Key", "k", "Sandbox-Fault", "cut_mid")
	if r.status != http.StatusCreated || !errors.Is(r.err, io.ErrUnexpectedEOF) {
		t.Errorf("got status %d, error %v", r.status, r.err)
	}
	if r.body == "" || r.body == whole.body || !strings.HasPrefix(whole.body, r.body) {
		t.Errorf("got %q of %q", r.body, whole.body)
	}
	if got := r.header.Get("Content-Length"); got != fmt.Sprint(len(whole.body)) {
		t.Errorf("Content-Length: got %s, want %d", got, len(whole.body))
	}
	w.count(sandbox.Payment, 1)
}

func TestLostReplyIsReplayed(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	if r := w.post("/payments", payment, "Idempotency-Key", "k", "Sandbox-Fault", "lost_reply"); r.err == nil {
		t.Fatalf("got an answer: %+v", r)
	}
	w.count(sandbox.Payment, 1)
	r := w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusCreated)
	if r.header.Get("Idempotent-Replayed") != "true" || field[string](t, r.body, "id") != w.Effects()[0].ID {
		t.Errorf("got %s", r.body)
	}
	w.count(sandbox.Payment, 1)
	if got := w.Fired(); got[sandbox.LostReply] != 1 {
		t.Errorf("fired: got %v", got)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for _, service := range []struct{ name, path, body string }{
		{sandbox.Payment, "/payments", payment},
		{sandbox.Ticket, "/tickets", `{"title":"x","external_id":"T-1"}`},
		{sandbox.Mail, "/mails", `{"to":"x"}`},
		{sandbox.Post, "/posts", `{"channel":"x","text":"y"}`},
		{sandbox.Job, "/jobs", `{}`},
	} {
		for _, test := range []struct {
			fault      sandbox.Fault
			status     int
			retryAfter string
		}{
			{sandbox.Fault{Kind: sandbox.Error500Before}, 500, ""},
			{sandbox.Fault{Kind: sandbox.Error503}, 503, "1"},
			{sandbox.Fault{Kind: sandbox.Error503, Delay: 1500 * time.Millisecond}, 503, "2"},
			{sandbox.Fault{Kind: sandbox.RateLimit, Delay: time.Minute}, 429, "60"},
		} {
			test.fault.Service = service.name
			w.inject(test.fault)
			r := w.must(w.post(service.path, service.body, "Idempotency-Key", "before"), test.status)
			if got := r.header.Get("Retry-After"); got != test.retryAfter {
				t.Errorf("%s: Retry-After: got %q, want %q", test.fault.Kind, got, test.retryAfter)
			}
			w.count(service.name, 0)
		}
		w.inject(sandbox.Fault{Service: service.name, Kind: sandbox.Error500After})
		w.must(w.post(service.path, service.body, "Idempotency-Key", "after"), 500)
		w.count(service.name, 1)
	}
	if got := w.Faults(); len(got) != 0 {
		t.Errorf("left over: %+v", got)
	}
}

func TestStored500(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	before := w.must(w.post("/payments", payment, "Idempotency-Key", "k", "Sandbox-Fault", "error_500_before"), 500)
	w.count(sandbox.Payment, 0)
	after := w.must(w.post("/payments", payment, "Idempotency-Key", "k", "Sandbox-Fault", "error_500_after"), 500)
	w.count(sandbox.Payment, 1)
	again := w.must(w.post("/payments", payment, "Idempotency-Key", "k"), 500)
	w.count(sandbox.Payment, 1)
	if again.body != after.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %s, want the stored 500", again.body)
	}
	if before.body != after.body {
		t.Errorf("the two errors can be told apart: %s and %s", before.body, after.body)
	}
	if e := w.Effects()[0]; e.Status != 500 {
		t.Errorf("effect: got status %d", e.Status)
	}
	w.must(w.get("/payments/"+w.Effects()[0].ID), http.StatusOK) // the money moved
}

func TestSlowHoldsTheKey(t *testing.T) {
	t.Parallel()
	timers := newTimers()
	w := start(t, &sandbox.Options{After: timers.After})
	w.inject(sandbox.Fault{Kind: sandbox.Slow, Delay: time.Minute})
	first := make(chan response, 1)
	go func() { first <- w.post("/payments", payment, "Idempotency-Key", "k") }()
	if got := <-timers.started; got != time.Minute {
		t.Errorf("got a delay of %v", got)
	}
	w.count(sandbox.Payment, 0)
	r := w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusConflict)
	if got := code(t, r); got != "idempotency_key_in_use" {
		t.Errorf("got code %q", got)
	}
	timers.fire <- time.Time{}
	w.must(<-first, http.StatusCreated)
	w.count(sandbox.Payment, 1)
	w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusCreated)
	w.count(sandbox.Payment, 1)
}

func TestSlowDoesNotCareForClients(t *testing.T) {
	t.Parallel()
	timers := newTimers()
	w := start(t, &sandbox.Options{After: timers.After})
	w.inject(sandbox.Fault{Kind: sandbox.Slow, Delay: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/payments", strings.NewReader(payment))
		_, err := w.client.Do(req)
		gone <- err
	}()
	<-timers.started
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	timers.fire <- time.Time{}
	w.server.Close() // waits for the request
	if got := w.Count(sandbox.Payment); got != 1 {
		t.Errorf("got %d effects, want 1", got)
	}
}

func TestSlowReplyComesAfterTheEffect(t *testing.T) {
	t.Parallel()
	timers := newTimers()
	w := start(t, &sandbox.Options{After: timers.After})
	w.inject(sandbox.Fault{Kind: sandbox.SlowReply, Delay: time.Minute})
	first := make(chan response, 1)
	go func() { first <- w.post("/payments", payment, "Idempotency-Key", "k") }()
	<-timers.started
	w.count(sandbox.Payment, 1)
	again := w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusCreated)
	timers.fire <- time.Time{}
	if r := w.must(<-first, http.StatusCreated); r.body != again.body {
		t.Errorf("got %s and %s", r.body, again.body)
	}
	w.count(sandbox.Payment, 1)
}

func TestCloseEndsDelays(t *testing.T) {
	t.Parallel()
	timers := newTimers()
	w := start(t, &sandbox.Options{After: timers.After})
	first := make(chan response, 1)
	go func() { first <- w.post("/mails", `{"to":"x"}`, "Sandbox-Fault", "slow; delay=1h") }()
	<-timers.started
	w.Close()
	if r := <-first; r.err == nil {
		t.Errorf("got an answer: %+v", r)
	}
	w.must(w.post("/mails", `{"to":"x"}`), http.StatusServiceUnavailable)
	w.count(sandbox.Mail, 0)
}

func TestListLag(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := start(t, &sandbox.Options{Now: clock.Now})
	made := w.must(w.post("/tickets", `{"title":"x","external_id":"T-1"}`), http.StatusCreated)
	w.must(w.post("/payments", payment), http.StatusCreated)
	w.inject(sandbox.Fault{Kind: sandbox.ListLag, Delay: time.Minute, Times: -1})
	payments := func() int { return len(field[[]any](t, w.get("/payments?order_id=A-1").body, "data")) }
	w.must(w.get("/tickets?external_id=T-1"), http.StatusNotFound)
	w.must(w.get("/tickets/"+field[string](t, made.body, "id")), http.StatusOK) // only lists lag
	w.must(w.post("/tickets", `{"title":"x","external_id":"T-1"}`), http.StatusConflict)
	if got := payments(); got != 0 {
		t.Errorf("%d payments are listed at once", got)
	}
	clock.Advance(time.Minute)
	w.must(w.get("/tickets?external_id=T-1"), http.StatusOK)
	if got := payments(); got != 1 {
		t.Errorf("%d payments are listed after the lag", got)
	}
}

func TestMatchTimesAndSide(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.inject(sandbox.Fault{Kind: sandbox.Error503, Times: 2, Match: map[string]string{"order_id": "A-1", "amount": "500"}})
	w.inject(sandbox.Fault{Service: sandbox.Payment, Kind: sandbox.RateLimit, On: sandbox.OnRead, Match: map[string]string{"order_id": "A-1"}})
	w.must(w.post("/payments", `{"amount":501,"currency":"EUR","order_id":"A-1"}`), 201)
	w.must(w.post("/payments", `{"amount":500,"currency":"EUR"}`), 201)
	w.must(w.post("/payments", payment), 503)
	w.must(w.post("/payments", payment), 503)
	w.must(w.post("/payments", payment), 201)
	w.must(w.get("/payments?order_id=A-2"), 200)
	w.must(w.get("/payments?order_id=A-1"), 429)
	w.must(w.get("/payments?order_id=A-1"), 200)
	w.must(w.get("/payments?order_id=A-1", "Sandbox-Fault", "error_500_after"), 500)
}

func TestRefusalsDoNotSpendFaults(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.must(w.post("/tickets", `{"title":"x","external_id":"T-1"}`), 201)
	w.inject(sandbox.Fault{Kind: sandbox.LostReply})
	w.must(w.post("/tickets", `{"title":"x","external_id":"T-1"}`), 409)
	w.must(w.post("/tickets", `{}`), 400)
	if r := w.post("/tickets", `{"title":"x","external_id":"T-2"}`); r.err == nil {
		t.Errorf("got an answer: %+v", r)
	}
	w.count(sandbox.Ticket, 2)
}

func TestSeedRepeats(t *testing.T) {
	t.Parallel()
	run := func() (outcome, ids string) {
		w := start(t, &sandbox.Options{Seed: 7})
		w.inject(sandbox.Fault{Kind: sandbox.Error503, Times: -1, Probability: 0.5})
		for range 40 {
			r := w.post("/mails", `{"to":"x"}`)
			outcome += fmt.Sprint(r.status, " ")
		}
		for _, e := range w.Effects() {
			ids += e.ID + " "
		}
		return outcome, ids
	}
	outcome, ids := run()
	if !strings.Contains(outcome, "503") || !strings.Contains(outcome, "201") {
		t.Errorf("got only %s", outcome)
	}
	outcome2, ids2 := run()
	if diff := cmp.Diff(outcome+ids, outcome2+ids2); diff != "" {
		t.Errorf("the same seed goes another way:\n%s", diff)
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	t.Parallel()
	w := start(t, &sandbox.Options{Seed: 3})
	w.must(w.post("/faults", `{"service":"mail","kind":"slow","times":-1,"probability":0.5,"delay":"1.5s","match":{"to":"x","n":1}}`), 201)
	want := []sandbox.Armed{{Left: -1, Fault: sandbox.Fault{Service: "mail", Kind: sandbox.Slow, On: sandbox.OnWrite, Times: -1,
		Probability: 0.5, Delay: 1500 * time.Millisecond, Match: map[string]string{"to": "x", "n": "1"}}}}
	if diff := cmp.Diff(want, w.Faults()); diff != "" {
		t.Errorf("armed (-want +got):\n%s", diff)
	}
	r := w.must(w.get("/faults"), 200)
	if field[float64](t, r.body, "seed") != 3 || len(field[[]any](t, r.body, "faults")) != 1 {
		t.Errorf("got %s", r.body)
	}
	for _, bad := range []string{
		``, `{}`, `{"kind":"lost"}`, `{"kind":"slow"}`, `{"kind":"slow","delay":2}`, `{"kind":"slow","delay":"-2s"}`,
		`{"kind":"lost_reply","times":0}`, `{"kind":"lost_reply","times":-2}`, `{"kind":"lost_reply","probability":0}`,
		`{"kind":"lost_reply","probability":1.1}`, `{"kind":"lost_reply","service":"fax"}`, `{"kind":"lost_reply","time":1}`,
		`{"kind":"lost_reply","on":"both"}`, `{"kind":"list_lag","delay":"1s","on":"write"}`, `{"kind":"lost_reply"}{}`,
	} {
		w.must(w.post("/faults", bad), 400)
	}
	w.must(w.do(http.MethodDelete, "/faults", ""), http.StatusNoContent)
	if got := w.Faults(); len(got) != 0 {
		t.Errorf("left over: %+v", got)
	}
}
