package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	justonce "github.com/justonce-dev/justonce"
	"github.com/justonce-dev/justonce/catalog"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	c, err := catalog.Parse("t.yaml", []byte(`
store: /var/lib/justonce.db
log_format: json
result_limit: 4MiB
default_wait: 1d
poll: 250ms
sandbox: false
worker: null
tools:
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := catalog.Settings{Store: "/var/lib/justonce.db", LogFormat: "json", ResultLimit: 4 << 20,
		DefaultWait: 24 * time.Hour, Poll: 250 * time.Millisecond, Sandbox: "off"}
	if diff := cmp.Diff(want, c.Settings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for flag, want := range map[string]string{"store": "/var/lib/justonce.db", "log-format": "json", "result_limit": "4194304",
		"default-wait": "24h0m0s", "sandbox": "off", "worker": "", "listen": "", "tools": ""} {
		if got, ok := c.Setting(flag); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", flag, got, ok)
		}
	}
}

func TestToolFields(t *testing.T) {
	t.Parallel()
	tool := one(t, `
    description: It.
    ignore: [/trace_id]
    dedupe: until_delivered
    dedupe_for: 3d
    fallback: none
    window: 2h
    margin: 5m
    settle: 0s
    timeout: 10s
    lease: 20s
    retries: {max_attempts: 4, max_unknowns: 2, max_lookups: 9, base: 1s, cap: 1m30s, poll: 3s}
    wire_key: raw
`)
	got := *tool
	got.Connector = nil
	want := justonce.Tool{Name: "it", Description: "It.", Effect: justonce.Write, Identity: []string{"/id"}, Ignore: []string{"/trace_id"},
		Dedupe: justonce.UntilDelivered, DedupeFor: 72 * time.Hour, WireKey: justonce.WireKeyRaw,
		Policy: justonce.Policy{Capability: justonce.ByNothing, Fallback: justonce.ByNothing, Window: 2 * time.Hour, Margin: 5 * time.Minute,
			Settle: -1, Timeout: 10 * time.Second, Lease: 20 * time.Second, MaxAttempts: 4, MaxUnknowns: 2, MaxLookups: 9,
			BackoffBase: time.Second, BackoffCap: 90 * time.Second, Poll: 3 * time.Second}}
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".canon" || p.Last().String() == ".identity"
	}, cmp.Ignore())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestToolsNeedTheirConnector(t *testing.T) {
	t.Parallel()
	c, err := catalog.Parse("t.yaml", []byte("tools:\n  a:\n    identity: /id\n    http: {request: {url: http://x/}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tools(); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Error(err)
	}
}

func TestPresetMerge(t *testing.T) {
	t.Parallel()
	block := map[string]any{}
	o := &catalog.Options{Connectors: map[string]catalog.Connect{
		"http": func(s *catalog.Spec) (justonce.Connector, error) {
			if err := s.Decode(&block); err != nil {
				return nil, err
			}
			return justonce.Func(func(context.Context, json.RawMessage) (any, error) { return nil, nil }), nil
		},
	}}
	c, err := catalog.Parse("t.yaml", []byte(`
tools:
  charge:
    preset: stripe/charge
    description: Mine.
    fallback: null
    schema: {type: object, required: [order_id], properties: {order_id: {type: string}}}
    http:
      lookup: null
      answer: {result: body.id}
      request: {headers: {X-Test: "1"}}
`), o)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := c.Tools()
	if err != nil {
		t.Fatal(err)
	}
	request := block["request"].(map[string]any)
	got := []any{tools[0].Description, tools[0].Policy.Fallback, tools[0].Identity, block["lookup"], block["answer"], request["headers"], string(tools[0].Schema)}
	want := []any{"Mine.", justonce.ByNothing, []string{"/order_id"}, nil,
		map[string]any{"reference": "body.id", "result": "body.id"},
		map[string]any{"Authorization": "Bearer ${secret:env/STRIPE_KEY}", "X-Test": "1"},
		`{"type":"object","required":["order_id"],"properties":{"order_id":{"type":"string"}}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	var auth struct {
		Tokens []struct {
			Token, Tenant string
		} `json:"tokens"`
		Until time.Duration `json:"until"`
	}
	o := &catalog.Options{Sections: map[string]any{"auth": &auth}}
	_, err := catalog.Parse("t.yaml", []byte("auth:\n  until: 1d\n  tokens:\n  - {Token: '${env:A}', Tenant: b}\n"), o)
	if err != nil {
		t.Fatal(err)
	}
	if auth.Until != 24*time.Hour || len(auth.Tokens) != 1 || auth.Tokens[0].Token != "${secret:env/A}" {
		t.Errorf("%+v", auth)
	}
	_, err = catalog.Parse("t.yaml", []byte("auth: {tokns: []}\n"), o)
	var e *catalog.Error
	if !errors.As(err, &e) || e.Error() != "t.yaml:1:8: error: auth has no field tokns (did you mean tokens?) [unknown-field]" {
		t.Error(err)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	abs := write("abs", "from an absolute path\n")
	write("rel", "from beside\r\n")
	write("empty", "\n")
	write("large", strings.Repeat("x", 100<<10))
	path := write("justonce.yaml", "store: postgres://u:${env:PW}@h/d\n")
	env := map[string]string{"PW": "pässword", "NONE": ""}
	c, err := catalog.Load(path, &catalog.Options{LookupEnv: func(n string) (string, bool) { v, ok := env[n]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Secrets()
	for name, want := range map[string]string{"env/PW": "pässword", "file/" + abs: "from an absolute path", "file/rel": "from beside",
		"env/NONE": "", "env/MISSING": "", "file/missing": "", "file/empty": "", "file/large": "", "other": "", "": ""} {
		got, err := s.Secret(t.Context(), name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := s.Expand(t.Context(), c.Settings.Store+"?x=$${env:PW}"); err != nil || got != "postgres://u:pässword@h/d?x=$${env:PW}" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := s.Expand(t.Context(), "a ${env:MISSING}"); err == nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLoadSaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	if _, err := catalog.Load(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(path, []byte(strings.Repeat("# x\n", 300)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Load(path, &catalog.Options{MaxBytes: 1000}); err == nil || !strings.Contains(err.Error(), "larger than 1000 bytes") {
		t.Error(err)
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{"30s": 30 * time.Second, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute,
		"0s": 0, "36500d": 36500 * 24 * time.Hour,
		"": -1, "d": -1, "5": -1, "-1s": -1, "+1s": -1, "1d-1h": -1, "1.5d": -1, "36501d": -1, "36500d1s": -1, "1h1d": -1, "99999999999d": -1, "9999999h": -1, "1w": -1} {
		got, err := catalog.ParseDuration(s)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	const no = -99
	for s, want := range map[string]int64{"0": 0, "4096": 4096, "4MiB": 4 << 20, "4 MiB": 4 << 20, "2KB": 2000, "7B": 7, "1GiB": 1 << 30, "-1": -1, "-1MB": -1e6,
		"": no, "MiB": no, "4M": no, "4mib": no, "1.5MiB": no, "1e6": no, "4MiBMiB": no, "99999999999GiB": no, "x": no, "0x10": no} {
		got, err := catalog.ParseSize(s)
		if err != nil {
			got = no
		}
		if got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

// What tools share by an alias is told once, with all their names.
func TestSharedFinding(t *testing.T) {
	t.Parallel()
	found := catalog.Check("t.yaml", []byte(`
x-headers: &auth {Authorization: "Bearer ${env:NONE}"}
tools:
  a: {effect: read, http: {request: {url: http://x/, headers: *auth}}}
  b: {effect: read, http: {request: {url: http://x/, headers: *auth}}}
  c: {effect: read, allow: [secret-missing], http: {request: {url: http://x/, headers: *auth}}}
`), &catalog.Options{LookupEnv: func(string) (string, bool) { return "", false }})
	var got []string
	for _, f := range found {
		got = append(got, f.String())
	}
	want := []string{"t.yaml:2:34: warning: tools a, b: the environment variable NONE is not set (set it where justonce runs) [secret-missing]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindingJSON(t *testing.T) {
	t.Parallel()
	found := catalog.Check("t.yaml", []byte("listn: x\n"), nil)
	got, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"rule":"unknown-field","severity":"error","file":"t.yaml","line":1,"column":1,"message":"the file has no field listn","hint":"did you mean listen?"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
