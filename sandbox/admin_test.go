package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/justonce-dev/justonce/sandbox"
)

func (w *world) page() string {
	w.t.Helper()
	r := w.must(w.get("/"), http.StatusOK)
	if got := r.header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		w.t.Errorf("Content-Type: got %q", got)
	}
	return r.body
}

func TestPage(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	if got := w.page(); !strings.Contains(got, "no repeated effects") || !strings.Contains(got, "Nothing yet") {
		t.Errorf("empty page:\n%s", got)
	}
	w.must(w.post("/mails", `{"to":"<script>","subject":"hi"}`), 201)
	w.must(w.post("/mails", `{"to":"<script>","subject":"hi","text":"again"}`), 201)
	w.must(w.post("/mails", `{"to":"<script>","subject":"other"}`), 201)
	w.inject(sandbox.Fault{Service: "post", Kind: sandbox.CutMid, Times: -1, Probability: 0.25, Match: map[string]string{"channel": "ops"}})
	w.inject(sandbox.Fault{Kind: sandbox.LostReply})
	w.post("/posts", `{"channel":"dev","text":"x"}`)
	got := w.page()
	for _, want := range []string{"1 repeated effect", "&lt;script&gt; · hi", "1 fault armed", "25 %", "for ever", "channel=ops", "lost_reply 1×", ">nothing<"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(got, "<script>") {
		t.Error("the page does not escape")
	}
}

func TestEffectsOverHTTP(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.must(w.post("/payments", `{"amount":1.50,"currency":"EUR","order_id":"A","tags":[{"b":1,"a":2}],"n":1}`, "Idempotency-Key", "k"), 201)
	w.must(w.post("/payments", `{"amount":2,"currency":"EUR","order_id":"A","n":"1"}`), 201)
	w.must(w.post("/jobs", `{"external_id":"A","n":1}`), 202)
	w.must(w.post("/mails", `{"to":"A","text":"`+strings.Repeat("x", 5000)+`"}`), 201)

	e := w.Effects()[0]
	want := sandbox.Effect{Seq: 1, Time: e.Time, Service: "payment", ID: e.ID, Key: "k", Reference: "A", Status: 201,
		Intent: []byte(`{"amount":1.50,"currency":"EUR","n":1,"order_id":"A","tags":[{"a":2,"b":1}]}`)}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("effect (-want +got):\n%s", diff)
	}
	if text, ok := e.Field("tags"); !ok || text != `[{"a":2,"b":1}]` {
		t.Errorf("tags: got %q", text)
	}
	if text, _ := w.Effects()[3].Field("text"); len(text) > 200 || !strings.Contains(text, "5002 bytes") {
		t.Errorf("a long member is not clipped: %.300q", text)
	}
	for query, want := range map[string]int{"": 4, "?service=payment": 2, "?after=1": 3, "?after=1&limit=2": 2, "?service=mail&after=4": 0} {
		r := w.must(w.get("/effects"+query), 200)
		if got := len(field[[]any](t, r.body, "effects")); got != want {
			t.Errorf("%s: got %d effects, want %d", query, got, want)
		}
	}
	for query, want := range map[string]float64{"": 4, "?service=job": 1, "?order_id=A": 2, "?n=1": 3, "?n=1&service=job": 1, "?order_id=B": 0} {
		if got := field[float64](t, w.must(w.get("/effects/count"+query), 200).body, "count"); got != want {
			t.Errorf("count%s: got %v, want %v", query, got, want)
		}
	}
	if got := w.Duplicates("n"); len(got) != 0 { // text and number differ, and so do services
		t.Errorf("duplicates by n: %+v", got)
	}
	if got := len(w.Groups("n")); got != 3 {
		t.Errorf("groups by n: %d", got)
	}
	for _, path := range []string{"/effects?service=fax", "/effects?after=x", "/effects/count?service=fax", "/effects/duplicates"} {
		w.must(w.get(path), 400)
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	w := start(t, &sandbox.Options{JobDuration: -1})
	ctx, c := t.Context(), &sandbox.Client{URL: w.url + "/"}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.Inject(ctx, sandbox.Fault{Service: sandbox.Mail, Kind: sandbox.LostReply, Match: map[string]string{"to": "x"}}))
	check(c.Inject(ctx, sandbox.Fault{Kind: sandbox.SlowReply, Delay: 1, Probability: 0.5, Times: -1, On: sandbox.OnRead, Reset: true}))
	armed, err := c.Faults(ctx)
	check(err)
	if diff := cmp.Diff(w.Faults(), armed); diff != "" {
		t.Errorf("faults (-provider +client):\n%s", diff)
	}
	w.post("/mails", `{"to":"x"}`)
	w.post("/mails", `{"to":"x"}`)
	fired, err := c.Fired(ctx)
	check(err)
	if fired[sandbox.LostReply] != 1 {
		t.Errorf("fired: %v", fired)
	}
	effects, err := c.Effects(ctx)
	check(err)
	if diff := cmp.Diff(w.Effects(), effects); diff != "" {
		t.Errorf("effects (-provider +client):\n%s", diff)
	}
	groups, err := c.Duplicates(ctx, "to")
	check(err)
	if diff := cmp.Diff(w.Duplicates("to"), groups); diff != "" || len(groups) != 1 {
		t.Errorf("duplicates (-provider +client):\n%s", diff)
	}
	all, err := c.Groups(ctx, "to")
	check(err)
	if len(all) != 1 {
		t.Errorf("groups: %+v", all)
	}
	for service, want := range map[string]int{"": 2, sandbox.Mail: 2, sandbox.Post: 0} {
		n, err := c.Count(ctx, service)
		check(err)
		if n != want {
			t.Errorf("count %q: got %d, want %d", service, n, want)
		}
	}
	check(c.Disarm(ctx))
	id := field[string](t, w.must(w.post("/jobs", `{}`), 202).body, "job_id")
	check(c.FinishJob(ctx, id, sandbox.JobUpdate{Status: sandbox.JobDone, Result: []byte(`[1]`)}))
	check(c.Reset(ctx))
	w.count("", 0)

	var refusal *sandbox.Error
	if err := c.FinishJob(ctx, id, sandbox.JobUpdate{Status: sandbox.JobDone}); !errors.As(err, &refusal) || refusal.Status != 404 || refusal.Code != "resource_missing" {
		t.Errorf("finishing a job that was forgotten: %v", err)
	}
	if err := c.Inject(ctx, sandbox.Fault{Kind: "x"}); !errors.As(err, &refusal) || refusal.Status != 400 {
		t.Errorf("a bad fault: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Effects(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A handler that is not on a socket of its own cannot cut anything; it aborts.
func TestAbortsWithoutSocket(t *testing.T) {
	t.Parallel()
	p, err := sandbox.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"lost_reply", "cut_mid"} {
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("%s: got panic %v", kind, got)
				}
			}()
			r := httptest.NewRequest(http.MethodPost, "/mails", strings.NewReader(`{"to":"x"}`))
			r.Header.Set("Sandbox-Fault", kind)
			p.ServeHTTP(httptest.NewRecorder(), r)
		}()
	}
	if got := p.Count(sandbox.Mail); got != 2 {
		t.Errorf("got %d effects, want 2", got)
	}
}

func TestUnderHTTP2(t *testing.T) {
	t.Parallel()
	p, err := sandbox.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(p)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, kind := range []string{"lost_reply", "cut_mid"} {
		req, _ := http.NewRequest(http.MethodPost, server.URL+"/mails", strings.NewReader(`{"to":"x"}`))
		req.Header.Set("Sandbox-Fault", kind)
		resp, err := server.Client().Do(req)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: a whole answer", kind)
		}
	}
	if got := p.Count(sandbox.Mail); got != 2 {
		t.Errorf("got %d effects, want 2", got)
	}
}
