package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/sandbox"
)

func TestPaymentKey(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := start(t, &sandbox.Options{Now: clock.Now, Window: time.Hour})

	first := w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusCreated)
	again := w.must(w.post("/payments", ` {"order_id":"A-1", "currency":"EUR","amount":500}`, "Idempotency-Key", "k"), http.StatusCreated)
	if again.body != first.body {
		t.Errorf("replay: got %s, want %s", again.body, first.body)
	}
	if got := first.header.Get("Idempotent-Replayed"); got != "" {
		t.Errorf("first answer is marked Idempotent-Replayed: %s", got)
	}
	if got := again.header.Get("Idempotent-Replayed"); got != "true" {
		t.Errorf("Idempotent-Replayed: got %q, want true", got)
	}
	w.count(sandbox.Payment, 1)

	other := w.must(w.post("/payments", `{"amount":501,"currency":"EUR","order_id":"A-1"}`, "Idempotency-Key", "k"), http.StatusBadRequest)
	if got := field[string](t, other.body, "error", "type"); got != "idempotency_error" {
		t.Errorf("other body: got type %q", got)
	}
	w.count(sandbox.Payment, 1)

	clock.Advance(time.Hour - 1)
	w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusCreated)
	w.count(sandbox.Payment, 1)
	clock.Advance(1) // the window counts from the first use
	late := w.must(w.post("/payments", payment, "Idempotency-Key", "k"), http.StatusCreated)
	w.count(sandbox.Payment, 2)
	if late.body == first.body || late.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("after the window: got %s, replayed %q", late.body, late.header.Get("Idempotent-Replayed"))
	}

	w.must(w.post("/payments", payment), http.StatusCreated) // no key: always an effect
	w.must(w.post("/payments", payment), http.StatusCreated)
	w.count(sandbox.Payment, 4)
	groups := w.Duplicates("order_id")
	if len(groups) != 1 || groups[0].Count != 4 || groups[0].Values[0] != "A-1" || groups[0].Service != sandbox.Payment {
		t.Errorf("duplicates: got %+v", groups)
	}
}

func TestPaymentDeclined(t *testing.T) {
	t.Parallel()
	w := start(t, &sandbox.Options{DeclineOver: 500})
	w.must(w.post("/payments", payment), http.StatusCreated) // exactly the limit
	for body, want := range map[string]string{
		`{"amount":500.01,"currency":"EUR"}`:                    "amount_over_limit",
		`{"amount":5,"currency":"EUR","card":"declined"}`:       "card_declined",
		`{"amount":9007199254740993,"currency":"EUR","id":"x"}`: "amount_over_limit",
	} {
		first := w.must(w.post("/payments", body, "Idempotency-Key", want+body[:14]), http.StatusPaymentRequired)
		again := w.must(w.post("/payments", body, "Idempotency-Key", want+body[:14]), http.StatusPaymentRequired)
		if got := code(t, first); got != want {
			t.Errorf("got code %q, want %q", got, want)
		}
		if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: a decline is not replayed: %s", want, again.body)
		}
	}
	w.count(sandbox.Payment, 1)
}

func TestPaymentReads(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := start(t, &sandbox.Options{Now: clock.Now})
	var ids []string
	for i := range 5 {
		r := w.must(w.post("/payments", fmt.Sprintf(`{"amount":%d,"currency":"EUR","order_id":"O-%d","status":"mine"}`, i+1, i%2)), http.StatusCreated)
		ids = append(ids, field[string](t, r.body, "id"))
		if got := field[string](t, r.body, "status"); got != "succeeded" {
			t.Errorf("status: got %q", got)
		}
		if one := w.must(w.get("/payments/"+ids[i]), http.StatusOK); one.body != r.body {
			t.Errorf("by id: got %s, want %s", one.body, r.body)
		}
		clock.Advance(time.Minute)
	}
	list := func(query string, more bool, want ...int) {
		t.Helper()
		r := w.must(w.get("/payments"+query), http.StatusOK)
		data := field[[]any](t, r.body, "data")
		var got []string
		for _, one := range data {
			got = append(got, one.(map[string]any)["id"].(string))
		}
		var wantIDs []string
		for _, i := range want {
			wantIDs = append(wantIDs, ids[i])
		}
		if fmt.Sprint(got) != fmt.Sprint(wantIDs) || field[bool](t, r.body, "has_more") != more {
			t.Errorf("%s: got %v, want %v, more %v", query, got, wantIDs, more)
		}
	}
	list("", false, 4, 3, 2, 1, 0)
	list("?limit=2", true, 4, 3)
	list("?order_id=O-0", false, 4, 2, 0)
	list("?order_id=O-0&limit=1", true, 4)
	list("?order_id=none", false)
	list("?since=2026-03-04T05:09:07Z", false, 4, 3)
	w.must(w.get("/payments?orderid=O-0"), http.StatusBadRequest)
	w.must(w.get("/payments?limit=0"), http.StatusBadRequest)
	w.must(w.get("/payments?since=today"), http.StatusBadRequest)
	w.must(w.get("/payments/pay_none_1"), http.StatusNotFound)
	w.must(w.get("/tickets/"+ids[0]), http.StatusNotFound)
	if got := field[float64](t, w.must(w.get("/payments/count"), http.StatusOK).body, "count"); got != 5 {
		t.Errorf("count: got %v", got)
	}
}

