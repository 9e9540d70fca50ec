package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/justonce-dev/justonce/sandbox"
)

// A stage is a gateway and a provider, each a process of its own.
type stage struct {
	t        *testing.T
	gateway  *process
	url      string
	provider sandbox.Client
}

func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	provider, gateway := address(t), address(t)
	start(t, "http://"+provider+"/effects/count", binary, "sandbox", "--listen", provider, "--jobs-by-hand")
	return &stage{t: t, url: "http://" + gateway,
		provider: sandbox.Client{URL: "http://" + provider, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}},
		gateway: start(t, "http://"+gateway+"/readyz", binary, "serve", "--config", "testdata/chaos.yaml",
			"--store", filepath.Join(dir, "justonce.db"), "--listen", gateway, "--sandbox", "http://"+provider)}
}

func (s *stage) call(key, tool, arguments string, header ...string) *view {
	s.t.Helper()
	if key != "" {
		header = append(header, "Idempotency-Key", key)
	}
	return mustRequest(s.t, http.MethodPost, s.url+"/v1/tool-calls", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), header...)
}

func (s *stage) get(key, query string) *view {
	s.t.Helper()
	return mustRequest(s.t, http.MethodGet, s.url+"/v1/tool-calls/"+url.PathEscape(key)+query, "")
}

func (s *stage) inject(f sandbox.Fault) {
	s.t.Helper()
	if err := s.provider.Inject(context.Background(), f); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) effects(service string, want int) {
	s.t.Helper()
	n, err := s.provider.Count(context.Background(), service)
	if err != nil {
		s.t.Fatal(err)
	}
	if n != want {
		s.t.Errorf("%d %s effects at the provider, want %d", n, service, want)
	}
}

// The session that the project began with: twice the same, another amount, a
// process that dies between the effect and its record.
func TestStory_Session(t *testing.T) {
	s := newStage(t)
	const key = "shop-1:order-123:pay-v1"
	const order = `{"order_id":"123","amount":9900,"currency":"CNY"}`
	first, second := s.call(key, "payment", order), s.call(key, "payment", order)
	if first.Status != 200 || first.State != "succeeded" || first.Replayed {
		t.Errorf("the first call: %d %s", first.Status, first.raw)
	}
	if second.Status != 200 || !second.Replayed || second.Key != key {
		t.Errorf("the second call: %d %s", second.Status, second.raw)
	}
	if d := cmp.Diff(string(first.Result), string(second.Result)); d != "" {
		t.Error(d)
	}
	other := s.call(key, "payment", `{"order_id":"123","amount":19900,"currency":"CNY"}`)
	if other.Status != 409 || !slices.Equal(other.Paths, []string{"/amount"}) {
		t.Errorf("another amount: %d %s", other.Status, other.raw)
	}
	if v := s.get(key, ""); v.Status != 200 || v.State != "succeeded" {
		t.Errorf("GET: %d %s", v.Status, v.raw)
	}
	s.effects(sandbox.Payment, 1)

	for _, test := range []struct{ service, key, arguments string }{
		{sandbox.Payment, "shop-1:order-124:pay-v1", `{"order_id":"124","amount":9900,"currency":"CNY"}`},
		{sandbox.Ticket, "shop-1:alert-456:ticket-v1", `{"case_id":"456","title":"disk full"}`},
		{sandbox.Mail, "shop-1:mail-1", `{"reference":"r1","to":"ann@example.com","subject":"receipt"}`},
	} {
		before, err := s.provider.Count(context.Background(), test.service)
		if err != nil {
			t.Fatal(err)
		}
		s.inject(sandbox.Fault{Service: test.service, Kind: sandbox.SlowReply, Delay: time.Minute})
		go request(context.Background(), http.MethodPost, s.url+"/v1/tool-calls",
			fmt.Sprintf(`{"name":%q,"arguments":%s}`, test.service, test.arguments), "Idempotency-Key", test.key)
		await(t, 10*time.Second, "the effect", func() bool {
			n, err := s.provider.Count(context.Background(), test.service)
			return err == nil && n == before+1
		})
		s.gateway.kill()
		s.gateway.run()
		if v := s.get(test.key, "?wait=30s"); v.State != "succeeded" || v.Reference == "" {
			t.Errorf("%s after the crash: %s", test.service, v.raw)
		}
		s.effects(test.service, before+1)
	}
}

