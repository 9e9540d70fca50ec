package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/justonce-dev/justonce/sandbox"
)

var (
	chaosKills      = flag.Int("chaos.kills", 3, "how often the gateway gets SIGKILL")
	chaosOperations = flag.Int("chaos.operations", 400, "how many intents the clients have")
	chaosSeed       = flag.Uint64("chaos.seed", 0, "seed of the clients' choices; 0: a new one")
)

const chaosClients = 64

// chaos is one run: clients that time out and retry, a provider that loses
// answers, gateways that are killed.
type chaos struct {
	t        *testing.T
	gateways []string // of one ledger; clients call any of them
	intents  int
	sandbox  sandbox.Client
	started  atomic.Int64
	answered atomic.Int64 // intents whose call the gateway answered with 200 or 202
	requests atomic.Int64
	down     atomic.Int64 // requests that got no answer
	refused  atomic.Int64 // requests that were refused since the ledger was down

	unsure func() bool // whether what is read now may be forgotten by a failover

	mu      sync.Mutex
	keys    map[string]intent // by the key that the gateway named
	answers map[answer]heard
}

// An intent is one thing that a client wants to happen once.
type intent struct {
	n       int
	service string
	given   bool // the client names a key
	fresh   bool // a new one with each try
}

func (in intent) arguments() string {
	switch in.service {
	case sandbox.Payment:
		return fmt.Sprintf(`{"order_id":"order-%d","amount":%d,"currency":"CNY"}`, in.n, 100+in.n)
	case sandbox.Ticket:
		return fmt.Sprintf(`{"case_id":"alert-%d","title":"disk %d full"}`, in.n, in.n)
	case sandbox.Mail:
		return fmt.Sprintf(`{"reference":"receipt-%d","to":"user-%d@example.com","subject":"receipt"}`, in.n, in.n)
	}
	return fmt.Sprintf(`{"reference":"deploy-%d","channel":"ops","text":"deploy %d"}`, in.n, in.n)
}

// effect is how the provider names the intent.
func (in intent) effect() string {
	switch in.service {
	case sandbox.Payment:
		return fmt.Sprintf("order-%d", in.n)
	case sandbox.Ticket:
		return fmt.Sprintf("alert-%d", in.n)
	case sandbox.Mail:
		return fmt.Sprintf("user-%d@example.com", in.n)
	}
	return fmt.Sprintf("deploy %d", in.n)
}

var effectMember = map[string]string{
	sandbox.Payment: "order_id", sandbox.Ticket: "case_id", sandbox.Mail: "to", sandbox.Post: "text",
}

func newIntent(n int, rng *rand.Rand) intent {
	in := intent{n: n, given: rng.IntN(2) == 0}
	switch p := rng.IntN(100); {
	case p < 40:
		in.service = sandbox.Payment
	case p < 65:
		in.service = sandbox.Ticket
	case p < 85:
		in.service = sandbox.Mail
	default:
		in.service = sandbox.Post
	}
	// A fresh key with each try is caught by the declared identity.
	in.fresh = in.given && rng.IntN(2) == 0
	return in
}

func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills processes for half a minute")
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos.seed=%d", seed)
	dir := t.TempDir()
	provider, gateway := address(t), address(t)
	start(t, "http://"+provider+"/effects/count", binary, "sandbox", "--listen", provider, "--journal", filepath.Join(dir, "effects.jsonl"))
	g := start(t, "http://"+gateway+"/readyz", binary, "serve", "--config", "testdata/chaos.yaml",
		"--store", filepath.Join(dir, "justonce.db"), "--listen", gateway, "--sandbox", "http://"+provider)
	c := newChaos(t, *chaosOperations, "http://"+provider, "http://"+gateway)
	c.arm()

	var clients sync.WaitGroup
	for i := range chaosClients {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() { c.client(rng) })
	}
	// The moments of death are spread over the clients' progress.
	every := float64(*chaosOperations) / float64(*chaosKills+1)
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	for k := range *chaosKills {
		at := int64(every * (float64(k) + 0.5 + rng.Float64()))
		await(t, 2*time.Minute, fmt.Sprintf("%d intents before kill %d", at, k+1), func() bool {
			return c.started.Load() >= min(at, int64(*chaosOperations))
		})
		g.kill()
		g.run()
	}
	clients.Wait()
	fired, err := c.sandbox.Fired(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("faults that struck: %v; %d times kill -9", fired, *chaosKills)
	if err := c.sandbox.Disarm(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.quiet()
	c.count()
	g.kill()
	g.run()
	c.kept(c.gateways[0])
}

func newChaos(t *testing.T, intents int, provider string, gateways ...string) *chaos {
	return &chaos{t: t, gateways: gateways, intents: intents,
		unsure: func() bool { return false }, keys: map[string]intent{}, answers: map[answer]heard{},
		sandbox: sandbox.Client{URL: provider, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}}
}

// arm makes the provider unreliable in every way it can.
func (c *chaos) arm() {
	c.t.Helper()
	for _, f := range []sandbox.Fault{
		{Kind: sandbox.LostReply, Probability: 0.06},
		{Kind: sandbox.LostReply, Probability: 0.02, Reset: true},
		{Kind: sandbox.CutBefore, Probability: 0.04},
		{Kind: sandbox.CutMid, Probability: 0.04},
		{Kind: sandbox.Error500After, Probability: 0.02},
		{Kind: sandbox.Error500Before, Probability: 0.02},
		{Kind: sandbox.RateLimit, Probability: 0.03, Delay: time.Second},
		{Kind: sandbox.Error503, Probability: 0.02, Delay: time.Second},
		{Kind: sandbox.Slow, Probability: 0.05, Delay: 300 * time.Millisecond},
		{Kind: sandbox.SlowReply, Probability: 0.05, Delay: 300 * time.Millisecond},
		{Kind: sandbox.ListLag, On: sandbox.OnRead, Probability: 0.3, Delay: 500 * time.Millisecond},
	} {
		f.Times = -1
		if err := c.sandbox.Inject(context.Background(), f); err != nil {
			c.t.Fatal(err)
		}
	}
}

// client works through intents until there are none left.
func (c *chaos) client(rng *rand.Rand) {
	for {
		n := int(c.started.Add(1))
		if n > c.intents {
			return
		}
		c.insist(newIntent(n, rng), rng)
	}
}

// insist calls until the operation has ended or waits for a person, as an agent
// does that loses patience and tries again. It gives up, after 60 tries, only what
// was accepted.
func (c *chaos) insist(in intent, rng *rand.Rand) {
	accepted, ended := false, false
	deadline := time.Now().Add(2 * time.Minute)
	for try := 0; !ended && (try < 60 || !accepted); try++ {
		if time.Now().After(deadline) {
			c.t.Errorf("%+v: not accepted in two minutes and %d tries", in, try)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+rng.IntN(3000))*time.Millisecond)
		v, err := c.call(ctx, c.gateways[rng.IntN(len(c.gateways))], in, try, rng.IntN(3))
		switch {
		case err != nil:
			c.down.Add(1)
			pause(ctx, rng)
		case v.Status == http.StatusOK || v.Status == http.StatusAccepted:
			c.accept(in, v)
			accepted = true
			ended = v.State == "succeeded" || v.State == "failed" || v.State == "review"
		case v.Status == http.StatusServiceUnavailable:
			c.refused.Add(1)
			pause(ctx, rng)
		default:
			c.t.Errorf("%+v: %d %s", in, v.Status, v.raw)
			ended = true
		}
		cancel()
	}
	c.answered.Add(1)
}

