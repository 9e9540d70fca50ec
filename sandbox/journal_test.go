package sandbox_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/justonce-dev/justonce/sandbox"
)

func TestRestart(t *testing.T) {
	t.Parallel()
	clock := newClock()
	opt := &sandbox.Options{Now: clock.Now, Window: time.Hour, JobDuration: -1, Journal: filepath.Join(t.TempDir(), "effects.jsonl")}
	w := start(t, opt)
	w.must(w.post("/mails", `{"to":"before the reset"}`), 201)
	w.must(w.do(http.MethodDelete, "/effects", ""), http.StatusNoContent)

	paid := w.must(w.post("/payments", payment, "Idempotency-Key", "paid"), 201)
	w.post("/payments", payment, "Idempotency-Key", "broke", "Sandbox-Fault", "error_500_after, lost_reply")
	declined := w.must(w.post("/payments", `{"amount":1,"currency":"EUR","card":"declined"}`, "Idempotency-Key", "poor"), 402)
	made := w.must(w.post("/tickets", `{"title":"<x>","external_id":"T-1","id":"mine"}`), 201)
	w.must(w.post("/mails", `{"to":"x","text":"`+strings.Repeat("long\u2028", 2000)+`"}`), 201)
	job := field[string](t, w.must(w.post("/jobs", `{}`), 202).body, "job_id")
	other := field[string](t, w.must(w.post("/jobs", `{}`), 202).body, "job_id")
	if err := w.FinishJob(job, sandbox.JobUpdate{Status: sandbox.JobFailed, Error: "no"}); err != nil {
		t.Fatal(err)
	}
	before := w.Effects()
	if before[0].Seq != 2 || len(before) != 6 {
		t.Fatalf("got %d effects from %d", len(before), before[0].Seq)
	}
	page := w.page()
	w.Close()

	// Killed in the middle of a line.
	file, err := os.OpenFile(opt.Journal, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	file.WriteString(`{"event":"effect","time":"20`)
	file.Close()

	for range 2 { // a restart of a restart is the same
		w = start(t, opt)
		if diff := cmp.Diff(before, w.Effects()); diff != "" {
			t.Fatalf("effects (-before +after):\n%s", diff)
		}
		for _, test := range []struct {
			key, body string
			status    int
			want      string
		}{
			{"paid", payment, 201, paid.body},
			{"broke", payment, 500, ""},
			{"poor", `{"amount":1,"currency":"EUR","card":"declined"}`, 402, declined.body},
		} {
			r := w.must(w.post("/payments", test.body, "Idempotency-Key", test.key), test.status)
			if r.header.Get("Idempotent-Replayed") != "true" || test.want != "" && r.body != test.want {
				t.Errorf("%s: got %s, want %s", test.key, r.body, test.want)
			}
		}
		w.must(w.post("/payments", `{"amount":2,"currency":"EUR"}`, "Idempotency-Key", "paid"), 400)
		w.must(w.post("/tickets", `{"title":"x","external_id":"T-1"}`), 409)
		if r := w.must(w.get("/tickets?external_id=T-1"), 200); r.body != made.body {
			t.Errorf("ticket: got %s, want %s", r.body, made.body)
		}
		if r := w.must(w.get("/jobs/"+job), 200); field[string](t, r.body, "status") != sandbox.JobFailed {
			t.Errorf("job: got %s", r.body)
		}
		if r := w.must(w.get("/jobs/"+other), 200); field[string](t, r.body, "status") != sandbox.JobRunning {
			t.Errorf("job: got %s", r.body)
		}
		if got := w.page(); !strings.Contains(got, "1 repeated effect") || !strings.Contains(page, "1 repeated effect") {
			t.Errorf("the page forgot a repeat")
		}
		w.Close()
	}

	w = start(t, opt)
	clock.Advance(time.Hour) // the window goes on over restarts
	again := w.must(w.post("/payments", payment, "Idempotency-Key", "paid"), 201)
	if again.body == paid.body || w.Count(sandbox.Payment) != 3 {
		t.Errorf("after the window: got %s, %d payments", again.body, w.Count(sandbox.Payment))
	}
	w.Close()
}

func TestJournalIsDamaged(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "good.jsonl")
	w := start(t, &sandbox.Options{Journal: good})
	w.must(w.post("/mails", `{"to":"x"}`), 201)
	w.must(w.post("/mails", `{"to":"y"}`), 201)
	w.Close()
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	for name, text := range map[string]string{
		"not ours":    "hello\n",
		"no head":     lines[1],
		"two heads":   lines[0] + lines[0],
		"a hole":      lines[0] + lines[2],
		"twice":       lines[0] + lines[1] + lines[1],
		"half a line": lines[0] + lines[1][:20] + "\n" + lines[2],
		"event":       lines[0] + `{"event":"party"}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "bad.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sandbox.New(&sandbox.Options{Journal: path}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if left, _ := os.ReadFile(path); string(left) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
	for _, name := range []string{t.TempDir(), os.DevNull} {
		if _, err := sandbox.New(&sandbox.Options{Journal: name}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
