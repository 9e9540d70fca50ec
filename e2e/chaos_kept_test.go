package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// An answer is what a client was told of an operation and what stays so: since
// when there is one, and how it ended.
type answer struct {
	key, created string
	end          string // state, reference, result and failure; "" until there is an end
}

// heard says how clients came by an answer.
type heard struct {
	times int
	sure  bool // first-hand, or when no failover was near
}

func answerOf(v *view) (answer, error) {
	var more struct {
		CreatedAt string `json:"created_at"`
		Failure   json.RawMessage
	}
	err := json.Unmarshal(v.raw, &more)
	a := answer{key: v.Key, created: more.CreatedAt}
	if v.State == "succeeded" || v.State == "failed" {
		a.end = fmt.Sprintf("%s %s %s%s", v.State, v.Reference, v.Result, more.Failure)
	}
	return a, err
}

// accept notes what a gateway answered to a call.
func (c *chaos) accept(in intent, v *view) {
	a, err := answerOf(v)
	if err != nil || a.key == "" || a.created == "" {
		c.t.Errorf("%+v: accepted with %s: %v", in, v.raw, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.keys[a.key]; ok && other != in {
		c.t.Errorf("intents %+v and %+v both got operation %s", other, in, a.key)
	}
	c.keys[a.key] = in
	h := c.answers[a]
	h.times++
	h.sure = h.sure || !v.Replayed && !v.Joined || !c.unsure()
	c.answers[a] = h
}

// kept compares all that clients were told with the ledger. It asks a gateway that
// has just started: others may have in mind what the ledger has lost.
//
// One loss is admitted, and counted: of a commit that waited for a standby in vain
// others may have read just before the primary was lost (docs/scale.md).
func (c *chaos) kept(gateway string) {
	t := c.t
	t.Helper()
	records := map[string]answer{}
	for key := range c.keys {
		v := mustRequest(t, http.MethodGet, gateway+"/v1/tool-calls/"+url.PathEscape(key), "")
		record, err := answerOf(v)
		if err != nil {
			t.Fatalf("%s: %d %s: %v", key, v.Status, v.raw, err)
		}
		records[key] = record
	}
	times, denied, forgotten := 0, 0, 0
	for told, h := range c.answers {
		times += h.times
		switch has := records[told.key]; {
		case told.created == has.created && (told.end == "" || told.end == has.end):
		case h.sure:
			denied++
			t.Errorf("clients were told %d times %+v, and the ledger has %+v", h.times, told, has)
		default:
			t.Logf("read before a failover, and forgotten: %+v; the ledger has %+v", told, has)
			forgotten++
		}
	}
	t.Logf("%d answers, %d of them different: the ledger denies %d, and has forgotten %d that were read before a failover", times, len(c.answers), denied, forgotten)
}
