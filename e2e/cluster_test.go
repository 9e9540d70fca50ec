//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/sandbox"
)

// A cluster is gateways on one PostgreSQL, with the provider apart.
type cluster struct {
	t        *testing.T
	server   *pgtest.Server // the primary
	standby  *pgtest.Server // nil: there is none
	provider string
	urls     []string
	gateways []*process
	toxiAPI  string
	proxies  [][]string // of each gateway; none: it reaches the server directly

	failingOver atomic.Bool // a primary is about to be lost, or has just been
}

// startCluster starts n gateways with further flags on a single server.
func startCluster(t *testing.T, n int, flags ...string) *cluster {
	t.Helper()
	pgtest.Skip(t)
	c := newCluster(t)
	for range n {
		c.serve([]string{c.address()}, flags...)
	}
	return c
}

// startWholeCluster starts n gateways with further flags on a server with a
// synchronous standby. Toxiproxy stands between each gateway and the servers. Half
// of the gateways know one address, which leads to the primary; the others both
// servers, and find it.
func startWholeCluster(t *testing.T, n int, flags ...string) *cluster {
	t.Helper()
	pgtest.Skip(t)
	toxiproxy := program(t, "JUSTONCE_TOXIPROXY")
	c := newCluster(t, pgtest.Synchronous()...)
	var err error
	if c.standby, err = c.server.Standby(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stopServer(t, c.standby))
	c.awaitSync()
	api := address(t)
	host, port, _ := net.SplitHostPort(api)
	c.toxiAPI = "http://" + api
	start(t, c.toxiAPI+"/version", toxiproxy, "-host", host, "-port", port)
	for i := range n {
		var names, addresses []string
		for j, server := range []*pgtest.Server{c.server, c.standby}[:1+i%2] {
			name, at := fmt.Sprintf("g%d-%d", i, j), address(t)
			c.toxi(http.MethodPost, "/proxies", fmt.Sprintf(`{"name":%q,"listen":%q,"upstream":"127.0.0.1:%d","enabled":true}`, name, at, server.Port))
			names, addresses = append(names, name), append(addresses, at)
		}
		c.proxies = append(c.proxies, names)
		c.serve(addresses, flags...)
	}
	return c
}

// newCluster starts a server and the provider.
func newCluster(t *testing.T, settings ...string) *cluster {
	t.Helper()
	// What is lost with the machine is not what these tests ask.
	server, err := pgtest.Start(append(settings, "fsync=off")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stopServer(t, server))
	provider := address(t)
	start(t, "http://"+provider+"/effects/count", binary, "sandbox", "--listen", provider, "--journal", filepath.Join(t.TempDir(), "effects.jsonl"))
	return &cluster{t: t, server: server, provider: "http://" + provider}
}

func stopServer(t *testing.T, s *pgtest.Server) func() {
	return func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// address is where the primary is.
func (c *cluster) address() string { return fmt.Sprintf("127.0.0.1:%d", c.server.Port) }

// serve starts a gateway whose ledger is at the one of addresses that takes writes.
func (c *cluster) serve(addresses []string, flags ...string) {
	c.t.Helper()
	listen := address(c.t)
	args := []string{binary, "serve", "--store", "postgres://ann@" + strings.Join(addresses, ",") + "/postgres?sslmode=disable&target_session_attrs=read-write",
		"--listen", listen, "--sandbox", c.provider, "--worker", fmt.Sprintf("gateway-%d", len(c.gateways))}
	c.gateways = append(c.gateways, start(c.t, "http://"+listen+"/readyz", append(args, flags...)...))
	c.urls = append(c.urls, "http://"+listen)
}

// clusterCatalog writes a catalog with one tool, whose attempts may take long and
// are missed soon.
func clusterCatalog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "justonce.yaml")
	const text = "tools:\n  payment: {preset: sandbox/payment, timeout: 30s, lease: 3s, settle: 1s, retries: {base: 100ms}}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

type clusterAnswer struct {
	*view
	at time.Time
}

// pay calls a gateway, and returns where its answer will be.
func (c *cluster) pay(gateway int, order string) <-chan clusterAnswer {
	answer := make(chan clusterAnswer, 1)
	go func() {
		v := mustRequest(c.t, http.MethodPost, c.urls[gateway]+"/v1/tool-calls",
			fmt.Sprintf(`{"name":"payment","arguments":{"order_id":%q,"amount":9900,"currency":"CNY"}}`, order),
			"Idempotency-Key", order, "Prefer", "wait=50")
		answer <- clusterAnswer{v, time.Now()}
	}()
	return answer
}

