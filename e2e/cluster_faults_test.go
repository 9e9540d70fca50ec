//go:build unix

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
)

// A clusterFault breaks something, waits until the clients have noticed, and
// mends it.
type clusterFault struct {
	name  string
	times int // of each 15 faults
	do    func(c *cluster, rng *rand.Rand, noticed func())
}

var clusterFaultKinds = []clusterFault{
	{"gateway killed", 3, func(c *cluster, rng *rand.Rand, noticed func()) {
		g := c.gateways[rng.IntN(len(c.gateways))]
		g.kill()
		noticed()
		g.run()
	}},
	{"server crashed", 3, func(c *cluster, _ *rand.Rand, _ func()) {
		if err := c.server.Crash(); err != nil {
			c.t.Fatal(err)
		}
	}},
	// Commits wait for it.
	{"standby crashed", 1, func(c *cluster, _ *rand.Rand, _ func()) {
		if err := c.standby.Crash(); err != nil {
			c.t.Fatal(err)
		}
	}},
	{"standby promoted", 1, func(c *cluster, _ *rand.Rand, noticed func()) { c.failOver(noticed) }},
	{"gateway cut off", 2, func(c *cluster, rng *rand.Rand, noticed func()) {
		proxies := c.proxies[rng.IntN(len(c.proxies))]
		for _, p := range proxies {
			c.toxi(http.MethodPost, "/proxies/"+p, `{"enabled":false}`)
		}
		noticed()
		for _, p := range proxies {
			c.toxi(http.MethodPost, "/proxies/"+p, `{"enabled":true}`)
		}
	}},
	// Answers of commits get lost.
	{"answers cut", 3, func(c *cluster, rng *rand.Rand, noticed func()) {
		for _, proxies := range c.proxies {
			for _, p := range proxies {
				c.toxi(http.MethodPost, "/proxies/"+p+"/toxics", fmt.Sprintf(
					`{"name":"cut","type":"limit_data","stream":"downstream","attributes":{"bytes":%d}}`, 500+rng.IntN(3000)))
			}
		}
		noticed()
		for _, proxies := range c.proxies {
			for _, p := range proxies {
				c.toxi(http.MethodDelete, "/proxies/"+p+"/toxics/cut", "")
			}
		}
	}},
	{"gateway frozen", 2, func(c *cluster, rng *rand.Rand, noticed func()) {
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

// shuffledFaults returns 15 faults in any order.
func shuffledFaults(rng *rand.Rand) []clusterFault {
	var deck []clusterFault
	for _, f := range clusterFaultKinds {
		for range f.times {
			deck = append(deck, f)
		}
	}
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// failOver kills the primary while its standby is in step, promotes that one, and
// makes the killed one its standby. Until there is a standby again commits wait.
func (c *cluster) failOver(noticed func()) {
	c.failingOver.Store(true)
	defer c.failingOver.Store(false)
	c.awaitSync()
	if err := c.server.Kill(); err != nil {
		c.t.Fatal(err)
	}
	noticed()
	if err := c.standby.Promote(); err != nil {
		c.t.Fatal(err)
	}
	c.server, c.standby = c.standby, c.server
	for _, proxies := range c.proxies {
		if len(proxies) == 1 {
			c.toxi(http.MethodPost, "/proxies/"+proxies[0], fmt.Sprintf(`{"upstream":%q}`, c.address()))
		}
	}
	if err := c.standby.Follow(c.server); err != nil {
		c.t.Fatal(err)
	}
	c.awaitSync()
}

// awaitSync waits until the standby has whatever was acknowledged.
func (c *cluster) awaitSync() {
	c.t.Helper()
	if err := c.server.AwaitSync(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) toxi(method, path, body string) {
	c.t.Helper()
	if v := mustRequest(c.t, method, c.toxiAPI+path, body); v.Status >= 300 {
		c.t.Fatalf("toxiproxy: %s %s: %d %s", method, path, v.Status, v.raw)
	}
}
