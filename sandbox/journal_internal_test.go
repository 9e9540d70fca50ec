package sandbox

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJournalCannotBeWritten takes the disk away between two effects.
func TestJournalCannotBeWritten(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "effects.jsonl")
	p, err := New(&Options{Journal: name})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	pay := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":1,"currency":"EUR"}`))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w
	}
	pay("before")
	good := p.tally.journal.file
	if p.tally.journal.file, err = os.Open(name); err != nil { // for reading only
		t.Fatal(err)
	}
	w := pay("during")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "journal_unavailable") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if err := p.Reset(); err == nil {
		t.Error("reset: no error")
	}
	if got := p.Count(Payment); got != 1 {
		t.Errorf("got %d payments, want 1", got)
	}
	p.tally.journal.file.Close()
	p.tally.journal.file, p.tally.journal.broken = good, nil
	if w := pay("during"); w.Code != http.StatusCreated || w.Header().Get("Idempotent-Replayed") != "" {
		t.Errorf("the key is stuck: %d %s", w.Code, w.Body)
	}
	if got := p.Count(Payment); got != 2 {
		t.Errorf("got %d payments, want 2", got)
	}
}
