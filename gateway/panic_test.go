package gateway_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/gateway"
)

func TestServer_Panic(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]any{"value": "s3cr3t", "error": errors.New("s3cr3t")} {
		var log bytes.Buffer
		s := gateway.NewServer(panicking{with: with}, &gateway.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		resp, err := http.Post(start(t, s)+"/v1/tool-calls", "application/json", strings.NewReader(`{"name":"charge"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if p := readProblem(t, resp); p.Status != 500 || strings.Contains(p.Detail+p.Title, "s3cr3t") {
			t.Errorf("%s: %+v", name, p)
		}
		if _, err := newClient(t, start(t, s), nil).Do(t.Context(), justonce.Call{Tool: "charge"}); !errors.Is(err, gateway.ErrNoAnswer) {
			t.Errorf("%s: the client says %v", name, err)
		}
		if !strings.Contains(log.String(), "a handler panicked") || strings.Contains(log.String(), "s3cr3t") {
			t.Errorf("%s: logged %s", name, log.String())
		}
	}
}

// Without the methods beyond Service there is less to serve.
func TestServer_Unsupported(t *testing.T) {
	t.Parallel()
	url := start(t, gateway.NewServer(panicking{}, nil))
	resp, err := http.Post(url+"/v1/explain", "application/json", strings.NewReader(`{"name":"charge"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if p := readProblem(t, resp); p.Status != 501 {
		t.Errorf("%+v", p)
	}
	if _, there := scrape(t, url)["justonce_ledger_up"]; there {
		t.Error("a ledger that nobody can see is up")
	}
}