// call sends a try of the intent to a gateway, which may take wait seconds.
func (c *chaos) call(ctx context.Context, gateway string, in intent, try, wait int) (*view, error) {
	header := []string{"Prefer", fmt.Sprintf("wait=%d", wait)}
	switch {
	case in.fresh:
		header = append(header, "Idempotency-Key", fmt.Sprintf("fresh-%d-%d", in.n, try))
	case in.given:
		header = append(header, "Idempotency-Key", fmt.Sprintf("intent-%d", in.n))
	}
	defer c.requests.Add(1)
	return request(ctx, http.MethodPost, gateway+"/v1/tool-calls", fmt.Sprintf(`{"name":%q,"arguments":%s}`, in.service, in.arguments()), header...)
}

// pause keeps a gateway that is down from being hammered.
func pause(ctx context.Context, rng *rand.Rand) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(rng.IntN(100)) * time.Millisecond):
	}
}

// operations reads the whole ledger through the list.
func (c *chaos) operations(query string) []view {
	c.t.Helper()
	var all []view
	for cursor := ""; ; {
		v := mustRequest(c.t, http.MethodGet, c.gateways[0]+"/v1/tool-calls?limit=1000&cursor="+url.QueryEscape(cursor)+query, "")
		var page struct {
			Operations []view
			Next       string
		}
		if err := json.Unmarshal(v.raw, &page); err != nil || v.Status != http.StatusOK {
			c.t.Fatal(v.Status, err, string(v.raw))
		}
		all = append(all, page.Operations...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// quiet waits until nothing is open.
func (c *chaos) quiet() {
	c.t.Helper()
	await(c.t, 2*time.Minute, "all operations to end or to reach a person", func() bool {
		return len(c.operations("&state=pending,running,unknown")) == 0
	})
}

// count compares the provider's effects with the ledger.
func (c *chaos) count() {
	t := c.t
	t.Helper()
	effects, err := c.sandbox.Effects(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	happened := map[string]int{}
	for _, e := range effects {
		name, _ := e.Field(effectMember[e.Service])
		happened[e.Service+" "+name]++
	}
	states := map[string]int{}
	recorded := map[string]view{}
	for _, op := range c.operations("") {
		recorded[op.Key] = op
		states[op.Tool+" "+op.State]++
	}
	accepted := map[int]bool{}
	byIntent := map[string]int{}
	for key, in := range c.keys {
		op, ok := recorded[key]
		if !ok {
			t.Errorf("%+v was accepted as %s and is not in the ledger", in, key)
			continue
		}
		accepted[in.n] = true
		name := in.service + " " + in.effect()
		byIntent[name]++
		n := happened[name]
		switch op.State {
		case "succeeded":
			if n != 1 {
				t.Errorf("%s succeeded with %d effects: %s", name, n, key)
			}
		case "failed":
			if n != 0 {
				t.Errorf("%s failed (%s) with %d effects: %s", name, op.Reason, n, key)
			}
		case "review":
		default:
			t.Errorf("%s is still %s", name, op.State)
		}
	}
	for name, n := range byIntent {
		if n > 1 {
			t.Errorf("%s has %d operations", name, n)
		}
	}
	if len(accepted) != c.intents || len(recorded) != c.intents {
		t.Errorf("of %d intents %d were accepted and are in the ledger, which has %d operations", c.intents, len(accepted), len(recorded))
	}
	duplicates := 0
	for name, n := range happened {
		if n > 1 {
			duplicates++
			t.Errorf("%s happened %d times", name, n)
		}
	}
	t.Logf("%d intents, %d requests of which %d got no answer and %d were refused, %d operations, %d effects, %d duplicates; %v",
		c.intents, c.requests.Load(), c.down.Load(), c.refused.Load(), len(recorded), len(effects), duplicates, states)
}