// tools is what each of the sandbox's tools is called with; %d makes intents.
var tools = []struct {
	name, arguments, reordered, changed string
	review                              bool // nothing can be known after a lost answer
}{
	{name: sandbox.Payment, arguments: `{"order_id":"o%d","amount":99,"currency":"CNY"}`, reordered: `{"currency":"CNY", "amount":99.0, "order_id":"o%d"}`, changed: `{"order_id":"o%d","amount":100,"currency":"CNY"}`},
	{name: sandbox.Ticket, arguments: `{"case_id":"c%d","title":"disk full"}`, reordered: `{"title":"disk\u0020full","case_id":"c%d"}`, changed: `{"case_id":"c%d","title":"disk empty"}`},
	{name: sandbox.Mail, arguments: `{"reference":"r%d","to":"ann@example.com","subject":"hello"}`, reordered: `{"subject":"hello","to":"ann@example.com","reference":"r%d"}`, changed: `{"reference":"r%d","to":"ann@example.com","subject":"goodbye"}`},
	{name: sandbox.Post, arguments: `{"reference":"p%d","channel":"ops","text":"deployed"}`, reordered: `{"text":"deployed","channel":"ops","reference":"p%d"}`, changed: `{"reference":"p%d","channel":"ops","text":"rolled back"}`, review: true},
}

// Cases A to F: what a retry does without, how keys are derived, replays,
// conflicts, joins, leftovers of a crash. (G, the end of a key's time, runs
// under a virtual clock in the root package.)
func TestStory_Cases(t *testing.T) {
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			s := newStage(t)
			args := func(format string, n int) string { return fmt.Sprintf(format, n) }

			// B: order and spelling of the arguments do not matter, scope does.
			// C: three calls, one effect.
			first := s.call("", tool.name, args(tool.arguments, 1))
			for range 2 {
				again := s.call("", tool.name, args(tool.reordered, 1))
				if again.Key != first.Key || !again.Replayed || string(again.Result) != string(first.Result) {
					t.Errorf("replay: %s, first: %s", again.raw, first.raw)
				}
			}
			s.effects(tool.name, 1)
			scoped := mustRequest(t, http.MethodPost, s.url+"/v1/tool-calls",
				fmt.Sprintf(`{"name":%q,"scope":"bob","arguments":%s}`, tool.name, args(tool.arguments, 1)))
			if scoped.Key == first.Key || scoped.Replayed {
				t.Errorf("another scope: %s", scoped.raw)
			}
			s.effects(tool.name, 2)

			// D: another intent has another key; the same with other words is refused.
			if v := s.call("", tool.name, args(tool.arguments, 2)); v.Key == first.Key || v.Replayed {
				t.Errorf("another intent: %s", v.raw)
			}
			if v := s.call("", tool.name, args(tool.changed, 2)); v.Status != 409 || len(v.Paths) != 1 {
				t.Errorf("the same intent in other words: %d %s", v.Status, v.raw)
			}
			s.effects(tool.name, 3)

			// E: five at once.
			s.inject(sandbox.Fault{Service: tool.name, Kind: sandbox.SlowReply, Delay: 500 * time.Millisecond})
			var wg sync.WaitGroup
			var mu sync.Mutex
			joined := 0
			for range 5 {
				wg.Go(func() {
					v := s.call("five", tool.name, args(tool.arguments, 3))
					mu.Lock()
					defer mu.Unlock()
					if v.State != "succeeded" {
						t.Errorf("one of five: %s", v.raw)
					}
					if v.Joined || v.Replayed {
						joined++
					}
				})
			}
			wg.Wait()
			if joined != 4 {
				t.Errorf("%d of five joined, want 4", joined)
			}
			s.effects(tool.name, 4)

			// F: only what was under way is left over by a crash.
			s.inject(sandbox.Fault{Service: tool.name, Kind: sandbox.SlowReply, Delay: time.Minute})
			go request(context.Background(), http.MethodPost, s.url+"/v1/tool-calls",
				fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool.name, args(tool.arguments, 4)), "Idempotency-Key", "left")
			await(t, 10*time.Second, "the effect", func() bool {
				n, err := s.provider.Count(context.Background(), tool.name)
				return err == nil && n == 5
			})
			s.gateway.kill()
			s.gateway.run()
			v := s.get("left", "?wait=30s")
			if want := map[bool]string{false: "succeeded", true: "review"}[tool.review]; v.State != want {
				t.Errorf("the leftover is %s, want %s: %s", v.State, want, v.raw)
			}
			if v := s.call("", tool.name, args(tool.arguments, 1)); !v.Replayed {
				t.Errorf("what had ended before the crash: %s", v.raw)
			}
			s.effects(tool.name, 5)
		})
	}
}