func TestTicketIsUnique(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.must(w.get("/tickets?external_id=T-1"), http.StatusNotFound)
	made := w.must(w.post("/tickets", `{"external_id":"T-1","title":"Broken","body":"<b>it & \"that\"</b>"}`), http.StatusCreated)
	again := w.must(w.post("/tickets", `{"external_id":"T-1","title":"Other"}`), http.StatusConflict)
	id := field[string](t, made.body, "id")
	if got := code(t, again); got != "duplicate_external_id" {
		t.Errorf("got code %q", got)
	}
	if got := field[string](t, again.body, "error", "existing_id"); got != id {
		t.Errorf("existing_id: got %q, want %q", got, id)
	}
	for _, path := range []string{"/tickets/" + id, "/tickets?external_id=T-1"} {
		if r := w.must(w.get(path), http.StatusOK); r.body != made.body {
			t.Errorf("%s: got %s, want %s", path, r.body, made.body)
		}
	}
	w.count(sandbox.Ticket, 1)
	w.must(w.get("/tickets"), http.StatusBadRequest)
	w.must(w.post("/tickets", `{"title":"no id"}`), http.StatusCreated) // nothing to be unique by
	w.must(w.post("/tickets", `{"title":"no id"}`), http.StatusCreated)
	w.count(sandbox.Ticket, 3)
}

func TestMailListLags(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := start(t, &sandbox.Options{Now: clock.Now, MailLag: time.Minute})
	mail := `{"to":"ann@example.com","subject":"Receipt","text":"Thanks"}`
	w.must(w.post("/mails", mail, "Idempotency-Key", "k"), http.StatusCreated)
	w.must(w.post("/mails", mail, "Idempotency-Key", "k"), http.StatusCreated) // the key means nothing here
	w.count(sandbox.Mail, 2)
	seen := func() int { return len(field[[]any](t, w.get("/mails?to=ann@example.com").body, "data")) }
	if got := seen(); got != 0 {
		t.Errorf("at once: %d mails are listed", got)
	}
	clock.Advance(time.Minute)
	if got := seen(); got != 2 {
		t.Errorf("after the lag: %d mails are listed, want 2", got)
	}
	if got := w.Duplicates("to,subject"); len(got) != 1 || got[0].Count != 2 || got[0].Values[1] != "Receipt" {
		t.Errorf("duplicates: got %+v", got)
	}
	w.must(w.get("/mails/"+w.Effects()[0].ID), http.StatusNotFound)
}

func TestPostHelpsNobody(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for range 2 {
		w.must(w.post("/posts", `{"channel":"ops","text":"hi"}`, "Idempotency-Key", "k"), http.StatusCreated)
	}
	w.count(sandbox.Post, 2)
	w.must(w.get("/posts"), http.StatusNotFound)
	w.must(w.get("/posts/"+w.Effects()[0].ID), http.StatusNotFound)
}

