//go:build unix

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/sandbox"
)

var (
	clusterFaults     = flag.Int("cluster.faults", 5, "how often something of the cluster is killed or cut")
	clusterOperations = flag.Int("cluster.operations", 300, "how many intents the clients of the cluster have")
	clusterSeed       = flag.Uint64("cluster.seed", 0, "seed of the cluster's faults and clients; 0: a new one")
)

const clusterClients = 128

// Four gateways on one PostgreSQL with a synchronous standby, and everything
// between them fails: each intent has one effect all the same, and nothing that
// was accepted is lost.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills processes for half a minute")
	}
	seed := *clusterSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-cluster.seed=%d", seed)
	cl := startWholeCluster(t, 4, "--config", "testdata/chaos.yaml")
	c := newChaos(t, *clusterOperations, cl.provider, cl.urls...)
	c.unsure = cl.failingOver.Load
	c.arm()
	began := time.Now()
	var clients sync.WaitGroup
	supply := make(chan int, c.intents)
	for i := range clusterClients {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() { c.work(supply, rng) })
	}
	done := cl.fail(c, supply, rand.New(rand.NewPCG(seed, 1<<32)))
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
	t.Logf("all ended or in review after %v", time.Since(began).Round(time.Second))
	c.each()
	c.count()
	c.audit()
	cl.serve([]string{cl.address()}, "--config", "testdata/chaos.yaml")
	c.kept(cl.urls[len(cl.urls)-1])
}

// each sees that every gateway has recovered: it carries out a call by itself and
// replays another's.
func (c *chaos) each() {
	t := c.t
	t.Helper()
	call := func(gateway string, n int) *view {
		t.Helper()
		in := intent{n: n, service: sandbox.Payment, given: true}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		v, err := c.call(ctx, gateway, in, 0, 20)
		if err != nil {
			t.Fatal(err)
		}
		if v.State != "succeeded" {
			t.Fatalf("%s, at the end: %d %s", gateway, v.Status, v.raw)
		}
		c.accept(in, v)
		return v
	}
	first := c.intents + 1
	results := make([]string, len(c.gateways))
	for i, gateway := range c.gateways {
		await(t, 30*time.Second, gateway+" to be ready", func() bool { return serves(gateway + "/readyz") })
		c.intents++
		v := call(gateway, first+i)
		if v.Replayed || v.Joined {
			t.Errorf("%s has not carried out a new call: %s", gateway, v.raw)
		}
		results[i] = string(v.Result)
	}
	for i, gateway := range c.gateways {
		other := (i + 1) % len(c.gateways)
		if v := call(gateway, first+other); !v.Replayed || string(v.Result) != results[other] {
			t.Errorf("%s has not replayed another's %s: %s", gateway, results[other], v.raw)
		}
	}
}

// serves says whether a gateway answers 200 there within some seconds.
func serves(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	v, err := request(ctx, http.MethodGet, url, "")
	return err == nil && v.Status == http.StatusOK
}

// work is chaos.client with intents that are supplied.
func (c *chaos) work(supply <-chan int, rng *rand.Rand) {
	for n := range supply {
		c.started.Add(1)
		c.insist(newIntent(n, rng), rng)
	}
}

// fail lets faults happen, spread over the clients' progress, and returns how
// often each kind did. It supplies intents no faster than for two faults ahead,
// so that each fault meets clients at work.
func (cl *cluster) fail(c *chaos, supply chan<- int, rng *rand.Rand) map[string]int {
	defer close(supply)
	supplied := 0
	upTo := func(n int) {
		for supplied < min(n, c.intents) {
			supplied++
			supply <- supplied
		}
	}
	every := float64(c.intents) / float64(*clusterFaults+1)
	var deck []clusterFault
	done := map[string]int{}
	for k := range *clusterFaults {
		upTo(clusterClients + int(every*float64(k+2)))
		at := int64(every * (float64(k) + 0.5 + rng.Float64()/2))
		await(cl.t, 2*time.Minute, fmt.Sprintf("%d intents before fault %d", at, k+1), func() bool { return c.started.Load() >= at })
		if len(deck) == 0 {
			deck = shuffledFaults(rng)
		}
		fault := deck[0]
		deck = deck[1:]
		fault.do(cl, rng, func() {
			until := c.requests.Load() + clusterClients/2
			await(cl.t, time.Minute, "the clients to notice: "+fault.name, func() bool {
				return c.requests.Load() >= until || c.answered.Load() >= int64(supplied)
			})
		})
		done[fault.name]++
	}
	upTo(c.intents)
	return done
}