// The three tests that every writing tool must pass.
func TestStory_ThreeTests(t *testing.T) {
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			s := newStage(t)
			args := func(n int) string { return fmt.Sprintf(tool.arguments, n) }
			want := map[bool]string{false: "succeeded", true: "review"}[tool.review]

			// It succeeded and the answer was lost: one effect.
			s.inject(sandbox.Fault{Service: tool.name, Kind: sandbox.LostReply})
			for range 2 {
				if v := s.call("lost", tool.name, args(1), "Prefer", "wait=30"); v.State != want {
					t.Errorf("lost reply: %s", v.raw)
				}
			}
			s.effects(tool.name, 1)

			// It never arrived. Whoever listens there took the connection, so
			// that only a provider that can be asked proves it.
			s.inject(sandbox.Fault{Service: tool.name, Kind: sandbox.CutBefore})
			v := s.call("cut", tool.name, args(2), "Prefer", "wait=30")
			if tool.review {
				s.effects(tool.name, 1)
			} else {
				s.effects(tool.name, 2)
			}
			if v.State != want {
				t.Errorf("never arrived: %s", v.raw)
			}

			// Two at once: one runs, the other gets its result.
			before, err := s.provider.Count(context.Background(), tool.name)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			results := make([]string, 2)
			for i := range results {
				wg.Go(func() { results[i] = string(s.call("", tool.name, args(3)).Result) })
			}
			wg.Wait()
			if results[0] != results[1] || results[0] == "" {
				t.Errorf("two results: %q", results)
			}
			s.effects(tool.name, before+1)
		})
	}
}

// A long-running job: started once, a duplicate gets the progress, and what
// was started before a crash is polled to its end after it.
func TestStory_Job(t *testing.T) {
	s := newStage(t)
	const args = `{"export_id":"e1","format":"csv"}`
	for i := range 2 {
		v := s.call("", sandbox.Job, args, "Prefer", "wait=1")
		if v.Status != http.StatusAccepted || v.State != "running" || v.Reference == "" || v.Joined != (i > 0) {
			t.Errorf("call %d: %d %s", i, v.Status, v.raw)
		}
	}
	s.gateway.kill()
	s.gateway.run()
	v := s.call("", sandbox.Job, args, "Prefer", "wait=1")
	if v.State != "running" {
		t.Errorf("after the crash: %s", v.raw)
	}
	if err := s.provider.FinishJob(context.Background(), v.Reference, sandbox.JobUpdate{Status: sandbox.JobDone}); err != nil {
		t.Fatal(err)
	}
	if v = s.get(v.Key, "?wait=30s"); v.State != "succeeded" {
		t.Errorf("once the job is done: %s", v.raw)
	}
	if again := s.call("", sandbox.Job, args); !again.Replayed || string(again.Result) != string(v.Result) {
		t.Errorf("again: %s", again.raw)
	}

	// The answer to the start is lost: found, and polled.
	s.inject(sandbox.Fault{Service: sandbox.Job, Kind: sandbox.LostReply})
	lost := s.call("lost", sandbox.Job, `{"export_id":"e2"}`, "Prefer", "wait=5")
	if lost.State != "running" || lost.Reference == "" {
		t.Errorf("a lost start: %s", lost.raw)
	}
	s.effects(sandbox.Job, 2)
}