func TestJob(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := start(t, &sandbox.Options{Now: clock.Now, JobDuration: time.Minute})
	begin := func() string {
		r := w.must(w.post("/jobs", `{"external_id":"J-1","rows":3}`), http.StatusAccepted)
		if got := field[string](t, r.body, "status"); got != sandbox.JobRunning {
			t.Fatalf("a new job is %s", got)
		}
		return field[string](t, r.body, "job_id")
	}
	state := func(id, status string, progress float64) response {
		t.Helper()
		r := w.must(w.get("/jobs/"+id), http.StatusOK)
		if s, p := field[string](t, r.body, "status"), field[float64](t, r.body, "progress"); s != status || p != progress {
			t.Errorf("got %s at %v %%, want %s at %v %%", s, p, status, progress)
		}
		return r
	}
	a, b := begin(), begin()
	w.count(sandbox.Job, 2) // counted at the start, and a job's external_id is not unique
	if got := len(field[[]any](t, w.get("/jobs?external_id=J-1").body, "data")); got != 2 {
		t.Errorf("%d jobs are listed, want 2", got)
	}
	state(a, sandbox.JobRunning, 0)
	clock.Advance(15 * time.Second)
	state(a, sandbox.JobRunning, 25)
	w.must(w.post("/jobs/"+a+"/finish", `{"status":"running","progress":70}`), http.StatusOK)
	state(a, sandbox.JobRunning, 70)
	w.must(w.post("/jobs/"+a+"/finish", `{"status":"done","result":{"url":"x"}}`), http.StatusOK)
	if r := state(a, sandbox.JobDone, 100); field[string](t, r.body, "result", "url") != "x" {
		t.Errorf("result: %s", r.body)
	}
	w.must(w.post("/jobs/"+b+"/finish", `{"status":"failed","error":"no disk"}`), http.StatusOK)
	if r := state(b, sandbox.JobFailed, 0); field[string](t, r.body, "error") != "no disk" {
		t.Errorf("error: %s", r.body)
	}
	w.must(w.post("/jobs/"+b+"/finish", `{"status":"done"}`), http.StatusConflict)
	w.must(w.post("/jobs/none/finish", `{"status":"done"}`), http.StatusNotFound)
	w.must(w.post("/jobs/"+b+"/finish", `{"status":"gone"}`), http.StatusBadRequest)
	w.must(w.post("/jobs/"+b+"/finish", `{"state":"done"}`), http.StatusBadRequest)

	c := begin()
	clock.Advance(time.Minute)
	state(c, sandbox.JobDone, 100) // by itself
	w.must(w.post("/jobs/"+c+"/finish", `{"status":"failed"}`), http.StatusConflict)
}

func TestRefusedWithoutEffect(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for _, test := range []struct {
		path, body string
		status     int
		code       string
	}{
		{"/payments", ``, 400, "invalid_json"},
		{"/payments", `{`, 400, "invalid_json"},
		{"/payments", `[]`, 400, "invalid_json"},
		{"/payments", `null`, 400, "invalid_json"},
		{"/payments", payment + payment, 400, "invalid_json"},
		{"/payments", "{\"amount\":1,\"currency\":\"\xff\"}", 400, "invalid_json"},
		{"/payments", `{"currency":"EUR"}`, 400, "parameter_invalid"},
		{"/payments", `{"amount":"1","currency":"EUR"}`, 400, "parameter_invalid"},
		{"/payments", `{"amount":0,"currency":"EUR"}`, 400, "parameter_invalid"},
		{"/payments", `{"amount":1e999,"currency":"EUR"}`, 400, "parameter_invalid"},
		{"/payments", `{"amount":1}`, 400, "parameter_invalid"},
		{"/payments", `{"amount":1,"currency":"EUR","order_id":7}`, 400, "parameter_invalid"},
		{"/tickets", `{"external_id":"x"}`, 400, "parameter_invalid"},
		{"/tickets", `{"title":"x","external_id":"` + strings.Repeat("x", 256) + `"}`, 400, "parameter_invalid"},
		{"/mails", `{"subject":"x"}`, 400, "parameter_invalid"},
		{"/posts", `{"channel":"x"}`, 400, "parameter_invalid"},
		{"/jobs", `{"external_id":""}`, 400, "parameter_invalid"},
		{"/mails", `{"to":"x","text":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "body_too_large"},
		{"/nothing", `{}`, 404, "no_such_endpoint"},
	} {
		r := w.must(w.post(test.path, test.body), test.status)
		if got := code(t, r); got != test.code {
			t.Errorf("%s %.40s: got code %q, want %q", test.path, test.body, got, test.code)
		}
	}
	w.must(w.post("/payments", payment, "Idempotency-Key", strings.Repeat("k", 256)), http.StatusBadRequest)
	w.must(w.post("/payments", payment, "Idempotency-Key", "a", "Idempotency-Key", "b"), http.StatusBadRequest)
	w.must(w.post("/payments", payment, "Sandbox-Fault", "no_such"), http.StatusBadRequest)
	w.must(w.post("/payments", payment, "Sandbox-Fault", "slow"), http.StatusBadRequest)
	w.must(w.post("/payments", payment, "Sandbox-Fault", "lost_reply; delay=x"), http.StatusBadRequest)
	w.count("", 0)
}
