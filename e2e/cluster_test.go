//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/internal/pgtest"
	"github.com/justonce-dev/justonce/sandbox"
)

var (
	clusterFaults     = flag.Int("cluster.faults", 5, "how often something of the cluster is killed or cut")
	clusterOperations = flag.Int("cluster.operations", 300, "how many intents the clients of the cluster have")
	clusterSeed       = flag.Uint64("cluster.seed", 0, "seed of the cluster's faults and clients; 0: a new one")
)

const clusterClients = 32

// A cluster is gateways on one PostgreSQL, with the provider apart.
type cluster struct {
	t        *testing.T
	server   *pgtest.Server
	provider string
	urls     []string
	gateways []*process
	proxies  string // toxiproxy's API; "": the gateways reach the server directly
}

// startCluster starts n gateways with further flags. With cut, toxiproxy stands
// between each of them and the server.
func startCluster(t *testing.T, n int, cut bool, flags ...string) *cluster {
	t.Helper()
	pgtest.Skip(t)
	toxiproxy := ""
	if cut {
		toxiproxy = program(t, "JUSTONCE_TOXIPROXY")
	}
	// What is lost with the machine is not what these tests ask.
	server, err := pgtest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	provider := address(t)
	start(t, "http://"+provider+"/effects/count", binary, "sandbox", "--listen", provider, "--journal", filepath.Join(t.TempDir(), "effects.jsonl"))
	c := &cluster{t: t, server: server, provider: "http://" + provider}
	if cut {
		api := address(t)
		host, port, _ := net.SplitHostPort(api)
		c.proxies = "http://" + api
		start(t, c.proxies+"/version", toxiproxy, "-host", host, "-port", port)
	}
	for i := range n {
		at := fmt.Sprintf("127.0.0.1:%d", server.Port)
		if cut {
			proxy := address(t)
			c.toxi(http.MethodPost, "/proxies", fmt.Sprintf(`{"name":"g%d","listen":%q,"upstream":%q,"enabled":true}`, i, proxy, at))
			at = proxy
		}
		addr := address(t)
		args := []string{binary, "serve", "--store", "postgres://ann@" + at + "/postgres?sslmode=disable", "--listen", addr,
			"--sandbox", c.provider, "--worker", fmt.Sprintf("gateway-%d", i)}
		c.gateways = append(c.gateways, start(t, "http://"+addr+"/readyz", append(args, flags...)...))
		c.urls = append(c.urls, "http://"+addr)
	}
	return c
}

func (c *cluster) toxi(method, path, body string) {
	c.t.Helper()
	if v := mustRequest(c.t, method, c.proxies+path, body); v.Status >= 300 {
		c.t.Fatalf("toxiproxy: %s %s: %d %s", method, path, v.Status, v.raw)
	}
}

// A clusterFault breaks something, waits until the clients have noticed, and
// mends it.
type clusterFault struct {
	name string
	do   func(c *cluster, rng *rand.Rand, noticed func())
}

var clusterFaultKinds = []clusterFault{
	{"gateway killed", func(c *cluster, rng *rand.Rand, noticed func()) {
		g := c.gateways[rng.IntN(len(c.gateways))]
		g.kill()
		noticed()
		g.run()
	}},
	{"server crashed", func(c *cluster, rng *rand.Rand, noticed func()) {
		if err := c.server.Crash(); err != nil {
			c.t.Fatal(err)
		}
	}},
	{"gateway cut off", func(c *cluster, rng *rand.Rand, noticed func()) {
		proxy := fmt.Sprintf("/proxies/g%d", rng.IntN(len(c.gateways)))
		c.toxi(http.MethodPost, proxy, `{"enabled":false}`)
		noticed()
		c.toxi(http.MethodPost, proxy, `{"enabled":true}`)
	}},
	// Answers of commits get lost.
	{"answers cut", func(c *cluster, rng *rand.Rand, noticed func()) {
		for i := range c.gateways {
			c.toxi(http.MethodPost, fmt.Sprintf("/proxies/g%d/toxics", i), fmt.Sprintf(
				`{"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":%d}}`, 500+rng.IntN(3000)))
		}
		noticed()
		for i := range c.gateways {
			c.toxi(http.MethodDelete, fmt.Sprintf("/proxies/g%d/toxics/cut", i), "")
		}
	}},
	{"gateway frozen", func(c *cluster, rng *rand.Rand, noticed func()) {
		g := c.gateways[rng.IntN(len(c.gateways))].cmd.Process
		if err := g.Signal(syscall.SIGSTOP); err != nil {
			c.t.Fatal(err)
		}
		noticed()
		if err := g.Signal(syscall.SIGCONT); err != nil {
			c.t.Fatal(err)
		}
	}},
}

// Four gateways on one PostgreSQL, and everything between them fails: each
// intent has one effect all the same, and nothing that was accepted is lost.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills processes for half a minute")
	}
	seed := *clusterSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-cluster.seed=%d", seed)
	cl := startCluster(t, 4, true, "--config", "testdata/chaos.yaml")
	c := newChaos(t, *clusterOperations, cl.provider, cl.urls...)
	c.arm()
	var clients sync.WaitGroup
	for i := range clusterClients {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() { c.client(rng) })
	}
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	every := float64(*clusterOperations) / float64(*clusterFaults+1)
	kinds, done := []int{}, map[string]int{}
	for k := range *clusterFaults {
		at := int64(every * (float64(k) + 0.5 + rng.Float64()/2))
		await(t, 2*time.Minute, fmt.Sprintf("%d intents before fault %d", at, k+1), func() bool {
			return c.started.Load() >= min(at, int64(*clusterOperations))
		})
		if len(kinds) == 0 {
			kinds = rng.Perm(len(clusterFaultKinds))
		}
		fault := clusterFaultKinds[kinds[0]]
		kinds = kinds[1:]
		fault.do(cl, rng, func() {
			until := c.requests.Load() + 40
			await(t, time.Minute, "the clients to notice: "+fault.name, func() bool {
				return c.requests.Load() >= until || c.answered.Load() >= int64(*clusterOperations)
			})
		})
		done[fault.name]++
	}
	clients.Wait()
	fired, err := c.sandbox.Fired(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("faults of the provider that struck: %v; of the cluster: %v", fired, done)
	if err := c.sandbox.Disarm(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.quiet()
	c.count()
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
	c := startCluster(t, 2, false, "--config", clusterCatalog(t))
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
	c := startCluster(t, 2, false, "--config", clusterCatalog(t), "--poll", "1m")
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
	c := startCluster(t, 2, false, "--config", clusterCatalog(t), "--poll", "1m")
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
	store := "postgres://ann@" + fmt.Sprintf("127.0.0.1:%d", c.server.Port) + "/postgres?sslmode=disable"
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