func (c *cluster) effects() int {
	c.t.Helper()
	client := sandbox.Client{URL: c.provider}
	n, err := client.Count(c.t.Context(), sandbox.Payment)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func (c *cluster) slow(delay time.Duration, times int) {
	c.t.Helper()
	client := sandbox.Client{URL: c.provider}
	err := client.Inject(c.t.Context(), sandbox.Fault{Service: sandbox.Payment, Kind: sandbox.SlowReply, Delay: delay, Times: times})
	if err != nil {
		c.t.Fatal(err)
	}
}

// A gateway that is frozen in the middle of a send, for longer than its lease,
// is replaced: one effect. What it hears once it wakes is kept as evidence.
func TestCluster_FrozenGateway(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, "--config", clusterCatalog(t))
	c.slow(time.Second, 1)
	first := c.pay(0, "order-1")
	await(t, 20*time.Second, "the effect", func() bool { return c.effects() == 1 })
	frozen := c.gateways[0].cmd.Process
	if err := frozen.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	taken := <-c.pay(1, "order-1")
	if taken.State != "succeeded" || !taken.Joined || taken.Attempts != 2 {
		t.Errorf("the other gateway: %s", taken.raw)
	}
	if err := frozen.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if woken := <-first; woken.State != "succeeded" || woken.Reference != taken.Reference {
		t.Errorf("the frozen gateway: %s", woken.raw)
	}
	var history struct {
		Entries []struct{ Kind, Outcome, Reference, State string }
	}
	late := func() int {
		v := mustRequest(t, http.MethodGet, c.urls[1]+"/v1/tool-calls/order-1/history", "")
		if err := json.Unmarshal(v.raw, &history); err != nil {
			t.Fatal(err, string(v.raw))
		}
		return slices.IndexFunc(history.Entries, func(e struct{ Kind, Outcome, Reference, State string }) bool { return e.Kind == "late" })
	}
	await(t, 20*time.Second, "the late answer in the history", func() bool { return late() >= 0 })
	if e := history.Entries[late()]; e.Outcome != "succeeded" || e.Reference != taken.Reference || e.State != "succeeded" {
		t.Errorf("the late answer: %+v", e)
	}
	if n := c.effects(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// A duplicate that waits at another gateway gets the result as soon as there is
// one. By looking alone it would take two seconds here.
func TestCluster_DuplicateElsewhere(t *testing.T) {
	t.Parallel()
	const calls = 8
	c := startCluster(t, 2, "--config", clusterCatalog(t), "--poll", "1m")
	c.slow(4600*time.Millisecond, calls)
	var firsts, seconds []<-chan clusterAnswer
	for i := range calls {
		firsts = append(firsts, c.pay(0, fmt.Sprintf("order-%d", i)))
	}
	await(t, 20*time.Second, "the effects", func() bool { return c.effects() == calls })
	for i := range calls {
		seconds = append(seconds, c.pay(1, fmt.Sprintf("order-%d", i)))
	}
	var late []time.Duration
	for i := range calls {
		first, second := <-firsts[i], <-seconds[i]
		if first.State != "succeeded" || second.State != "succeeded" || !second.Joined || string(first.Result) != string(second.Result) {
			t.Errorf("%s and then %s", first.raw, second.raw)
		}
		late = append(late, second.at.Sub(first.at).Round(time.Millisecond))
	}
	slices.Sort(late)
	t.Logf("duplicates at another gateway had the result later by %v", late)
	if late[calls-1] > time.Second {
		t.Errorf("a duplicate at another gateway waited %v longer than the first", late[calls-1])
	}
	if n := c.effects(); n != calls {
		t.Errorf("%d effects, want %d", n, calls)
	}
}

// A decision that is made on the ledger itself is carried out at once, not after
// the minute until somebody looks.
func TestCluster_DecisionOnTheLedger(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, "--config", clusterCatalog(t), "--poll", "1m")
	client := sandbox.Client{URL: c.provider}
	if v := <-c.pay(0, "o-1"); v.State != "succeeded" {
		t.Fatalf("%s", v.raw)
	}
	if err := client.Inject(t.Context(), sandbox.Fault{Service: sandbox.Payment, Kind: sandbox.RateLimit, Times: -1, Delay: 55 * time.Second}); err != nil {
		t.Fatal(err)
	}
	v := mustRequest(t, http.MethodPost, c.urls[0]+"/v1/tool-calls",
		`{"name":"payment","arguments":{"order_id":"o-2","amount":1,"currency":"CNY"}}`, "Idempotency-Key", "o-2", "Prefer", "wait=1")
	if v.State != "pending" {
		t.Fatalf("a call that is held off: %s", v.raw)
	}
	if err := client.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := "postgres://ann@" + c.address() + "/postgres?sslmode=disable"
	for _, decide := range []string{"cancel", "redrive"} {
		p := start(t, "", binary, decide, "o-2", "--store", store, "--reason", "a test")
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", decide, err, p.tail())
		}
		p.cmd = nil
	}
	decided := time.Now()
	await(t, 30*time.Second, "a gateway to take it up", func() bool { return c.effects() == 2 })
	t.Logf("redriven on the ledger, it had its effect after %v", time.Since(decided).Round(time.Millisecond))
}
